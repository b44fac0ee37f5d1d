"""Which interactions are taken, in words of the wire: the vectors of video.md 4.3 that need no wire."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import pytest

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.protocol.video import SessionInteraction, VideoRefused
from duplex_trio.video.state.steering import NO_UPDATES, Admission, VideoSteering
from duplex_trio.video.state.timeline import ResolvedChunk


def blend(source: str, target: str, alpha: Fraction) -> str:
    return f"({source} {alpha} {target})"


def a_video(*, supports_updates: bool = True, **limits: float) -> VideoSteering[str]:
    steering = VideoSteering[str](
        blend,
        default_transition_chunks=3,
        supports_updates=supports_updates,
        limits=VideoSessionDeploy(**limits),  # type: ignore[arg-type]
    )
    steering.begin("P0")
    return steering


def asks(
    event_id: str | None, prompt: str = "x", chunks: int | None = 0, **others: object
) -> SessionInteraction:
    return SessionInteraction(event_id=event_id, event={"prompt": prompt, **others}, transition_chunks=chunks)


def no_id() -> str:
    raise AssertionError("it has an id")


def admit(steering: VideoSteering[str], interaction: SessionInteraction, *, now_s: float = 0.0) -> Admission:
    return steering.admit(interaction, now_s=now_s, new_id=no_id)


def update(steering: VideoSteering[str], event_id: str, prompt: str = "x", chunks: int | None = 0) -> None:
    assert admit(steering, asks(event_id, prompt, chunks)) == Admission(event_id=event_id, prepare=True)
    assert steering.prepared(event_id, prompt)


def refusal(
    steering: VideoSteering[str], interaction: SessionInteraction, *, now_s: float = 0.0
) -> tuple[str, str | None, str | None]:
    with pytest.raises(VideoRefused) as caught:
        admit(steering, interaction, now_s=now_s)
    return caught.value.code, caught.value.event_id, caught.value.param


def ids(chunk: ResolvedChunk[str]) -> tuple[tuple[str, ...], ...]:
    return chunk.started, chunk.active, chunk.completed


def at_the_end(steering: VideoSteering[str]) -> dict[str, str]:
    steering.end(stopped=False)
    return dict(steering.outcomes())


AGAIN = Admission(event_id="a", prepare=False)
NOTHING = ((), (), ())
AT_ONCE = (("a",), ("a",), ("a",))


def test_w1_a_retry_is_acknowledged_and_applied_once() -> None:
    steering = a_video()
    admit(steering, asks("a"))
    assert admit(steering, asks("a")) == AGAIN
    steering.prepared("a", "x")
    assert admit(steering, asks("a")) == AGAIN
    assert ids(steering.next_chunk(last=False)) == AT_ONCE
    assert ids(steering.next_chunk(last=False)) == NOTHING


def test_w2_a_retry_after_completion_changes_nothing() -> None:
    steering = a_video()
    update(steering, "a")
    steering.next_chunk(last=False)
    assert admit(steering, asks("a")) == AGAIN
    assert not steering.prepared("a", "x")
    assert ids(steering.next_chunk(last=False)) == NOTHING


def test_w3_another_payload_under_the_same_id_is_a_conflict() -> None:
    steering = a_video()
    admit(steering, asks("a", "x"))
    assert refusal(steering, asks("a", "y")) == ("event_id_conflict", "a", "interaction.event_id")
    steering.prepared("a", "x")
    assert steering.next_chunk(last=False).state == "x"


def test_w4_a_default_length_that_is_spelt_out_is_another_payload() -> None:
    steering = a_video()
    admit(steering, asks("a", chunks=None))
    assert refusal(steering, asks("a", chunks=3))[0] == "event_id_conflict"


def test_w5_the_order_of_keys_is_no_difference() -> None:
    steering = a_video()
    admit(steering, SessionInteraction(event_id="a", event={"prompt": "x", "k": 1}, transition_chunks=3))
    other = SessionInteraction(event_id="a", event={"k": 1.0, "prompt": "x"}, transition_chunks=3)
    assert admit(steering, other) == AGAIN


def test_w6_without_an_id_each_one_is_new() -> None:
    steering = a_video()
    numbers = count()
    made = [
        steering.admit(asks(None), now_s=0.0, new_id=lambda: f"made-{next(numbers)}").event_id
        for _ in range(2)
    ]
    assert made == ["made-0", "made-1"]
    for event_id in made:
        steering.prepared(event_id, "x")
    assert steering.next_chunk(last=False).started == ("made-1",)
    assert at_the_end(steering) == {"made-0": "superseded", "made-1": "completed"}


def test_w9_the_id_of_a_failed_one_is_free_for_anything() -> None:
    steering = a_video()
    admit(steering, asks("a", negative_prompt="y"))
    assert steering.failed("a")
    assert not steering.failed("a")
    assert not steering.prepared("a", "x")
    assert steering.outcomes() == {"a": "failed"}
    update(steering, "a", "other")
    assert steering.next_chunk(last=False).state == "other"
    assert at_the_end(steering) == {"a": "completed"}


def test_w10_a_newer_one_that_fails_leaves_the_older_one_in_force() -> None:
    steering = a_video()
    update(steering, "a")
    admit(steering, asks("b", multi_modal_data={}))
    steering.failed("b")
    assert ids(steering.next_chunk(last=False)) == AT_ONCE


def test_supersession_waits_until_the_newer_one_is_ready() -> None:
    """One in preparation lets the older one start; it comes after it."""
    steering = a_video()
    update(steering, "a")
    admit(steering, asks("b", "y"))
    assert ids(steering.next_chunk(last=False)) == AT_ONCE
    steering.prepared("b", "y")
    assert steering.next_chunk(last=False).started == ("b",)
    assert at_the_end(steering) == {"a": "completed", "b": "completed"}


def test_w11_a_model_without_updates_fails_each_one_behind_its_acknowledgement() -> None:
    steering = a_video(supports_updates=False)
    for _ in range(2):
        admission = admit(steering, asks("a"))
        assert (admission.event_id, admission.prepare) == ("a", False)
        assert admission.failure is not None
        assert (admission.failure.code, admission.failure.event_id) == ("interaction_failed", "a")
        assert admission.failure.message == NO_UPDATES
    assert steering.outcomes() == {"a": "failed"}
    assert steering.counts() == {"failed": 2}


def test_w12_so_many_may_wait_and_no_more() -> None:
    """The next one is told to come again, and is taken once there is room."""
    steering = a_video()
    for number in range(16):
        admit(steering, asks(f"i{number}"))
    late = asks("late")
    assert refusal(steering, late) == ("input_backpressure", "late", None)
    assert "late" not in steering.outcomes()
    steering.prepared("i0", "x")
    assert admit(steering, late).prepare
    assert refusal(steering, asks("later"))[0] == "input_backpressure"
    steering.failed("i1")
    assert admit(steering, asks("later")).prepare


def test_w13_a_superseded_one_stays_dead_when_it_is_retried() -> None:
    steering = a_video()
    update(steering, "a")
    update(steering, "b", "y")
    assert admit(steering, asks("a")) == AGAIN
    assert steering.next_chunk(last=False).active == ("b",)
    assert steering.next_chunk(last=False).active == ()
    assert steering.outcomes() == {"a": "superseded", "b": "completed"}


def test_w14_after_the_last_boundary_nothing_new_is_taken() -> None:
    """What was taken before is acknowledged again, or is a conflict still: it has had its effect."""
    steering = a_video()
    update(steering, "a")
    steering.next_chunk(last=True)
    steering.close_boundaries()
    assert refusal(steering, asks("b")) == ("interaction_failed", "b", None)
    assert refusal(steering, asks(None)) == ("interaction_failed", None, None)
    assert admit(steering, asks("a")) == AGAIN
    assert refusal(steering, asks("a", "y"))[0] == "event_id_conflict"
    assert at_the_end(steering) == {"a": "completed"}


def test_what_is_in_preparation_at_the_last_boundary_fails() -> None:
    """Once, and what comes of its preparation later is of no effect."""
    steering = a_video()
    for name in "ab":
        admit(steering, asks(name))
    update(steering, "c")
    steering.next_chunk(last=True)
    assert not steering.prepared("a", "x")
    assert steering.close_boundaries() == ("a", "b")
    assert steering.close_boundaries() == ()
    assert not steering.prepared("a", "x")
    assert not steering.failed("b")
    assert steering.end(stopped=False) == ()
    assert steering.outcomes() == {"c": "completed", "a": "failed", "b": "failed"}


def test_w17_a_stopped_video_takes_nothing_new() -> None:
    """However many come: they are not told to come again."""
    steering = a_video()
    admit(steering, asks("a"))
    steering.next_chunk(last=False)
    assert steering.end(stopped=True) == ("a",)
    assert {refusal(steering, asks(f"b{number}"))[0] for number in range(100)} == {"interaction_failed"}
    with pytest.raises(VideoRefused, match="stopped"):
        admit(steering, asks("b"))


def test_the_end_leaves_unfinished_what_was_under_way() -> None:
    """One that runs, and one that was ready and never began."""
    steering = a_video()
    update(steering, "a", chunks=5)
    steering.next_chunk(last=False)
    update(steering, "b", "y")
    assert steering.outcomes() == {"a": "queued", "b": "queued"}
    steering.end(stopped=True)
    assert steering.outcomes() == {"a": "unfinished", "b": "unfinished"}
    assert steering.counts() == {"unfinished": 2}


def test_what_a_chunk_did_that_nobody_will_see_is_unfinished() -> None:
    """Stopped while it is rendered: what it interrupts and what it completes at once never were on a screen."""
    steering = a_video()
    update(steering, "old", chunks=5)
    steering.next_chunk(last=False)
    update(steering, "a")
    chunk = steering.next_chunk(last=False)
    assert (ids(chunk), chunk.interrupted) == (AT_ONCE, ("old",))
    steering.discard_chunk()
    assert steering.end(stopped=True) == ()
    assert steering.outcomes() == {"old": "unfinished", "a": "unfinished"}


def test_a_chunk_that_is_sent_keeps_what_it_did() -> None:
    """Only the last one can be lost."""
    steering = a_video()
    update(steering, "a")
    steering.next_chunk(last=False)
    steering.next_chunk(last=False)
    steering.discard_chunk()
    steering.end(stopped=True)
    assert steering.outcomes() == {"a": "completed"}


@pytest.mark.parametrize("end", ["stop", "discard and stop", "end"])
def test_a_video_may_end_before_its_first_chunk(end: str) -> None:
    steering = a_video()
    update(steering, "a")
    if end == "discard and stop":
        steering.discard_chunk()
    assert steering.end(stopped=end != "end") == ()
    assert steering.outcomes() == {"a": "unfinished"}


def test_a_flood_is_held_to_its_rate() -> None:
    """40 at once, then 20 a second; a retry and a conflict take nothing of it."""
    steering = a_video()
    for number in range(40):
        update(steering, f"i{number}")
    for _ in range(50):
        assert not admit(steering, asks("i0")).prepare
        assert refusal(steering, asks("i0", "y"))[0] == "event_id_conflict"
    assert refusal(steering, asks("over")) == ("input_backpressure", "over", None)
    assert refusal(steering, asks("over"), now_s=0.049)[0] == "input_backpressure"
    assert admit(steering, asks("over"), now_s=0.05).prepare
    assert refusal(steering, asks("more"), now_s=0.05)[0] == "input_backpressure"


def test_a_refused_one_takes_nothing_of_the_rate() -> None:
    """Neither for lack of room, nor for being told to come again."""
    steering = a_video(preparing_max=1, interactions_burst=2, interactions_per_s=1)
    admit(steering, asks("a"))
    for _ in range(10):
        assert refusal(steering, asks("b"))[0] == "input_backpressure"
    steering.prepared("a", "x")
    assert admit(steering, asks("b")).prepare


def test_a_full_ledger_forgets_the_oldest_that_is_over() -> None:
    """Its id is new then; one that is under way is never forgotten."""
    steering = a_video(ids_max=3)
    update(steering, "runs", chunks=9)
    steering.next_chunk(last=False)
    for name in "abc":
        update(steering, name, chunks=0)
    assert set(steering.outcomes()) == {"runs", "b", "c"}
    steering.next_chunk(last=False)
    steering.next_chunk(last=False)
    assert admit(steering, asks("a", "another payload")).prepare
    assert steering.outcomes() == {"b": "superseded", "c": "completed", "a": "queued"}
    assert steering.counts() == {"interrupted": 1, "superseded": 2, "completed": 1, "queued": 1}


def test_a_ledger_full_of_live_ones_refuses() -> None:
    """Nothing is recorded of it."""
    steering = a_video(ids_max=2)
    admit(steering, asks("a"))
    update(steering, "b")
    assert refusal(steering, asks("c")) == ("resource_exhausted", "c", None)
    assert steering.outcomes() == {"a": "queued", "b": "queued"}
    steering.next_chunk(last=False)
    assert refusal(steering, asks("c"))[0] == "resource_exhausted"
    steering.next_chunk(last=False)
    assert admit(steering, asks("c")).prepare
    assert steering.outcomes() == {"a": "queued", "c": "queued"}


def test_what_a_chunk_does_is_settled_with_the_next_one() -> None:
    """Until then it may be lost: the id is not forgotten, so that it can still be told that it was."""
    steering = a_video(ids_max=1)
    update(steering, "a")
    steering.next_chunk(last=False)
    assert refusal(steering, asks("b"))[0] == "resource_exhausted"
    steering.discard_chunk()
    assert at_the_end(steering) == {"a": "unfinished"}


@pytest.mark.parametrize(
    ("stage", "answers"),
    [
        ("known", ["event_id_conflict"]),
        ("ended", ["interaction_failed"]),
        ("full", ["input_backpressure"]),
        ("exhausted", ["resource_exhausted"]),
    ],
)
def test_which_of_several_faults_is_told(stage: str, answers: list[str]) -> None:
    """A conflict before the end, the end before the room, the room before the ledger."""
    steering = a_video(ids_max=1, preparing_max=1 if stage != "exhausted" else 9)
    admit(steering, asks("a"))
    asked = asks("a", "y") if stage == "known" else asks("b")
    if stage in ("known", "ended"):
        steering.next_chunk(last=True)
    assert [refusal(steering, asked)[0]] == answers


def test_no_state_is_mixed_that_nobody_sees() -> None:
    """A hard update in the middle of a transition replaces it unmixed: mixing costs a model time."""
    mixed: list[Fraction] = []

    def counted(source: str, target: str, alpha: Fraction) -> str:
        mixed.append(alpha)
        return target

    steering = VideoSteering[str](
        counted, default_transition_chunks=3, supports_updates=True, limits=VideoSessionDeploy()
    )
    steering.begin("P0")
    update(steering, "a", chunks=4)
    steering.next_chunk(last=False)
    update(steering, "b", chunks=0)
    steering.next_chunk(last=False)
    steering.next_chunk(last=False)
    assert mixed == [Fraction(1, 4)]


@pytest.mark.parametrize("interrupting", [False, True])
def test_what_was_under_way_when_a_model_could_not_mix_is_unfinished(interrupting: bool) -> None:
    """Both the one whose transition goes on and the one that would have begun, which nobody sees any more."""
    works = True

    def mixed(source: str, target: str, alpha: Fraction) -> str:
        if not works:
            raise RuntimeError("scripted blend")
        return target

    steering = VideoSteering[str](
        mixed, default_transition_chunks=3, supports_updates=True, limits=VideoSessionDeploy()
    )
    steering.begin("P0")
    update(steering, "a", chunks=4)
    steering.next_chunk(last=False)
    if interrupting:
        update(steering, "b", chunks=4)
    works = False
    with pytest.raises(RuntimeError):
        steering.next_chunk(last=False)
    steering.end(stopped=False)
    assert steering.counts() == {"unfinished": 1 + interrupting}
