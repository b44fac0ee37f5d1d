"""The task tree of the benchmark of videos.

bench
`- turns                      in turn, over and over
   |- alone[n]  x N           threads in which a model makes videos
   `- watch[n]  x N           videos of the server
      `- reader               of those that are steered

The server is a process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeVar

import trio

from duplex_trio.benchmarks.figures import cpu_s, process_cpu_s, this_machine
from duplex_trio.benchmarks.video.alone import ModelAlone
from duplex_trio.benchmarks.video.report import (
    Switch,
    Switches,
    Throughput,
    Turn,
    VideoCost,
    VideoReport,
    overheads,
)
from duplex_trio.benchmarks.video.settings import VideoBenchSettings
from duplex_trio.benchmarks.video.watching import Watched, paced, switch, unpaced, watch
from duplex_trio.deploy import DeployConfig
from duplex_trio.testing.server_process import ServedPort, server_process

START_TIMEOUT_S = 240.0
"""Models load, and a video is made, before the server says where it is."""

T = TypeVar("T")
Tell = Callable[[str], None]
"""Is told what is being measured."""


async def bench_video(
    settings: VideoBenchSettings, deploys: Sequence[tuple[str, DeployConfig]], *, tell: Tell
) -> VideoReport:
    """Measure each deployment, which is loaded here and in a server of its own.

    Args:
        settings: how much; its `models` are those of `deploys`.
        deploys: what is measured, by the name or file that a server finds it by.
        tell: is told what is being measured.

    Raises:
        ModelReferenceError: a model is not there.
        WatchError, VideoClientError: in a group; a video was not what was to be measured.
    """
    costs: list[VideoCost] = []
    for name, deploy in deploys:
        tell(f"{name}: loading")
        model = await trio.to_thread.run_sync(ModelAlone, deploy)
        with _served(name, max(settings.sessions)) as server:
            for side in settings.sizes:
                for sessions in settings.sessions:
                    costs.append(await _measure(name, model, server, side, sessions, settings, tell))
        await trio.to_thread.run_sync(model.close)
    return VideoReport(machine=this_machine(), settings=settings, costs=tuple(costs))


@contextmanager
def _served(name: str, sessions: int) -> Iterator[ServedPort]:
    """A server with room for all videos at once, on however few cores, and for those that have just ended."""
    base = str(Path(name).resolve()) if Path(name).is_file() else name
    with TemporaryDirectory() as folder:
        deploy = Path(folder) / "bench.yaml"
        deploy.write_text(f"base_config: {base}\nvideo_session:\n  max_sessions: {2 * sessions}\n")
        arguments = ("--deploy", str(deploy), "--log-level", "error")
        with server_process(*arguments, start_timeout_s=START_TIMEOUT_S) as server:
            yield server


async def _measure(
    name: str,
    model: ModelAlone,
    server: ServedPort,
    side: int,
    sessions: int,
    settings: VideoBenchSettings,
    tell: Tell,
) -> VideoCost:
    what = f"{name}, {side}x{side}, {sessions} video{'s' * (sessions > 1)} at once"
    frames = model.capabilities.chunk_frames
    jobs: dict[str, Callable[[], Awaitable[Turn]]] = {
        "alone": partial(_alone, model, side, sessions, settings.chunks, encoded=False),
        "encoded": partial(_alone, model, side, sessions, settings.chunks, encoded=True),
        "served": partial(_watched, server, side, sessions, settings.chunks, frames),
    }
    turns: dict[str, list[Turn]] = {job: [] for job in jobs}
    for number in range(settings.rounds):
        tell(f"{what}: round {number + 1} of {settings.rounds}")
        # The two that are compared are next to each other, one before the other as often as behind it.
        for job in jobs if number % 2 == 0 else reversed(jobs):
            turns[job].append(await jobs[job]())
    tell(f"{what}: {settings.switches} new prompts each")
    steered = await _steered(server, side, sessions, settings.switches)
    ratios = overheads(turns["encoded"], turns["served"])
    made, sent = Throughput.of(turns["encoded"]), Throughput.of(turns["served"])
    return VideoCost(
        model=name,
        side=side,
        sessions=sessions,
        native_fps=model.capabilities.native_fps,
        chunk_frames=frames,
        alone=Throughput.of(turns["alone"]),
        encoded=made,
        served=sent,
        overhead=ratios,
        overhead_p50=median(ratios),
        cpu_overhead=sent.cpu_ms / made.cpu_ms,
        switches=steered,
    )


async def _alone(model: ModelAlone, side: int, sessions: int, chunks: int, *, encoded: bool) -> Turn:
    before_s = cpu_s()
    job = partial(model.watch, side, chunks, encoded=encoded)
    paces = await _at_once([partial(trio.to_thread.run_sync, job)] * sessions)
    return Turn(paces, cpu_s() - before_s)


async def _watched(server: ServedPort, side: int, sessions: int, chunks: int, chunk_frames: int) -> Turn:
    before_s = process_cpu_s(server.pid)
    clients = [unpaced(server.ws_base, side, chunks, chunk_frames) for _ in range(sessions)]
    watched = await _at_once([partial(watch, client, chunks) for client in clients])
    return Turn([video.pace for video in watched], process_cpu_s(server.pid) - before_s)


async def _steered(server: ServedPort, side: int, sessions: int, switches: int) -> Switches:
    steered = await _at_once([partial(_steer, server, side, switches)] * sessions)
    return Switches.of(
        [(watched.chunk_s[0] - watched.begun_s) * 1e3 for watched, _ in steered],
        [watched.steady for watched, _ in steered],
        [each for _, made in steered for each in made],
    )


async def _steer(server: ServedPort, side: int, switches: int) -> tuple[Watched, list[Switch]]:
    begun_s = trio.current_time()
    async with paced(server.ws_base, side) as client, trio.open_nursery() as nursery:
        watched = Watched(client, begun_s)
        nursery.start_soon(watched.read, name="reader")
        made = [await switch(watched, number) for number in range(switches)]
        nursery.cancel_scope.cancel()
    return watched, made


async def _at_once(jobs: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Do jobs at once; their results in order."""
    results: dict[int, T] = {}

    async def one(index: int, job: Callable[[], Awaitable[T]]) -> None:
        results[index] = await job()

    async with trio.open_nursery() as nursery:
        for index, job in enumerate(jobs):
            nursery.start_soon(one, index, job, name=f"watch[{index}]")
    return [results[index] for index in range(len(jobs))]
