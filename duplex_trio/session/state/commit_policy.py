"""What a commit of the user's sound comes to: refused, heard as nothing, answered, or kept for later.

`decide_commit` is a pure function. Carrying it out is the business of `commits` in the session.

A commit that asks for a response while one is in progress always waits for its end, whether or not its own
sound was spoken over it: there is one response at a time. One whose sound was spoken over a response that is
only still being *played* is answered at once: nothing would come that it could wait for.
"""

from __future__ import annotations

from enum import Enum

from attrs import frozen


class CommitAction(Enum):
    """What becomes of a commit."""

    REFUSE_EMPTY = "refuse_empty"
    """There is nothing to commit."""
    SILENT = "silent"
    """An item without words, no response; the session listens on."""
    ACKNOWLEDGE = "acknowledge"
    """Said while the assistant spoke, and too short to mean more than "go on": no item, no response."""
    DEFER_ACTIVE_RESPONSE = "defer_active_response"
    """An item; if it asks for a response, that begins when the one in progress is done."""
    START_AUTO_RESPONSE = "start_auto_response"
    """An item; a model that owns its turns hears the end of the user's turn, and answers or not."""
    COMMIT_ONLY = "commit_only"
    """An item, and the response that it asks for."""


@frozen(kw_only=True)
class CommitSituation:
    """A commit and what it is about. Times are ms of sound.

    Attributes:
        owns_turns: whether the model decides itself when to speak.
        has_audio: whether sound was appended since the last commit.
        heard_speech: whether there may be speech in it; true where nobody has judged.
        stated_speech: what the commit says about that.
        asks: whether the commit asks for a response.
        response_active: whether a response is in progress.
        playing: whether the sound of any response is still being played.
        overlap_speech_ms: how much of its speech came over a response.
        speech_ms: how much speech it holds, over a response or not.
        short_ack_ms: up to this long, speech over a response is an acknowledgement.
    """

    owns_turns: bool
    has_audio: bool
    heard_speech: bool
    stated_speech: bool | None = None
    asks: bool
    response_active: bool
    playing: bool
    overlap_speech_ms: float
    speech_ms: float
    short_ack_ms: float


def decide_commit(s: CommitSituation) -> CommitAction:
    """The decision about one commit."""
    if not s.has_audio and s.stated_speech is not False:
        return CommitAction.REFUSE_EMPTY
    speech = s.heard_speech if s.stated_speech is None else s.stated_speech
    if s.owns_turns:
        return CommitAction.START_AUTO_RESPONSE if speech else CommitAction.COMMIT_ONLY
    if not speech:
        return CommitAction.SILENT
    over_response = s.overlap_speech_ms > 0 and (s.response_active or s.playing)
    if over_response and max(s.overlap_speech_ms, s.speech_ms) <= s.short_ack_ms:
        return CommitAction.ACKNOWLEDGE
    if s.response_active and (over_response or s.asks):
        return CommitAction.DEFER_ACTIVE_RESPONSE
    return CommitAction.COMMIT_ONLY
