"""The ledgers of a session against a second opinion: epochs, responses, playback, heard text, conversation.

The second opinion plays sound with a player of its own, piece by piece, and interpolates heard text with numpy.
It knows nothing of cursors, marks and estimates. Hypothesis lets both go through the same things in any order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    AckPlayback,
    CreateItem,
    DeleteItem,
    InputTextPart,
    MessageItem,
    OutputAudioBufferCleared,
    RealtimeError,
    ResponseCreateOptions,
    ResponseDone,
    TruncateItem,
)
from duplex_trio.protocol.duplex.session import SessionDefaults, default_config
from duplex_trio.session.state.egress_queue import MediaEntry
from duplex_trio.session.state.engine_session import ACK_SLACK_S, DuplexEngineSession
from duplex_trio.session.state.input import clear_input, commit_audio, transcript_completed
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.session.state.items import (
    TRUNCATION_SLACK_MS,
    ack_playback,
    create_item,
    delete_item,
    truncate_item,
)
from duplex_trio.session.state.lease import DuplexLeaseState
from duplex_trio.session.state.response import Response
from duplex_trio.testing.invariants import check_ledgers

RATE_HZ = 24_000
BACK = st.sampled_from([0, 0, 1, 2, 9])
SHARES = st.sampled_from([0.0, 0.21, 0.5, 0.93, 1.0, 1.0, 1.5])
IDS = st.sampled_from(["a", "b", "c"])


@define(eq=False)
class Said:
    """A response as somebody at the other end of the line would describe it."""

    made: Response
    outside: bool
    pieces: list[tuple[str, int]] = field(factory=list)
    waiting: deque[MediaEntry] = field(factory=deque)
    sent_ms: float = 0.0
    played_ms: float = 0.0
    acked_ms: float = 0.0
    cap_ms: float = float("inf")
    ends_s: float = float("-inf")
    status: str | None = None
    cleared: bool = False
    told: str = ""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def at(self, share: float) -> int:
        """A position as a share of what was sent."""
        return int(share * self.sent_ms)

    def heard(self, milliseconds: float) -> str:
        ends_ms = np.cumsum([0, *(duration for _, duration in self.pieces)])
        ends_chars = np.cumsum([0, *(len(text) for text, _ in self.pieces)])
        return self.text[: int(np.interp(milliseconds, ends_ms, ends_chars) + 1e-6)]


def refusal(action: Callable[[], Any]) -> str | None:
    try:
        action()
    except RealtimeError as error:
        return error.code
    return None


class SessionMachine(RuleBasedStateMachine):
    """Both opinions side by side."""

    @initialize(acks=st.booleans())
    def open(self, acks: bool) -> None:
        counts = iter(range(10**9))
        dialect: Any = "duplex" if acks else "ga"
        self.acks = acks
        self.session = DuplexEngineSession(
            session_id="s",
            dialect=dialect,
            config=default_config(SessionDefaults(model="m", voice="v"), dialect),
            capabilities=DuplexCapabilities(),
            lease=DuplexLeaseState(300.0, 30.0, 0.0),
            timeline=InputTimeline(16_000, 1 << 22),
            output_sample_rate_hz=RATE_HZ,
            new_id=lambda prefix: f"{prefix}{next(counts):08d}",
            conversation_id="c",
            model_name="m",
        )
        self.now_s = 0.0
        self.epoch = self.turn = self.commits = 0
        self.all: list[Said] = []
        self.active: Said | None = None
        self.player: deque[tuple[Said, float]] = deque()
        self.items: list[tuple[str, Said | str]] = []
        self.appended = self.committed = 0
        self.pending: list[str] = []

    # ------------------------------------------------------------------ time

    @rule(tenths=st.sampled_from([1, 3, 10, 50]))
    def wait(self, tenths: int) -> None:
        # Never a round number, so that nothing ends in the very moment in which something is asked.
        seconds = tenths * 0.1 + 0.00137
        self.now_s += seconds
        left_ms = seconds * 1000
        while self.player and left_ms > 0:
            said, milliseconds = self.player.popleft()
            played = min(milliseconds, left_ms)
            said.played_ms += played
            left_ms -= played
            if played < milliseconds:
                self.player.appendleft((said, milliseconds - played))

    # ------------------------------------------------------------------ responses

    @rule(outside=st.booleans())
    def begin(self, outside: bool) -> None:
        options = ResponseCreateOptions(conversation="none" if outside else None)
        if self.active is not None:
            before = self.session.active
            code = refusal(lambda: self.session.begin_response(0, options, self.now_s))
            assert code == "conversation_already_has_active_response"
            assert self.session.active is before
            return
        self.turn += 1
        made = self.session.begin_response(self.session.next_turn(), options, self.now_s)
        self.active = Said(made, outside)
        self.all.append(self.active)
        if not outside:
            self.items.append((made.item_id, self.active))

    @rule(
        pieces=st.lists(
            st.tuples(st.text("abcdefgh", max_size=12), st.integers(1, 12)), min_size=1, max_size=3
        ),
        share=SHARES,
    )
    def say(self, pieces: list[tuple[str, int]], share: float) -> None:
        if self.active is None:
            self.begin(outside=False)
        said = self.active
        assert said is not None
        for text, tenths in pieces:
            said.pieces.append((text, tenths * 100))
            said.waiting.extend(said.made.speech(np.zeros(RATE_HZ * tenths // 10, np.float32), RATE_HZ, text))
        self.send(share)

    @precondition(lambda self: self.active)
    @rule(share=SHARES)
    def send(self, share: float) -> None:
        said = self.active
        assert said is not None
        for _ in range(math.ceil(min(1.0, share) * len(said.waiting))):
            entry = said.waiting.popleft()
            if entry.duration_ms > 0:
                self.session.note_sent(said.made, entry.duration_ms, self.now_s)
                said.sent_ms += entry.duration_ms
                self.player.append((said, entry.duration_ms))
                said.ends_s = self.now_s + sum(milliseconds for _, milliseconds in self.player) / 1000
            said.made.note_sent(entry)

    @precondition(lambda self: self.active)
    @rule()
    def complete(self) -> None:
        said = self.active
        assert said is not None
        self.send(1.0)
        events = self.session.complete_response(said.made, self.now_s)
        self._ended(said, events, "completed")
        if self.acks or said.cap_ms < float("inf"):
            said.told = said.heard(self._heard_ms(said))
        else:
            said.told = said.text

    @precondition(lambda self: self.active)
    @rule()
    def fail(self) -> None:
        said = self.active
        assert said is not None
        told = said.heard(self._heard_ms(said))
        events = self.session.fail_response(said.made, RealtimeError("engine_error", "broken"), self.now_s)
        self._ended(said, events, "failed")
        said.told = told

    @precondition(lambda self: self.all)
    @rule(
        reason=st.sampled_from(["client_cancelled", "barge_in", "turn_detected", "output_audio_buffer_clear"])
    )
    def cancel(self, reason: Any) -> None:
        playing = [said for said in self._kept() if self._plays(said)]
        told = [said.heard(self._heard_ms(said)) for said in playing]
        said = self.active
        told_now = said.heard(self._heard_ms(said)) if said is not None else ""
        self.epoch += 1
        cancellation = self.session.cancel(reason, self.now_s)
        assert cancellation.epoch == self.epoch
        cleared = [e.response_id for e in cancellation.events if isinstance(e, OutputAudioBufferCleared)]
        assert cleared == [one.made.response_id for one in playing]
        for one, text in zip(playing, told, strict=True):
            one.cleared = True
            one.told = text
        if said is not None:
            self._ended(said, cancellation.events, "cancelled")
            said.told = told_now
        self.player.clear()

    @rule(back=BACK)
    def silence(self, back: int) -> None:
        """Stop the sound of one response that has ended; what was sent behind it moves up."""
        said = self._back(back)
        if said is None or said is self.active or said.cleared:
            return
        told, plays = said.heard(self._heard_ms(said)), self._plays(said)
        self.session.stop_playing(said.made, self.now_s)
        said.cleared = True
        # What failed was told up to then, and has been heard on until now, perhaps to the end of what was sent.
        if self.acks or plays or said.status == "failed":
            said.told = told
        self.player = deque((one, milliseconds) for one, milliseconds in self.player if one is not said)
        ends_s = self.now_s
        for one, milliseconds in self.player:
            ends_s += milliseconds / 1000
            one.ends_s = ends_s

    def _ended(self, said: Said, events: Any, status: str) -> None:
        (done,) = (event for event in events if isinstance(event, ResponseDone))
        assert (done.response.id, done.response.status) == (said.made.response_id, status)
        said.status = status
        said.waiting.clear()
        self.active = None

    # ------------------------------------------------------------------ playback

    @rule(back=BACK, share=SHARES)
    def acknowledge(self, back: int, share: float) -> None:
        said = self._back(back)
        response_id, played_ms = ("nobodys", 0) if said is None else (said.made.response_id, said.at(share))
        command = AckPlayback(response_id=response_id, played_ms=played_ms)
        code = refusal(lambda: ack_playback(self.session, command))
        assert code == (None if said is not None else "playback_item_not_found")
        if said is not None:
            said.acked_ms = max(said.acked_ms, min(played_ms, said.cap_ms))
            self._credit(said)

    @rule(back=BACK, share=SHARES)
    def truncate(self, back: int, share: float) -> None:
        said = self._back(back)
        item_id, audio_end_ms = ("nowhere", 0) if said is None else (said.made.item_id, said.at(share))
        command = TruncateItem(item_id=item_id, audio_end_ms=audio_end_ms)
        code = refusal(lambda: truncate_item(self.session, command))
        if said is None or not any(one is said for _, one in self.items):
            assert code == "item_not_found"
            return
        if audio_end_ms > said.sent_ms + TRUNCATION_SLACK_MS:
            assert code == "bad_event"
            return
        assert code is None
        made_ms = sum(duration for _, duration in said.pieces)
        said.cap_ms = said.acked_ms = min(said.cap_ms, audio_end_ms, made_ms)
        self._credit(said)

    def _credit(self, said: Said) -> None:
        if said.status is not None and (self.acks or said.cap_ms < float("inf")):
            said.told = said.heard(min(said.acked_ms, said.sent_ms))

    def _heard_ms(self, said: Said) -> float:
        if self.acks:
            return min(said.acked_ms, said.sent_ms)
        return min(said.played_ms, said.cap_ms)

    def _plays(self, said: Said) -> bool:
        if said.cleared or not said.sent_ms:
            return False
        if self.acks:
            return said.sent_ms > said.acked_ms and self.now_s < said.ends_s + ACK_SLACK_S
        return any(one is said for one, _ in self.player)

    def _kept(self) -> list[Said]:
        ended = [said for said in self.all if said.status is not None]
        kept = ended[-self.session.limits.ended_responses_max :]
        return kept if self.active is None else [*kept, self.active]

    def _back(self, back: int) -> Said | None:
        kept = self._kept()
        return kept[-1 - back] if back < len(kept) else None

    # ------------------------------------------------------------------ conversation and input

    @rule(item_id=IDS, place=st.sampled_from([None, "root", "a", "b", "nowhere"]))
    def write(self, item_id: str, place: str | None) -> None:
        item = MessageItem(id=item_id, role="user", content=(InputTextPart("words"),))
        code = refusal(lambda: create_item(self.session, CreateItem(item=item, previous_item_id=place)))
        ids = [known for known, _ in self.items]
        if item_id in ids:
            assert code == "item_create_duplicate_item_id"
        elif place not in (None, "root", *ids):
            assert code == "item_not_found"
        else:
            assert code is None
            index = {None: len(ids), "root": 0}.get(place)
            self.items.insert(ids.index(str(place)) + 1 if index is None else index, (item_id, "words"))

    @rule(index=st.integers(0, 9))
    def delete(self, index: int) -> None:
        known = index < len(self.items)
        item_id = self.items[index][0] if known else "nowhere"
        code = refusal(lambda: delete_item(self.session, DeleteItem(item_id=item_id)))
        assert code == (None if known else "item_not_found")
        if known:
            del self.items[index]
            self.pending = [other for other in self.pending if other != item_id]

    @rule(samples=st.integers(0, 5000))
    def append(self, samples: int) -> None:
        self.session.timeline.append(np.zeros(samples, np.float32), self.now_s)
        self.appended += samples

    @precondition(lambda self: self.appended > self.committed)
    @rule()
    def commit(self) -> None:
        timeline = self.session.timeline
        committed = commit_audio(self.session, timeline.start, timeline.end)
        assert len(committed.pcm) == self.appended - self.committed
        self.committed = self.appended
        self.commits += 1
        self.items.append((committed.item_id, ""))
        self.pending.append(committed.item_id)

    @rule()
    def clear(self) -> None:
        clear_input(self.session)
        self.committed = self.appended

    @precondition(lambda self: self.pending)
    @rule()
    def transcribe(self) -> None:
        item_id = self.pending.pop(0)
        assert transcript_completed(self.session, item_id, "heard words", 1.0)
        self.items = [(known, "heard words" if known == item_id else text) for known, text in self.items]

    # ------------------------------------------------------------------ what both must agree on

    @invariant()
    def the_ledgers_are_in_order(self) -> None:
        check_ledgers(self.session, self.now_s)

    @invariant()
    def the_counts_agree(self) -> None:
        session = self.session
        assert (session.epoch, session.turn_id, session.commit_seq) == (self.epoch, self.turn, self.commits)
        assert session.active is (self.active.made if self.active is not None else None)
        assert (session.timeline.end, session.timeline.committed) == (self.appended, self.committed)
        assert session.conversation.pending_transcripts == set(self.pending)
        known = [said.made.response_id for said in reversed(self._kept())]
        assert [response.response_id for response in session.responses_newest_first()] == known

    @invariant()
    def the_conversations_agree(self) -> None:
        entries = list(self.session.conversation.entries())
        assert [entry.item.id for entry in entries] == [item_id for item_id, _ in self.items]
        for entry, (_, content) in zip(entries, self.items, strict=True):
            told = content.told if isinstance(content, Said) else content
            # Where a position falls between two letters, rounding may decide.
            assert told.startswith(entry.text) or entry.text.startswith(told), (told, entry.text)
            assert abs(len(told) - len(entry.text)) <= 1, (told, entry.text)

    @invariant()
    def what_plays_agrees(self) -> None:
        playing = [said.made for said in self._kept() if self._plays(said)]
        assert self.session.unplayed(self.now_s) == playing


def profile(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=50,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_both_opinions_agree() -> None:
    """After every step, whatever happened before."""
    run_state_machine_as_test(SessionMachine, settings=profile(10))


@pytest.mark.slow
def test_both_opinions_agree_at_length() -> None:
    """The same, often enough to find a truncation that is forgotten or a player that goes on."""
    run_state_machine_as_test(SessionMachine, settings=profile(500))
