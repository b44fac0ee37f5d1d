"""The parts of the `video` command that need no server: times, what is sent when, the file, and what is shown."""

from __future__ import annotations

import io
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.video.file import ClipFile
from duplex_trio.cli.video.result import ClipResult, TurnResult, turn_results
from duplex_trio.cli.video.steering import Steering, lead_of, plan_turns
from duplex_trio.cli.video.times import parse_length, parse_size, parse_time, shown_time
from duplex_trio.cli.video.view import LineView, LiveView, Progressed, SilentView, choose_view
from duplex_trio.clients.video import Interaction
from duplex_trio.video.state.pacing import PlaybackPace

# ---------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3s", 3), ("1.5", 1.5), ("500ms", 0.5), (" 2 s ", 2), (".25s", 0.25), ("2m", 120), ("0", 0), ("3.", 3)],
)
def test_a_time(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "3 h", "1e3", "nan", "inf", "1,5s", "3s4s", "٣s", "9999999s", "ms"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        parse_time(text)


def test_a_length_is_not_nothing() -> None:
    assert parse_length("1s") == 1
    with pytest.raises(ArgumentTypeError, match="longer than nothing"):
        parse_length("0s")


def test_a_size() -> None:
    assert parse_size("512x256") == parse_size(" 512X256") == (512, 256)
    for wrong in ("512", "512x", "x512", "-1x5", "512*512", "1234567x1"):
        with pytest.raises(ArgumentTypeError, match="write it as 512x512"):
            parse_size(wrong)


@given(st.floats(0, 86_000))
def test_a_shown_time_is_read_again(seconds: float) -> None:
    assert parse_time(shown_time(seconds)) == pytest.approx(seconds, abs=0.0051)


# ---------------------------------------------------------------------- what is sent when


def test_changes_come_in_the_order_of_their_times() -> None:
    turns = plan_turns([(3, "c"), (1, "a"), (2, "b"), (1, "a2")])
    assert [(turn.at_s, turn.prompt) for turn in turns] == [(1, "a"), (1, "a2"), (2, "b"), (3, "c")]
    assert len({turn.event_id for turn in turns}) == 4


def test_a_change_is_due_when_all_before_its_chunk_has_come() -> None:
    steering = Steering(plan_turns([(3, "a")]), chunk_frames=8, fps=16)
    assert steering.due(47) is None
    turn = steering.due(48)
    assert turn is not None
    assert turn.prompt == "a"
    steering.ready()
    assert steering.due(480) is None


def test_times_that_chunks_meet_exactly_are_met_in_spite_of_rounding() -> None:
    steering = Steering(plan_turns([(3.0000000001, "a")]), chunk_frames=9, fps=24)
    assert steering.due(72) is not None


def test_changes_of_the_same_time_begin_one_chunk_after_the_other() -> None:
    steering = Steering(plan_turns([(0, "a"), (0, "b"), (0.7, "c")]), chunk_frames=8, fps=16)
    for chunk in (1, 2, 3):
        assert steering.due(8 * chunk - 1) is None
        assert steering.due(8 * chunk) is not None
        steering.ready()


@given(
    st.lists(st.floats(0, 8), min_size=1, max_size=6),
    st.integers(1, 33),
    st.floats(1, 60),
    st.floats(0, 0.99),
)
def test_generation_is_held_before_the_chunk_of_a_change_and_only_there(
    times: list[float], chunk_frames: int, fps: float, late: float
) -> None:
    turns = plan_turns((time, "x") for time in times)
    steering = Steering(turns, chunk_frames=chunk_frames, fps=fps)
    pace = PlaybackPace(fps=fps, lead_s=lead_of(turns))
    chunk, now_s = 0, 0.0
    while steering.due(10**9) is not None:
        frames = chunk * chunk_frames
        pace.wait_s(frames, now_s)
        pace.playback(steering.played_s(frames), now_s)
        if steering.due(frames):
            now_s += steering.told_again_s * (1 + late)  # the next report comes late
            assert pace.wait_s(frames, now_s) > 0, "held"
            steering.ready()
        else:
            assert pace.wait_s(frames, now_s) < 1e-6, "not held"
            chunk += 1


def test_what_came_of_each_prompt() -> None:
    turns = plan_turns([(1, "a"), (2, "b"), (3, "c")])
    shown = Interaction("then-1", "a", "completed", None, 2, 16, 4, 32)
    results = turn_results(turns, {"then-1": shown}, {"then-2": "no"}, fps=16)
    assert results == [
        TurnResult("a", 1, "completed", 1.0, 2.0),
        TurnResult("b", 2, "refused", error="no"),
        TurnResult("c", 3, "not sent"),
    ]


# ---------------------------------------------------------------------- the file


async def test_the_file_grows_by_whole_payloads_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"an older and longer one")
    file = ClipFile(path)
    assert path.read_bytes() == b"an older and longer one"
    await file.append(b"one")
    assert path.read_bytes() == b"one"
    await file.append(b"two")
    assert (path.read_bytes(), file.size_bytes) == (b"onetwo", 6)
    file.close()


