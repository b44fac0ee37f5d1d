"""A scripted model of video: no weights, and pictures that tell what they were rendered from.

One stage gives a prompt its colour; a chunk is rendered in the colour that was resolved for it. It is there to try
clients, servers and the protocol with, slow and broken in ways that `VideoScript` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
from attrs import frozen

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.scripted.video_picture import Colour, ScriptedPicture, colour_of, draw
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest, prompt_of
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.worker import SerialWorker, StageWorker, UnitRefused

ENCODER = 0
"""The stage that turns prompts into states."""
STEP_S = 0.005
"""How often a slow frame asks whether it is still wanted."""


@frozen(kw_only=True)
class ScriptedPrompt:
    """Input of the scripted stage: a prompt, and what becomes of it."""

    text: str
    delay_s: float = 0.0
    fails: bool = False
    dies: bool = False


class ScriptedTextEncoder(SerialWorker):
    """Gives a prompt its colour."""

    name = "text_encoder"

    def load(self) -> None:
        """Nothing to load."""

    def process(self, request: StageRequest, state: Any, unit: ScriptedPrompt) -> Iterable[Colour]:
        """One colour for a prompt, or the failure that it is to be."""
        time.sleep(unit.delay_s)
        if unit.dies:
            raise SystemExit("scripted death")
        if unit.fails:
            raise UnitRefused("engine_error", "scripted failure")
        return [colour_of(unit.text)]


class ScriptedVideoSession(VideoModelSession):
    """One scripted video."""

    def __init__(self, request: VideoRequest, stages: StageCaller, script: VideoScript) -> None:
        self._request = request
        self._stages = stages
        self._script = script
        self._frames = 0

    def encode_interaction(self, event: OmniInteractionEvent) -> Colour:
        """Ask the stage."""
        script, text = self._script, prompt_of(event, "The scripted model")
        words = text.split()
        if script.refused_word in words:
            raise ValueError(f"The scripted model cannot do {script.refused_word!r}")
        prompt = ScriptedPrompt(
            text=text,
            delay_s=script.encode_delay_s,
            fails=script.failing_word in words,
            dies=script.dying_word in words,
        )
        (colour,) = self._stages.call(ENCODER, prompt)
        return np.asarray(colour, np.float32)

    def render_chunk(
        self,
        index: int,
        state: Colour,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterator[Frame]:
        """Draw one picture after the other."""
        if index == self._script.fail_at_chunk:
            raise RuntimeError(f"scripted failure at chunk {index}")
        for _ in range(n_frames):
            if not self._waited(cancelled):
                return
            picture = ScriptedPicture(index % 65_536, self._frames % 65_536, state)
            self._frames += 1
            yield draw(picture, self._request.width, self._request.height)

    def _waited(self, cancelled: Callable[[], bool]) -> bool:
        until_s = time.monotonic() + self._script.frame_delay_s
        while (left_s := until_s - time.monotonic()) > 0:
            if cancelled():
                return False
            time.sleep(min(left_s, STEP_S))
        return True


class ScriptedVideoPlugin(VideoModelPlugin):
    """The scripted model as a plugin.

    Args:
        script: what its videos do, where a request does not say otherwise.
        supports_prompt_updates: whether the prompt of a video can be changed.
    """

    def __init__(self, script: VideoScript, *, supports_prompt_updates: bool = True) -> None:
        self._script = script
        self._capabilities = VideoCapabilities(
            default_width=64,
            default_height=64,
            supports_prompt_updates=supports_prompt_updates,
            start_fields=frozenset({"extra_params"}),
        )

    @property
    def capabilities(self) -> VideoCapabilities:
        """Small pictures, in chunks of 9 at 16 frames a second."""
        return self._capabilities

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        """Begin a video by the script as the request changes it."""
        script = self._script.changed_by(request.extra_params, "extra_params")
        return ScriptedVideoSession(request, stages, script)


class ScriptedVideoPipeline(Pipeline):
    """One stage that turns prompts into colours.

    Args:
        deploy: holds the script in the stage's `engine_args`, and `supports_prompt_updates` there.
        script: what videos do, if it comes from elsewhere.
        supports_prompt_updates: likewise.
    """

    config = PipelineConfig(
        name="scripted_video",
        stages=(StageSpec(stage_id=0, name="text_encoder", loads_model=False, final_output="prompt_state"),),
        video_plugin="duplex_trio.models.scripted.video:plugin_of",
        default_session_mode="video",
        default_deploy="scripted_video",
    )

    def __init__(
        self,
        deploy: DeployConfig | None = None,
        *,
        script: VideoScript | None = None,
        supports_prompt_updates: bool = True,
    ) -> None:
        super().__init__(deploy)
        where = f"stages[{ENCODER}].engine_args"
        said = dict(self.deploy.stage(ENCODER).engine_args)
        updates = said.pop("supports_prompt_updates", supports_prompt_updates)
        if updates is not True and updates is not False:
            raise ValueError(f"{where}.supports_prompt_updates must be true or false, not {updates!r}")
        self.script = (script or VideoScript()).changed_by(said, where)
        self.supports_prompt_updates = updates

    @classmethod
    def stage_keys(cls, stage: StageDeploy) -> Collection[str]:
        """What the script is written in."""
        return ("engine_args",)

    def model_name(self) -> str:
        """The served name."""
        return "scripted_video"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the stage."""
        return ScriptedTextEncoder()


def plugin_of(pipeline: Pipeline) -> ScriptedVideoPlugin:
    """Make the plugin of the pipeline."""
    assert isinstance(pipeline, ScriptedVideoPipeline)
    return ScriptedVideoPlugin(pipeline.script, supports_prompt_updates=pipeline.supports_prompt_updates)
