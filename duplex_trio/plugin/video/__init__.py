"""What a model of steered video brings, as ABCs. A model of speech is the package above, and knows nothing of this.

A model is a `pipelines.pipeline.Pipeline` that declares a `video_plugin`: its stages, a worker for each, and one
plugin object per engine. The stages are shared by all videos, such as the encoder of prompts, with replicas and
processes as a deployment says; the plugin calls them through the `StageCaller` that it is given. A video is a
`VideoModelSession`: it turns prompts into states, mixes states, and renders one chunk of frames after the other from a
state that has been resolved for it. Which state that is, and which prompt has begun or ended by it, is no business of
a model's: `duplex_trio.video.state` keeps that account.

Nothing here runs on the event loop. Prompts are encoded in one thread while chunks are rendered in another one, so a
session's `encode_interaction` must not touch what `render_chunk` changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_trio.lazy import lazy_names

if TYPE_CHECKING:
    from duplex_trio.plugin.video.capabilities import VideoCapabilities
    from duplex_trio.plugin.video.plugin import (
        Frame,
        StageCaller,
        StageCallError,
        VideoModelPlugin,
        VideoModelSession,
    )
    from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest, prompt_of

__all__ = [
    "Frame",
    "OmniInteractionEvent",
    "StageCallError",
    "StageCaller",
    "VideoCapabilities",
    "VideoModelPlugin",
    "VideoModelSession",
    "VideoRequest",
    "prompt_of",
]

_HOMES = {
    "duplex_trio.plugin.video.capabilities": ("VideoCapabilities",),
    "duplex_trio.plugin.video.plugin": (
        "Frame",
        "StageCallError",
        "StageCaller",
        "VideoModelPlugin",
        "VideoModelSession",
    ),
    "duplex_trio.plugin.video.request": ("OmniInteractionEvent", "VideoRequest", "prompt_of"),
}

# A declaration loads no picture library.
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
