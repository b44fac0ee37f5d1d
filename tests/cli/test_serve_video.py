"""What `serve` makes of a deployment of video, alone and beside another one."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest
from rich.console import Console

from duplex_trio.cli import serve
from duplex_trio.cli.compose import make_omni, make_video, plan_serving, plan_video, read_deploy
from duplex_trio.cli.errors import CommandError
from duplex_trio.entrypoints.start_up import StartPlan
from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.serving.address import ServerAddress


def planned(name: str) -> StartPlan:
    return plan_serving(read_deploy(name, models={}))


def beside(asked: str | None, name: str) -> str | None:
    plan = plan_video(asked, planned(name))
    return None if plan is None else plan.deploy.pipeline


def test_the_default_names_the_scene_and_turns_none() -> None:
    assert beside(None, "cascade_cpu") == "scene"
    assert beside(None, "cascade_turn") is None
    assert beside(None, "scripted") is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("none", None),
        ("scene", "scene"),
        ("glyph-flow", "glyph_flow"),
        ("glyph_flow", "glyph_flow"),
        ("scripted-video", "scripted_video"),
    ],
)
def test_the_command_line_wins(asked: str, found: str | None) -> None:
    assert beside(asked, "cascade_cpu") == beside(asked, "scripted") == found


def test_a_file_names_one_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the command is run, and whatever extends the file."""
    monkeypatch.chdir("/")
    (tmp_path / "video.yaml").write_text("base_config: scripted_video\nvideo_session: {max_sessions: 7}\n")
    (tmp_path / "base.yaml").write_text("base_config: scripted\nvideo: ./video.yaml\n")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "top.yaml").write_text("base_config: ../base.yaml\n")
    for name in ("base.yaml", "deeper/top.yaml"):
        plan = plan_video(None, planned(str(tmp_path / name)))
        assert plan is not None
        assert plan.deploy.video_session.max_sessions == 7
    plan = plan_video(str(tmp_path / "video.yaml"), planned("scripted"))
    assert plan is not None
    assert make_video(plan).max_videos == 7


@pytest.mark.parametrize(
    ("asked", "name", "told"),
    [
        (
            "scripted",
            "cascade_cpu",
            "--video-model scripted: that deployment serves no video .session_mode: duplex.",
        ),
        ("scenery", "scripted", "--video-model scenery: .*did you mean scene"),
        ("gone.yaml", "scripted", "--video-model gone.yaml: .*cannot read the deployment file"),
        ("scene", "scripted_video", "serves video itself"),
    ],
)
def test_what_is_no_video_is_refused(asked: str, name: str, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        plan_video(asked, planned(name))


def test_a_fault_in_what_a_deployment_names_is_told_as_its(tmp_path: Path) -> None:
    (tmp_path / "top.yaml").write_text("base_config: scripted\nvideo: scripted_turns\n")
    with pytest.raises(CommandError, match="video: scripted_turns: that deployment serves no video"):
        plan_video(None, planned(str(tmp_path / "top.yaml")))


def test_a_model_of_video_that_is_not_there_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "video.yaml").write_text(
        "base_config: scene\nstages: [{stage_id: 0, model: ./no_such_folder}]\n"
    )
    plan = plan_video(str(tmp_path / "video.yaml"), planned("scripted"))
    assert plan is not None
    with pytest.raises(
        CommandError, match=r"the video beside it: .*no_such_folder.*--video-model none serves without"
    ):
        make_video(plan)


def test_video_alone_is_an_engine_of_video() -> None:
    plan = planned("scripted_video")
    assert plan_video(None, plan) is plan_video("none", plan) is None
    assert isinstance(make_omni(plan), VideoOmni)


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    return parser.parse_args(["serve", "--deploy", "scripted_video", *arguments])


@pytest.mark.parametrize("option", ["--max-sessions", "--max-chats", "--instructions"])
def test_options_of_speech_are_refused_with_video_alone(option: str) -> None:
    with pytest.raises(CommandError, match=f"{option} is about .*session_mode: video"):
        serve.run(parse(option, "3"))


@pytest.mark.parametrize(("sessions", "video"), [(True, True), (False, True), (True, False), (False, False)])
def test_the_announcement_says_where_each_thing_is(sessions: bool, video: bool) -> None:
    console = Console(file=io.StringIO(), width=200)
    serve._Announcement(console, sessions=sessions, video=video).started(ServerAddress("0.0.0.0", 80, True))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("wss://127.0.0.1:80/v1/realtime\n" in text) is sessions
    assert ("wss://127.0.0.1:80/v1/realtime/video\n" in text) is video
    assert ("https://127.0.0.1:80/video\n" in text) is video
    assert text.endswith("Ready. Stop with Ctrl-C.\n")
