"""Counts of videos, for a scrape: of live ones what they have made so far, of ended ones also how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy

from attrs import define, field
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


@define(eq=False)
class _Made:
    """What videos have made, added up."""

    chunks: int = 0
    frames: int = 0
    payload_bytes: int = 0
    render_s: float = 0.0
    encode_s: float = 0.0
    switches: list[int] = field(factory=lambda: [0] * (len(SWITCH_S) + 1))
    switch_s: float = 0.0

    def add(self, figures: VideoFigures) -> None:
        """Add one video."""
        self.chunks += figures.chunks
        self.frames += figures.frames
        self.payload_bytes += figures.payload_bytes
        self.render_s += figures.render_s
        self.encode_s += figures.encode_s
        for switch_s in figures.switch_s:
            self.switches[sum(switch_s > bound for bound in SWITCH_S)] += 1
            self.switch_s += switch_s


class VideoCollector(Collector):
    """Counts videos.

    Args:
        live: how many hold a place now.
        so_far: what each is that has not been counted at its end; None of one that has not begun.
    """

    def __init__(self, live: Callable[[], int], so_far: Callable[[], Iterable[VideoFigures | None]]) -> None:
        self._live = live
        self._so_far = so_far
        self._started = 0
        self._ended = _Made()
        self._outcomes: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._interactions: Counter[str] = Counter()

    def started(self) -> None:
        """A video was given a place."""
        self._started += 1

    def refused(self, code: str) -> None:
        """A video was given none."""
        self._refusals[code] += 1

    def ended(self, figures: VideoFigures) -> None:
        """A video is over, and is not told as a live one any more."""
        self._outcomes[figures.outcome if figures.outcome in OUTCOMES else "other"] += 1
        self._ended.add(figures)
        for outcome, count in figures.interactions.items():
            self._interactions[outcome] += count

    def collect(self) -> Iterable[Metric]:
        """The figures."""
        made = deepcopy(self._ended)
        for video in self._so_far():
            if video is not None:
                made.add(video)
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
            ("duplex_videos_started", "Videos that got a place", self._started),
            ("duplex_video_chunks", "Chunks generated", made.chunks),
            ("duplex_video_frames", "Frames sent", made.frames),
            ("duplex_video_bytes", "Bytes of payloads sent", made.payload_bytes),
            ("duplex_video_render_seconds", "Time in the model", made.render_s),
            ("duplex_video_encode_seconds", "Time in the encoder", made.encode_s),
        ):
            family = CounterMetricFamily(name, text)
            family.add_metric([], value)
            yield family
        yield _switch_family(made)


def _switch_family(made: _Made) -> HistogramMetricFamily:
    so_far, buckets = 0, []
    for bound, count in zip((*map(str, SWITCH_S), "+Inf"), made.switches, strict=True):
        so_far += count
        buckets.append((bound, float(so_far)))
    family = HistogramMetricFamily(
        "duplex_video_switch_seconds",
        "From the arrival of an interaction to the first payload that shows it",
    )
    family.add_metric([], buckets, made.switch_s)
    return family


def _labelled(
    name: str, text: str, label: str, values: Sequence[str], counts: Counter[str]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for value in values:
        family.add_metric([value], counts[value])
    return family