async def test_a_file_that_nothing_came_into_is_as_before(tmp_path: Path) -> None:
    old, new = tmp_path / "old.mp4", tmp_path / "new.mp4"
    old.write_bytes(b"old")
    ClipFile(old).close()
    ClipFile(new).close()
    assert old.read_bytes() == b"old"
    assert not new.exists()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        ClipFile(tmp_path / "nowhere" / "clip.mp4")
    with pytest.raises(CommandError, match="Is a directory"):
        ClipFile(tmp_path)


async def test_a_full_disk() -> None:
    file = ClipFile(Path("/dev/full"))
    try:
        with pytest.raises(CommandError, match="/dev/full: No space left"):
            await file.append(b"x")
    finally:
        file.close()


class Halving(io.BytesIO):
    """Takes half of what it is given, as a file may."""

    def write(self, data: Any) -> int:
        return super().write(bytes(data)[: max(1, len(data) // 2)])


async def test_a_write_that_takes_a_part_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Halving()
    monkeypatch.setattr(Path, "open", lambda *_, **__: sink)
    file = ClipFile(tmp_path / "clip.mp4")
    await file.append(b"all of it")
    assert sink.getvalue() == b"all of it"


# ---------------------------------------------------------------------- what is shown

FAR = Progressed(
    seconds=2.5, total_s=8, rate=61, size_bytes=1000, prompt="a [red] street", towards="rain", step=1, steps=3
)
RESULT = ClipResult(
    file=Path("clip.mp4"),
    mime_type="video/mp4",
    model="scene",
    prompt="a [red] street",
    width=64,
    height=64,
    fps=16,
    seed=1,
    frames=32,
    size_bytes=2000,
    generated_s=0.5,
    interrupted=False,
    turns=(
        TurnResult("rain", 0.5, "completed", 0.56, 1.69),
        TurnResult("fog", 1.0, "failed", error="interaction_failed: no"),
        TurnResult("sun", 1.9, "not sent"),
    ),
)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)


def printed(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_the_view_suits_the_output() -> None:
    assert isinstance(choose_view(console(terminal=True), silent=False), LiveView)
    assert isinstance(choose_view(console(terminal=False), silent=False), LineView)
    assert isinstance(choose_view(console(terminal=True), silent=True), SilentView)


def test_a_terminal_shows_a_bar() -> None:
    screen = console(terminal=True)
    view = LiveView(screen)
    view.waiting("Loading the models")
    view.show(FAR)
    view.note("a note")
    view.summary(RESULT)
    view.close()
    text = printed(screen)
    for said in (
        "Loading the models ...",
        "a [red] stre",
        "→ rain 1/3",
        "2.5 of 8.0 s",
        "61 fps",
        "1.0 kB",
        "a note",
    ):
        assert said in text, said


def test_everything_else_gets_lines() -> None:
    screen = console(terminal=False)
    view = LineView(screen)
    view.waiting("Loading")
    view.show(Progressed(seconds=0, total_s=8, rate=0, size_bytes=0, prompt="a [red] street"))
    view.show(FAR)
    view.show(FAR)
    view.note("a note")
    view.close()
    assert printed(screen) == "Loading ...\n0 s: a [red] street\n0 s: on the way to: rain\na note\n"


def test_the_summary_tells_what_came_of_everything() -> None:
    screen = console(terminal=False)
    LineView(screen).summary(RESULT)
    text = printed(screen)
    for said in (
        "a [red] street",
        "1.69 s",
        "interaction_failed: no",
        "no chunk began at its time or later",
        "2 s, 32 frames of 64x64, 2.0 kB, made in 0.5 s (4.0x playback) by scene",
        "clip.mp4",
    ):
        assert said in text, said


def test_a_silent_view_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    view = SilentView()
    view.waiting("x")
    view.show(FAR)
    view.note("x")
    view.summary(RESULT)
    view.close()
    assert capsys.readouterr().out == ""


def test_what_is_being_stopped_says_so() -> None:
    assert Progressed(1, 2, 3, 4, "x", stopping=True).scene == "stopping"


def test_the_result_as_json() -> None:
    values = RESULT.to_json()
    assert (values["file"], values["seconds"], values["speed"]) == ("clip.mp4", 2.0, 4.0)
    assert values["turns"][1]["error"] == "interaction_failed: no"
