"""How a language model chooses its words, beyond what a session lets its client say.

The one typed place for these knobs on their way from a request to a model: a chat request is read into it, the
session carries it, and a plugin finds it in `TurnInput.sampling`. Temperature and the most tokens of an answer are
not here, for sessions have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen


@frozen(kw_only=True)
class Sampling:
    """Knobs of one answer; None, or nothing, leaves the model's own value in force.

    The answer ends in front of the first of the texts in `stop`. `json_schema` makes the whole answer JSON of
    that schema.
    """

    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: tuple[str, ...] = ()
    json_schema: Mapping[str, Any] | None = None

    @property
    def set_knobs(self) -> frozenset[str]:
        """The names of the knobs that say something."""
        return frozenset(name for name in KNOBS if getattr(self, name) not in (None, ()))


KNOBS = frozenset(attribute.name for attribute in attrs.fields(Sampling))
"""The names of all knobs."""
