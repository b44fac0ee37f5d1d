"""`duplex-trio bench video` as it is typed, and what its figures are made of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.benchmarks.video.report import Pace, Switch, Switches, Throughput, Turn, overheads
from duplex_trio.benchmarks.video.watching import Watched, WatchError, switch, watch
from duplex_trio.cli.main import main
from duplex_trio.protocol.video import SessionPong
from duplex_trio.testing.video_peer import VideoPeer, scripted_client

_SPREAD = {"count", "mean", "p50", "p90", "p99", "max"}


@pytest.mark.e2e
@pytest.mark.slow
def test_a_quick_run_measures_everything(tmp_path: Path) -> None:
    pytest.importorskip("av")
    path = tmp_path / "video.json"
    arguments = ("--quick", "--model", "scripted_video", "--sizes", "64,128", "--json", str(path))
    printed = subprocess.run(
        [sys.executable, "-m", "duplex_trio", "bench", "video", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(path.read_text())
    assert report["benchmark"] == "video"
    assert report["overhead_target"] == 1.05
    settings = report["settings"]
    costs = report["costs"]
    videos = [(cost["model"], cost["side"], cost["sessions"]) for cost in costs]
    assert videos == [("scripted_video", side, sessions) for side in (64, 128) for sessions in (1, 2)]
    for cost in costs:
        for way in ("alone", "encoded", "served"):
            assert cost[way]["fps"] > 0
            assert cost[way]["chunk_ms"]["count"] == cost["sessions"] * (settings["chunks"] - 1)
        assert len(cost["overhead"]) == settings["rounds"]
        assert cost["overhead_p50"] > 0
        assert (cost["native_fps"], cost["chunk_frames"]) == (16, 9)
        switches = cost["switches"]
        assert switches["first_ms"]["count"] == cost["sessions"]
        for name in ("queued_ms", "payload_ms", "chunks", "picture_ms"):
            assert set(switches[name]) == _SPREAD
            assert switches[name]["count"] == cost["sessions"] * settings["switches"]
    for shown in ("as fast as can be", "New prompts", "scripted_video", "128x128", str(path)):
        assert shown in printed.stdout
    assert "scripted_video, 64x64, 1 video at once: round 1 of 1" in printed.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "scripted"], "scripted makes no video"),
        (["--model", "nonesuch"], "no such deployment"),
        (["--sizes", "32"], "cannot be measured"),
        (["--model", "scripted_video", "--json", "/nonesuch/file.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_told_before_anything_is_loaded(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "video", "--quick", *arguments]) == 1
    assert told in capsys.readouterr().err


async def test_a_video_that_does_not_come_is_no_mystery(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        while (await peer.receive("session.ping", "session.stop"))["type"] == "session.ping":
            await peer.say(SessionPong())
        await peer.end(stopped=True)

    with pytest.raises(WatchError, match="not over within"):
        await watch(scripted_client(nursery, script), 2)
    async with scripted_client(nursery, script) as video:
        with pytest.raises(WatchError, match="no effect within"):
            await switch(Watched(video, 0.0), 1)


def test_frames_a_second_are_those_between_the_first_chunk_and_the_last() -> None:
    pace = Pace([10.0, 10.5, 11.5], 9)
    assert pace.fps == pytest.approx(9 * 2 / 1.5)
    assert pace.intervals_ms == pytest.approx([500, 1000])


def test_rounds_are_summed_up_and_compared_one_by_one() -> None:
    slow = Turn([Pace([0, 2], 10), Pace([0, 1], 10)], cpu_s=1.0)
    fast = Turn([Pace([0, 0.5], 10), Pace([0, 0.5], 10)], cpu_s=0.6)
    assert slow.fps == pytest.approx(7.5)
    throughput = Throughput.of([slow, fast, fast])
    assert throughput.fps == pytest.approx(20)
    assert throughput.cpu_ms == pytest.approx(2.2 / 120 * 1e3)
    assert throughput.chunk_ms is not None
    assert (throughput.chunk_ms.count, throughput.chunk_ms.max) == (6, pytest.approx(2000))
    assert overheads([fast, slow], [slow, slow]) == pytest.approx((20 / 7.5, 1))


def test_switches_are_summed_up() -> None:
    made = [
        Switch(queued_ms=1, payload_ms=400, chunks=1, picture_ms=900),
        Switch(queued_ms=3, payload_ms=600, chunks=2, picture_ms=1100),
    ]
    summed = Switches.of([250.0], [Pace([0, 0.5, 1], 8)], made)
    assert summed.fps == pytest.approx(16)
    assert summed.queued_ms is not None
    assert (summed.queued_ms.mean, summed.queued_ms.max) == (2, 3)
    assert summed.chunks is not None
    assert (summed.chunks.p50, summed.chunks.p99) == (1, 2)
    assert summed.first_ms is not None
    assert summed.first_ms.count == 1
