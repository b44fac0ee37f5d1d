"""The `video` command as a user runs it, with the scripted model and with the real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.cli.errors import INTERRUPTED, CommandError
from duplex_trio.cli.main import build_parser, main
from duplex_trio.cli.video import command
from duplex_trio.cli.video.file import ClipFile
from duplex_trio.cli.video.recording import ClipOptions
from duplex_trio.cli.video.run import run_clip
from duplex_trio.cli.video.steering import plan_turns
from duplex_trio.cli.video.view import SilentView
from duplex_trio.clients.video import VideoClientError
from duplex_trio.models.scripted.video_picture import colour_of, read_picture
from duplex_trio.plugin.video.plugin import Frame
from duplex_trio.protocol.video import VideoErrorEvent
from duplex_trio.testing.server_process import server_process
from duplex_trio.testing.video_frames import decode_frames
from duplex_trio.testing.video_peer import VideoPeer, VideoScript, video_scripted

SLOW = """
pipeline: scripted_video
session_mode: video
stages:
  - stage_id: 0
    engine_args: {frame_delay_s: 0.01, refused_word: impossible}
"""
PATIENCE_S = 120.0


@pytest.fixture
def slow_model(tmp_path: Path) -> str:
    """A deployment whose chunks take as long as a prompt's way to the server, many times."""
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW)
    return str(path)


def options_of(*arguments: str) -> tuple[ClipOptions, Path]:
    argv = ["video", *arguments]
    return command.clip_options(build_parser(argv).parse_args(argv))


def colour(frame: Frame) -> np.ndarray[Any, Any]:
    return read_picture(frame).colour


# ---------------------------------------------------------------------- options


