"""What the stages did for one response: the figures of single outputs, folded together.

Each output of a stage brings a snapshot of figures. How a figure is folded depends on what it is: work adds up,
a first wait stays what it was, waits between outputs are a list with their mean next to it, a time per token is
averaged by tokens, and of everything else the last value counts.

Figures that come while nobody answers (a model that listens works too) are held in an accumulator of their own,
which the next response takes over with `merge`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from duplex_trio.pipelines.results import StageSnapshot

SUMMED = frozenset(
    {
        "num_tokens_in",
        "num_tokens_out",
        "stage_gen_time_ms",
        "postprocess_time_ms",
        "audio_generated_frames",
        "audio_duration_s",
        "image_pixels",
        "output_unit_count",
    }
)
FIRST_POSITIVE = frozenset({"serving_time_to_first_output_ms", "vllm_ttft_ms"})
LISTED: Mapping[str, str] = {
    "inter_output_latencies_ms": "inter_output_latency_ms",
    "vllm_itls_ms": "vllm_itl_ms",
}
"""Lists that are joined, and the name of the mean."""
WEIGHTED = "vllm_tpot_ms"
"""The mean over all tokens but the first of each output, which is no time between tokens."""
LISTED_MAX = 256
"""Values of a list that are kept, the latest; the mean is that of all. A model in lockstep makes 750 a minute."""
DECIMALS = 3


@define
class _List:
    values: deque[float] = field(factory=lambda: deque(maxlen=LISTED_MAX))
    count: int = 0
    total: float = 0.0

    def extend(self, values: Iterable[float]) -> None:
        for value in values:
            # Rounded as they come: they are shown where a cancellation is awaited.
            self.values.append(_rounded(value))
            self.count += 1
            self.total += value

    def merge(self, later: _List) -> None:
        self.values.extend(later.values)
        self.count += later.count
        self.total += later.total


@define
class _Stage:
    figures: dict[str, Any] = field(factory=dict)
    lists: dict[str, _List] = field(factory=dict)
    weight: int = 0
    weighted_total: float = 0.0

    def add(self, figures: Mapping[str, Any]) -> None:
        for name, value in figures.items():
            if name in LISTED:
                self.lists.setdefault(name, _List()).extend(value)
            elif name == WEIGHTED:
                self._weigh(max(int(figures.get("num_tokens_out", 0)) - 1, 1), value)
            else:
                self._fold(name, value)

    def merge(self, later: _Stage) -> None:
        for name, values in later.lists.items():
            self.lists.setdefault(name, _List()).merge(values)
        if later.weight:
            self._weigh(later.weight, later.weighted_total / later.weight)
        for name, value in later.figures.items():
            self._fold(name, value)

    def _fold(self, name: str, value: Any) -> None:
        known = self.figures.get(name)
        if name in SUMMED:
            self.figures[name] = value if known is None else known + value
        elif name not in FIRST_POSITIVE or not known:
            self.figures[name] = value

    def _weigh(self, weight: int, mean: float) -> None:
        self.weight += weight
        self.weighted_total += weight * mean

    def shown(self, *, lists: bool) -> dict[str, Any]:
        shown = {name: _rounded(value) for name, value in self.figures.items()}
        if self.weight:
            shown[WEIGHTED] = _rounded(self.weighted_total / self.weight)
        for name, values in self.lists.items():
            if values.count:
                shown[LISTED[name]] = _rounded(values.total / values.count)
            if lists:
                shown[name] = list(values.values)
        return shown


@define(eq=False)
class StageMetrics:
    """The figures of one response by stage."""

    _stages: dict[str, _Stage] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def add(self, snapshots: Iterable[StageSnapshot]) -> None:
        """Fold in what single outputs brought, in order."""
        for snapshot in snapshots:
            self._stages.setdefault(snapshot.stage, _Stage()).add(snapshot.figures)

    def merge(self, later: StageMetrics) -> None:
        """Fold in what another accumulator holds, as if it had come after all that is here."""
        for stage, figures in later._stages.items():
            self._stages.setdefault(stage, _Stage()).merge(figures)

    def totals(self) -> dict[str, dict[str, Any]]:
        """Everything, by stage."""
        return {stage: figures.shown(lists=True) for stage, figures in self._stages.items()}

    def summary(self) -> dict[str, dict[str, Any]]:
        """The same without the lists, for events that are sent often."""
        return {stage: figures.shown(lists=False) for stage, figures in self._stages.items()}


def _rounded(value: Any) -> Any:
    return round(value, DECIMALS) if isinstance(value, float) else value
