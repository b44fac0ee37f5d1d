"""The client's account of a video against the server's: whatever happens, the two never contradict each other."""

from __future__ import annotations

from collections import deque
from fractions import Fraction

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.clients.video.interactions import Interactions
from duplex_trio.clients.video.record import Ask, VideoRecord
from duplex_trio.deploy import VideoSessionDeploy
from duplex_trio.protocol.video import (
    InteractionQueued,
    SessionDone,
    SessionInteraction,
    VideoErrorEvent,
    VideoEvent,
    VideoStarted,
    encode_event,
)
from duplex_trio.video.encoders.encoder import EncodedPayload
from duplex_trio.video.state.pairs import PairBook
from duplex_trio.video.state.steering import VideoSteering

REQUEST = "video_stream-1"
LIMITS = VideoSessionDeploy(interactions_per_s=1e6, interactions_burst=1_000_000)


def mix(source: Fraction, target: Fraction, alpha: Fraction) -> Fraction:
    return source + (target - source) * alpha


@define
class Both:
    """The steering of a server, and the record of its client."""

    steering: VideoSteering[Fraction] = field(
        factory=lambda: VideoSteering(mix, default_transition_chunks=3, supports_updates=True, limits=LIMITS)
    )
    book: PairBook = field(factory=lambda: PairBook(REQUEST))
    record: VideoRecord = field(factory=VideoRecord)
    preparing: deque[str] = field(factory=deque)
    asked: int = 0
    frames: int = 0

    def begin(self) -> None:
        self.steering.begin(Fraction(0))
        self.say(
            VideoStarted(
                request_id=REQUEST,
                format="m4s",
                mime_type="video/mp4",
                config={},
                chunk_frames=9,
                default_transition_chunks=3,
                supports_interaction=True,
            )
        )

    def say(self, event: VideoEvent) -> None:
        assert self.record.take(encode_event(event).decode()) is None

    def ask(self, transition: int) -> None:
        self.asked += 1
        name = f"e{self.asked}"
        self.record.asked.append(Ask(name, name, None))
        self.record.interactions.sent(name, name)
        interaction = SessionInteraction(event_id=name, event={"prompt": name}, transition_chunks=transition)
        assert self.steering.admit(interaction, now_s=self.asked, new_id=str).prepare
        self.say(InteractionQueued(request_id=REQUEST, event_id=name))
        self.preparing.append(name)

    def prepare(self, fails: bool) -> None:
        if not self.preparing:
            return
        name = self.preparing.popleft()
        if fails:
            assert self.steering.failed(name)
            self.say(VideoErrorEvent(code="interaction_failed", message="no", event_id=name))
        else:
            self.steering.prepared(name, Fraction(self.asked))

    def chunk(self, payloads: int) -> None:
        chunk = self.steering.next_chunk(last=False)
        self.book.resolved(chunk)
        for number in range(payloads):
            last = number == payloads - 1
            metadata = self.book.media(EncodedPayload(chunk.index, b"x", 9 if last else 0, last))
            self.frames += metadata.num_frames
            self.say(metadata)
            assert self.record.take(b"x") is not None

    def end(self) -> None:
        for name in self.steering.end(stopped=True):
            self.say(VideoErrorEvent(code="interaction_failed", message="ending", event_id=name))
        self.check()
        self.say(
            SessionDone(
                request_id=REQUEST,
                chunks=self.book.pairs,
                stopped=True,
                frames=self.frames,
                interactions=self.steering.outcomes(),
            )
        )

    def check(self) -> None:
        outcomes = self.steering.outcomes()
        for name, interaction in self.record.interactions.by_id.items():
            if interaction.over:
                assert interaction.state == outcomes[name], name


STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 4)),
    st.tuples(st.just("prepare"), st.booleans()),
    st.tuples(st.just("prepare"), st.just(False)),
    st.tuples(st.just("chunk"), st.integers(1, 3)),
)


@given(st.lists(STEPS, max_size=40))
def test_the_client_never_contradicts_the_server(steps: list[tuple[str, int]]) -> None:
    both = Both()
    both.begin()
    for step, value in steps:
        if step == "ask":
            both.ask(value)
        elif step == "prepare":
            both.prepare(bool(value))
        else:
            both.chunk(value)
    known = {name: each.state for name, each in both.record.interactions.by_id.items() if each.over}
    both.end()
    outcomes = both.steering.outcomes()
    told = {name: each.state for name, each in both.record.interactions.by_id.items()}
    assert told == outcomes
    assert known.items() <= told.items(), "what was over stays as it was"
    for name, state in outcomes.items():
        begun = both.record.interactions.by_id[name].started_chunk
        assert (begun is not None) or state in ("superseded", "unfinished", "failed")


def test_only_what_is_over_is_forgotten() -> None:
    interactions = Interactions(remembered_max=2)
    for name in ("a", "b"):
        interactions.sent(name, name)
        interactions.queued(name, name)
    interactions.sent("c", "c")
    assert list(interactions.by_id) == ["a", "b", "c"]
    assert interactions.failed("a", "no")
    interactions.sent("d", "d")
    assert list(interactions.by_id) == ["b", "c", "d"]
    assert not interactions.failed("d", "not admitted")


def test_a_failed_one_may_be_sent_again_as_another() -> None:
    interactions = Interactions()
    interactions.sent("a", "rain")
    interactions.queued("a", "rain")
    interactions.failed("a", "no")
    again = interactions.sent("a", "snow")
    assert (again.prompt, again.state, again.error) == ("snow", "sent", None)
    interactions.refused("a")
    assert not interactions.by_id