def test_options_as_they_come() -> None:
    options, path = options_of("a street")
    assert options == ClipOptions(prompt="a street", api_key=options.api_key)
    assert path == Path("video.mp4")
    arguments = ["x", "--then", "3s", "b", "--then", "500ms", "a", "--transition", "0", "--size", "64x32"]
    options, path = options_of(
        *arguments, "--seed", "3", "--fps", "12.5", "--out", "y/z.webm", "--seconds", "4s"
    )
    assert [(turn.at_s, turn.prompt) for turn in options.turns] == [(0.5, "a"), (3, "b")]
    assert (options.transition_chunks, options.size, options.seed, options.fps) == (0, (64, 32), 3, 12.5)
    assert (options.format, options.seconds, path) == ("webm", 4, Path("y/z.webm"))
    assert options_of("x", "--format", "webm")[1] == Path("video.webm")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--then", "soon", "b"], "--then: 'soon' is no time"),
        (["--then", "3s", " "], "--then: a prompt must not be blank"),
        (["--then", "3s", "caf\udce9"], "--then: a prompt must be text in UTF-8"),
        (["--then", "9s", "b"], "--then 9s: the clip has ended by then; it is 8 s long"),
        (["--format", "webm", "--out", "x.mp4"], "another format"),
        (["--out", "/"], "is a folder"),
        (["--url", "ftp://x"], "--url: 'ftp://x' is not"),
    ],
)
def test_options_that_do_not_do(arguments: Sequence[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        options_of("x", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [" "],
        ["caf\udce9"],
        ["x", "--seconds", "0"],
        ["x", "--fps", "0.5"],
        ["x", "--fps", "fast"],
        ["x", "--size", "big"],
        ["x", "--transition", "-1"],
        ["x", "--transition", "1.5"],
        ["x", "--seed", "-1"],
        ["x", "--format", "gif"],
        ["x", "--then", "3s"],
        ["x", "--quiet", "--json"],
    ],
)
def test_options_that_the_parser_refuses(
    arguments: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        options_of(*arguments)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_without_pyav_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match="pip install av"):
        options_of("x")
    options_of("x", "--url", "127.0.0.1:1")  # a server elsewhere has its own


def test_a_file_that_cannot_be_written_is_found_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_clip", None)
    assert main(["video", "x", "--out", "/nowhere/x.mp4"]) == 1
    assert capsys.readouterr().err == "duplex-trio: --out: /nowhere/x.mp4: No such file or directory\n"


@pytest.mark.parametrize(
    ("model", "said"),
    [("nothing", "no such deployment"), ("scripted", "makes no video"), ("cascade_turn", "makes no video")],
)
def test_a_model_that_makes_no_video(
    model: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.mp4"
    assert main(["video", "x", "--quiet", "--model", model, "--out", str(out)]) == 1
    assert said in capsys.readouterr().err
    assert not out.exists()


# ---------------------------------------------------------------------- servers that go wrong


async def make(nursery: trio.Nursery, script: VideoScript, file: ClipFile, **changes: Any) -> Any:
    options = ClipOptions(**{"prompt": "x", "url": "test.invalid", **changes})
    return await run_clip(options, file, SilentView(), connect=video_scripted(nursery, script))


@pytest.fixture
def out(tmp_path: Path) -> Iterator[ClipFile]:
    file = ClipFile(tmp_path / "clip.mp4")
    yield file
    file.close()


async def test_prompts_are_told_of_one_by_one(
    nursery: trio.Nursery, autojump_clock: MockClock, out: ClipFile
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        await peer.receive("session.interaction")
        await peer.refuse("invalid_interaction", "then-1")
        await peer.pair()
        await peer.receive("session.interaction")
        await peer.refuse("input_backpressure", "then-2")
        await peer.queue()
        await ready(peer, "then-2")
        await peer.pair(started=("then-2",), active=("then-2",), completed=("then-2",))
        await peer.queue()
        await peer.refuse("interaction_failed", "then-3")
        await ready(peer, "then-3")
        await peer.end({"then-2": "completed"})

    async def ready(peer: VideoPeer, event_id: str) -> None:
        probe = await peer.queue()
        assert probe["event_id"] == f"{event_id}-is-ready"
        assert set(probe["event"]) - {"prompt"}, "no model takes it"
        await peer.refuse("interaction_failed", probe["event_id"])

    turns = tuple(plan_turns([(0.5, "a"), (0.6, "b"), (1.5, "c"), (7, "d")]))
    result = await make(nursery, script, out, turns=turns, transition_chunks=0)
    outcomes = [(turn.prompt, turn.outcome) for turn in result.turns]
    assert outcomes == [("a", "refused"), ("b", "completed"), ("c", "failed"), ("d", "not sent")]
    assert result.turns[1].started_s == 18 / 16
    assert out.path.read_bytes() == b"framesframesframestrailer"
    assert (result.frames, result.size_bytes, result.model) == (27, 25, "peer")


async def test_what_came_before_a_server_went_is_in_the_file(
    nursery: trio.Nursery, autojump_clock: MockClock, out: ClipFile
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair(b"one")
        await peer.wire.hang_up()

    with pytest.raises(BaseExceptionGroup) as caught:
        await make(nursery, script, out)
    log = out.path.with_suffix(".log")
    log.touch()
    explained = command._explained(caught.value, out, log)
    assert isinstance(explained, CommandError)
    assert explained.details == f"What had come is in {out.path}."
    assert out.path.read_bytes() == b"one"


@pytest.mark.parametrize(
    ("code", "param", "message", "said"),
    [
        ("invalid_start", "width", "width: too wide", "--size: too wide"),
        ("model_not_found", "model", "no", "--model: no"),
        ("resource_exhausted", None, "no", "the server refuses the video: resource_exhausted: no"),
    ],
)
async def test_a_refusal_names_the_option(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    out: ClipFile,
    code: str,
    param: str | None,
    message: str,
    said: str,
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.receive("session.start")
        await peer.say(VideoErrorEvent(code=code, message=message, param=param))

    with pytest.raises((VideoClientError, BaseExceptionGroup)) as caught:
        await make(nursery, script, out)
    log = out.path.with_suffix(".log")
    log.write_text("x")
    explained = command._explained(caught.value, out, log)
    assert str(explained) == said
    assert isinstance(explained, CommandError)
    assert explained.details == f"The log is in {log}."


@pytest.mark.parametrize(("error", "kept"), [(KeyboardInterrupt(), 0), (CommandError("no"), 1)])
def test_a_log_is_kept_only_where_it_is_told_of(
    error: BaseException, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(log: Path) -> None:
        log.write_text("x")
        raise error

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(type(error)), command._log_kept_on_failure() as log:
        fail(log)
    assert len(list(tmp_path.iterdir())) == kept


async def test_a_bug_stays_one(out: ClipFile) -> None:
    bug = ExceptionGroup("", [ZeroDivisionError()])
    assert command._explained(bug, out, Path("x")) is bug
    interrupt = BaseExceptionGroup("", [KeyboardInterrupt()])
    assert isinstance(command._explained(interrupt, out, Path("x")), KeyboardInterrupt)


async def test_a_disk_that_fills_up_ends_the_clip(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        await peer.receive("session.never")

    full = ClipFile(Path("/dev/full"))
    with pytest.raises(BaseExceptionGroup) as caught:
        await make(nursery, script, full)
    full.close()
    assert caught.group_contains(CommandError, match="No space left")


# ---------------------------------------------------------------------- the whole of it


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["mp4", "webm"])
def test_a_clip_shows_each_prompt_from_its_time(
    tmp_path: Path, slow_model: str, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"clip.{suffix}"
    arguments = [
        "--model",
        slow_model,
        "--size",
        "64x64",
        "--seconds",
        "4",
        "--transition",
        "2",
        "--seed",
        "1",
    ]
    then = ["--then", "2.25s", "blue", "--then", "500ms", "green"]
    assert main(["video", "red", *then, *arguments, "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    frames = decode_frames(out.read_bytes())
    assert len(frames) == result["frames"] == 64
    assert result["size_bytes"] == out.stat().st_size
    green, blue = result["turns"]
    assert (green["prompt"], blue["prompt"]) == ("green", "blue")
    for turn in (green, blue):
        assert turn["outcome"] == "completed"
        assert turn["at_s"] <= turn["started_s"] < turn["completed_s"]
        assert np.abs(colour(frames[int(turn["completed_s"] * 16)]) - colour_of(turn["prompt"])).max() < 12
    assert np.abs(colour(frames[0]) - colour_of("red")).max() < 12
    assert np.abs(colour(frames[int(green["started_s"] * 16) - 1]) - colour_of("red")).max() < 12


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("encode_delay_s", [0.0, 0.2])
def test_prompts_begin_at_the_chunk_of_their_time_however_fast_chunks_are(
    tmp_path: Path, encode_delay_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "fast.yaml"
    model.write_text(SLOW.replace("frame_delay_s: 0.01", f"encode_delay_s: {encode_delay_s}"))
    out, chunk_s = tmp_path / "clip.mp4", 9 / 16
    arguments = ["--model", str(model), "--size", "64x64", "--seconds", "30", "--transition", "0"]
    wanted = {
        "0s": 1,
        "600ms": 2,
        "3s": 6,
        "impossible": 7,
        "4.5s": 8,
        "4.6s": 9,
        "4.7s": 10,
        "25s": 45,
        "29.8s": 53,
    }
    then = [
        argument
        for time, chunk in wanted.items()
        for argument in ("--then", "3.9s" if time == "impossible" else time, f"{time} {chunk}")
    ]
    assert main(["video", "red", *then, *arguments, "--out", str(out), "--json"]) == 1
    turns = json.loads(capsys.readouterr().out)["turns"]
    begun = [turn["started_s"] and turn["started_s"] / chunk_s for turn in turns]
    assert begun == [None if chunk == 7 else chunk for chunk in wanted.values()]
    assert turns[3]["error"] == "interaction_failed: The scripted model cannot do 'impossible'"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_prompt_that_fails_is_told_and_the_clip_is_whole(
    tmp_path: Path, slow_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clip.mp4"
    arguments = ["--model", slow_model, "--size", "64x64", "--seconds", "2", "--then", "1s", "impossible"]
    assert main(["video", "red", *arguments, "--out", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "The scripted model cannot do 'impossible'" in printed
    assert printed.endswith(f"{out}\n")
    assert len(decode_frames(out.read_bytes())) == 32


@pytest.mark.e2e
@pytest.mark.slow
def test_a_server_elsewhere_is_asked_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DUPLEX_TRIO_API_KEY", "secret")
    with server_process("--deploy", "scripted_video", start_timeout_s=PATIENCE_S) as server:
        out = tmp_path / "clip.mp4"
        arguments = [
            "--url",
            f"http://127.0.0.1:{server.port}",
            "--seconds",
            "1",
            "--out",
            str(out),
            "--quiet",
        ]
        assert main(["video", "red", *arguments, "--model", "scripted_video"]) == 0
        assert len(decode_frames(out.read_bytes())) == 16
        assert main(["video", "red", *arguments, "--model", "another"]) == 1
        assert main(["video", "red", *arguments, "--api-key", "wrong"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "duplex-trio: --model: " in said.err
        assert "an API key is needed, or this one is wrong" in said.err


IN_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True])
def test_ctrl_c_leaves_a_whole_file(tmp_path: Path, slow_model: str, terminal: bool) -> None:
    out = tmp_path / "clip.mp4"
    arguments = [
        "video",
        "red",
        "--model",
        slow_model,
        "--size",
        "64x64",
        "--seconds",
        "500",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(
        [
            *([sys.executable, "-c", IN_A_TERMINAL] if terminal else []),
            sys.executable,
            "-m",
            "duplex_trio",
            *arguments,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (out.exists() and out.stat().st_size):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline_s
            os.sched_yield()
        if terminal:
            process.stdin.write(b"\x03")  # what the key sends; the terminal makes the signal of it
            process.stdin.flush()
        else:
            process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE_S)[0].decode()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == INTERRUPTED, said
    data = out.read_bytes()
    frames = decode_frames(data)
    assert len(frames) >= 9
    assert b"mfra" in data[-4096:], "the trailer is there"
    assert f"{len(frames)} frames of 64x64" in said
    assert str(out) in said


@pytest.mark.models
@pytest.mark.e2e
@pytest.mark.slow
def test_the_scene_renderer_changes_the_picture_when_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "clip.mp4"
    arguments = ["--seconds", "4", "--transition", "0", "--size", "256x256", "--seed", "2", "--out", str(out)]
    then = ["--then", "2s", "a starry night over mountains"]
    assert main(["video", "a tropical beach at noon", *then, *arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    frames = [frame.astype(np.float32) for frame in decode_frames(out.read_bytes())]
    assert len(frames) == result["frames"] == round(4 * result["fps"])
    assert frames[0].shape == (256, 256, 3)
    (turn,) = result["turns"]
    assert turn["outcome"] == "completed"
    begin = round(turn["started_s"] * result["fps"])
    assert 2 <= turn["started_s"] < 4
    day, night = frames[begin - 1].mean(), frames[-1].mean()
    assert night < day / 2, "night is darker than noon"
    drift = np.abs(frames[begin - 1] - frames[0]).mean()
    assert np.abs(frames[begin] - frames[begin - 1]).mean() > 3 * drift, "it changes there, and at once"
