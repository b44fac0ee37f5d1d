"""Counts of videos, for a scrape. What a video was is counted when it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.video.host import VideoFigures

OUTCOMES = (
    "done", "stopped", "aborted", "generation_failed", "stall_timeout", "send_timeout", "server_shutdown",
    "too_many_errors", "invalid_start", "internal_error", "other",
)  # fmt: skip
"""How videos end, as far as it is told apart: an error's code may be a model's own, and labels are ours."""
INTERACTIONS = ("completed", "superseded", "interrupted", "unfinished", "failed", "refused")
REFUSALS = ("resource_exhausted", "server_shutdown")
SWITCH_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""Bounds of the histogram. A chunk is about half a second, and a switch waits for the next one."""


class VideoTally(Collector):
    """What became of videos.

    Args:
        live: videos that hold a place now.
    """

    def __init__(self, live: Callable[[], int]) -> None:
        self._live = live
        self._counts: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._interactions: Counter[str] = Counter()
        self._render_s = 0.0
        self._encode_s = 0.0
        self._switches = [0] * (len(SWITCH_S) + 1)
        self._switch_s = 0.0

    def started(self) -> None:
        """A video was given a place."""
        self._counts["started"] += 1

    def refused(self, code: str) -> None:
        """A video was given none."""
        self._refusals[code] += 1

    def ended(self, figures: VideoFigures) -> None:
        """A video is over."""
        self._outcomes[figures.outcome if figures.outcome in OUTCOMES else "other"] += 1
        self._counts["chunks"] += figures.chunks
        self._counts["frames"] += figures.frames
        self._counts["bytes"] += figures.payload_bytes
        for outcome, count in figures.interactions.items():
            self._interactions[outcome] += count
        self._render_s += figures.render_s
        self._encode_s += figures.encode_s
        for switch_s in figures.switch_s:
            self._switches[sum(switch_s > bound for bound in SWITCH_S)] += 1
            self._switch_s += switch_s

    def collect(self) -> Iterable[Metric]:
        """The figures."""
        live = GaugeMetricFamily("duplex_videos", "Videos that hold a place")
        live.add_metric([], self._live())
        yield live
        yield _labelled("duplex_videos_refused", "Videos that got no place", "code", REFUSALS, self._refusals)
        yield _labelled(
            "duplex_videos_ended", "Videos by how they ended", "outcome", OUTCOMES, self._outcomes
        )
        yield _labelled(
            "duplex_video_interactions",
            "Interactions by what became of them",
            "outcome",
            INTERACTIONS,
            self._interactions,
        )
        for name, text, value in (
            ("duplex_videos_started", "Videos that got a place", self._counts["started"]),
            ("duplex_video_chunks", "Chunks generated", self._counts["chunks"]),
            ("duplex_video_frames", "Frames sent", self._counts["frames"]),
            ("duplex_video_bytes", "Bytes of payloads sent", self._counts["bytes"]),
            ("duplex_video_render_seconds", "Time in the model", self._render_s),
            ("duplex_video_encode_seconds", "Time in the encoder", self._encode_s),
        ):
            family = CounterMetricFamily(name, text)
            family.add_metric([], value)
            yield family
        yield self._switch_family()

    def _switch_family(self) -> HistogramMetricFamily:
        so_far, buckets = 0, []
        for bound, count in zip((*map(str, SWITCH_S), "+Inf"), self._switches, strict=True):
            so_far += count
            buckets.append((bound, float(so_far)))
        family = HistogramMetricFamily(
            "duplex_video_switch_seconds",
            "From the arrival of an interaction to the first payload that shows it",
        )
        family.add_metric([], buckets, self._switch_s)
        return family


def _labelled(
    name: str, text: str, label: str, values: Sequence[str], counts: Counter[str]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for value in values:
        family.add_metric([value], counts[value])
    return family
