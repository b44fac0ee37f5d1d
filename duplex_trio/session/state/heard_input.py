"""What is known of the uncommitted sound, and of committed sound that waits for its answer.

`InputLedger` counts what the appends since the last commit held. `DeferredCommits` are the items that were
committed during a response and wait for its end. Both are changed by transitions that know why: sound comes,
is committed or dropped; a response begins, ends or is cut.
"""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define, field, frozen

TRANSCRIPT_CHARS_MAX = 100_000
"""Of clients' words about one utterance; more is not kept."""


@frozen(kw_only=True)
class HeardInput:
    """What the sound of one commit held, as it stood when the commit arrived. Times are ms of sound.

    Attributes:
        speech_ms: speech in it.
        overlap_speech_ms: speech of it that came over a response; 0 where that is not known.
        may_hold_speech: false when all of it was judged and none was speech.
        transcript: the client's words about it, or None if it gave none.
        playing: whether a response was in progress or still being played when the commit arrived.
    """

    speech_ms: float
    overlap_speech_ms: float
    may_hold_speech: bool
    transcript: str | None
    playing: bool


@define
class InputLedger:
    """The sound since the last commit.

    Attributes:
        speech_ms: speech in it, as far as it was judged.
        overlap_speech_ms: speech while a response was in progress or played.
        unjudged: some of it was taken without a verdict.
        over_response: the detector found its speech to begin over a response that was not cut.
        listens_until: sound before this position of the input line is only listened to, by the client's word.
    """

    speech_ms: float = 0.0
    overlap_speech_ms: float = 0.0
    unjudged: bool = False
    over_response: bool = False
    listens_until: int = 0
    _transcripts: list[str] = field(factory=list)
    _transcript_chars: int = 0
    _told: Hashable = None

    def note_transcript(self, text: str | None) -> None:
        """The client says what it believes was said in an append."""
        if text is None or not text.strip() or self._transcript_chars >= TRANSCRIPT_CHARS_MAX:
            return
        kept = text.strip()[: TRANSCRIPT_CHARS_MAX - self._transcript_chars]
        self._transcripts.append(kept)
        self._transcript_chars += len(kept)

    def tells(self, what: Hashable) -> bool:
        """Whether `what` is news, being other than what the client was told last about its sound."""
        if what == self._told:
            return False
        self._told = what
        return True

    def forget_told(self) -> None:
        """What was told last is no longer so."""
        self._told = None

    def snapshot(self, *, playing: bool) -> HeardInput:
        """What the sound so far held."""
        return HeardInput(
            speech_ms=self.speech_ms,
            # Where some sound has no verdict, how long the speech is cannot be told.
            overlap_speech_ms=0.0 if self.unjudged else self.overlap_speech_ms,
            may_hold_speech=self.unjudged or self.speech_ms > 0,
            transcript=" ".join(self._transcripts) or None,
            playing=playing,
        )

    def end_overlap(self) -> None:
        """No response is spoken over any more."""
        self.overlap_speech_ms = 0.0
        self.over_response = False

    def restart(self) -> None:
        """The sound was committed or dropped."""
        self.speech_ms = 0.0
        self.unjudged = False
        self._transcripts.clear()
        self._transcript_chars = 0
        self.end_overlap()


@define
class DeferredCommits:
    """User items committed during a response, and whether their answer waits for its end.

    If the response is cut or fails nothing waits for it any more: the items are part of the conversation, and
    whatever response begins next answers them.

    Args:
        items_max: most of them that are kept, which are the latest; a conversation forgets its oldest items too.

    Attributes:
        item_ids: them, in order.
        wanted: whether their answer begins by itself when the response in progress is done.
    """

    items_max: int = 1_000
    item_ids: list[str] = field(factory=list)
    wanted: bool = False

    def add(self, item_id: str, *, wanted: bool) -> None:
        """One more was committed; all of them get one answer."""
        self.item_ids.append(item_id)
        del self.item_ids[: -self.items_max]
        self.wanted |= wanted

    def clear(self) -> None:
        """Nothing waits for the end of a response."""
        self.item_ids.clear()
        self.wanted = False
