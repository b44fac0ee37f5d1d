"""What the measurements of videos come to, and their form as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from attrs import asdict, frozen

from duplex_trio.benchmarks.figures import Machine
from duplex_trio.benchmarks.video.settings import VideoBenchSettings
from duplex_trio.clients.distribution import Distribution, distribution_summary

OVERHEAD_TARGET = 1.05
"""What serving a video may cost at most, as the model alone with its encoder over the server (video.md §8)."""


@frozen
class Pace:
    """How one video came.

    Attributes:
        chunk_s: when each chunk was there, on any clock.
        chunk_frames: frames of each.
    """

    chunk_s: Sequence[float]
    chunk_frames: int

    @property
    def fps(self) -> float:
        """Frames a second, from the first chunk to the last one: what comes before is start-up."""
        return self.chunk_frames * (len(self.chunk_s) - 1) / (self.chunk_s[-1] - self.chunk_s[0])

    @property
    def intervals_ms(self) -> list[float]:
        """From one chunk to the next."""
        return [(after - before) * 1e3 for before, after in pairwise(self.chunk_s)]


@frozen
class Turn:
    """Videos that were made at once, one time.

    Attributes:
        paces: one for each video.
        cpu_s: CPU time of the process that made them.
    """

    paces: Sequence[Pace]
    cpu_s: float

    @property
    def fps(self) -> float:
        """Frames a second of one of the videos."""
        return fmean(pace.fps for pace in self.paces)


@frozen
class Throughput:
    """One way of making videos, over all rounds.

    Attributes:
        fps: frames a second of each video; the median of the rounds.
        cpu_ms: CPU time for a frame.
        chunk_ms: from one chunk to the next.
    """

    fps: float
    cpu_ms: float
    chunk_ms: Distribution | None

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Throughput:
        """Sum the rounds up."""
        paces = [pace for turn in turns for pace in turn.paces]
        frames = sum(pace.chunk_frames * len(pace.chunk_s) for pace in paces)
        return cls(
            fps=median(turn.fps for turn in turns),
            cpu_ms=sum(turn.cpu_s for turn in turns) / frames * 1e3,
            chunk_ms=distribution_summary([interval for pace in paces for interval in pace.intervals_ms]),
        )


@frozen(kw_only=True)
class Switch:
    """One new prompt.

    Attributes:
        queued_ms: from sending it to its acknowledgement.
        payload_ms: from sending it to the first payload that it has an effect on.
        chunks: how many chunks after the newest one that had come by then that is; 1 is the next.
        picture_ms: from sending it until that payload's first frame is shown, if playback began with the first
            payload and never waited.
    """

    queued_ms: float
    payload_ms: float
    chunks: int
    picture_ms: float


@frozen(kw_only=True)
class Switches:
    """New prompts of videos that are made as they are played.

    Attributes:
        first_ms: from connecting to the first payload.
        fps: frames a second that came; the model's own when the server keeps up.
        queued_ms, payload_ms, chunks, picture_ms: of all switches.
    """

    first_ms: Distribution | None
    fps: float
    queued_ms: Distribution | None
    payload_ms: Distribution | None
    chunks: Distribution | None
    picture_ms: Distribution | None

    @classmethod
    def of(cls, first_ms: Sequence[float], paces: Sequence[Pace], switches: Sequence[Switch]) -> Switches:
        """Sum them up."""
        return cls(
            first_ms=distribution_summary(first_ms),
            fps=fmean(pace.fps for pace in paces),
            queued_ms=distribution_summary([switch.queued_ms for switch in switches]),
            payload_ms=distribution_summary([switch.payload_ms for switch in switches]),
            chunks=distribution_summary([float(switch.chunks) for switch in switches]),
            picture_ms=distribution_summary([switch.picture_ms for switch in switches]),
        )


@frozen(kw_only=True)
class VideoCost:
    """One model at one size with one number of videos at once.

    Attributes:
        model: its deployment.
        side: pixels.
        sessions: videos at once.
        native_fps: what the model is made for.
        chunk_frames: frames of a chunk.
        alone: the model in threads of the benchmark, frames dropped.
        encoded: and its encoder.
        served: of a server in a process of its own, read over its socket, as fast as it comes.
        overhead: `encoded` over `served`, in frames a second, each round by itself; 1 is for nothing.
        overhead_p50: the median of them.
        cpu_overhead: CPU time for a frame, `served` over `encoded`.
        switches: of videos that are made as they are played.
    """

    model: str
    side: int
    sessions: int
    native_fps: float
    chunk_frames: int
    alone: Throughput
    encoded: Throughput
    served: Throughput
    overhead: tuple[float, ...]
    overhead_p50: float
    cpu_overhead: float
    switches: Switches


def overheads(encoded: Sequence[Turn], served: Sequence[Turn]) -> tuple[float, ...]:
    """What serving cost in each round."""
    return tuple(alone.fps / server.fps for alone, server in zip(encoded, served, strict=True))


@frozen(kw_only=True)
class VideoReport:
    """All figures of one run."""

    machine: Machine
    settings: VideoBenchSettings
    costs: tuple[VideoCost, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values. Units end the names."""
        return {"benchmark": "video", "overhead_target": OVERHEAD_TARGET, **asdict(self)}
