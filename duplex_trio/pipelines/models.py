"""What a deployment needs of models: a value, so that somebody who may look for files can."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class ModelUse:
    """A model that a stage of a deployment loads.

    Attributes:
        reference: a folder or file, a packaged name, or a hub id.
        kind: what it is for, such as `llm`, `asr`, `tts` or `vad`.
        key: the key that names it.
        stage_id: the stage that has the key; None for one of the top level.
    """

    reference: str
    kind: str
    key: str = "model"
    stage_id: int | None = None
