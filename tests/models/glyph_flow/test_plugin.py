"""The plugin of glyph-flow: what it takes of a request, and its declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.glyph_flow.pipeline import GlyphFlowPipeline
from duplex_trio.models.glyph_flow.plugin import GUIDANCE, STEPS, STEPS_MAX, GlyphFlowPlugin
from duplex_trio.pipelines.registry import load_pipeline
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.stages.units import TextEmbedding
from duplex_trio.testing.video_models import WordStages, WorkerStages, rendered

pytest.importorskip("torch")

START = {"request_id": "v", "prompt": "a cat", "width": 64, "height": 64, "fps": 16.0}


@pytest.fixture(scope="module")
def plugin() -> GlyphFlowPlugin:
    """With the packaged weights."""
    made = GlyphFlowPlugin()
    made.load()
    return made


def opened(plugin: GlyphFlowPlugin, **fields: Any) -> Any:
    return plugin.open(VideoRequest(**{**START, **fields}), WordStages())


def test_it_declares_what_a_diffusion_model_takes(plugin: GlyphFlowPlugin) -> None:
    able = plugin.capabilities
    assert able.start_fields == {"num_inference_steps", "guidance_scale", "negative_prompt"}
    assert (able.native_fps, able.chunk_frames, able.supports_prompt_updates) == (16.0, 9, True)


@pytest.mark.parametrize(("said", "steps"), [(None, STEPS), (1, 1), (STEPS_MAX, STEPS_MAX)])
def test_steps_are_those_of_the_request(plugin: GlyphFlowPlugin, said: int | None, steps: int) -> None:
    """Counted by how often a chunk asks whether it is still wanted."""
    asked: list[None] = []
    session = opened(plugin, num_inference_steps=said)
    state = session.encode_interaction({"prompt": "a cat"})
    rendered(session, state, n_frames=1, cancelled=lambda: asked.append(None) is not None)
    assert len(asked) == steps


def test_too_many_steps_are_refused(plugin: GlyphFlowPlugin) -> None:
    with pytest.raises(ValueError, match=f"num_inference_steps .* {STEPS_MAX} or less, not {STEPS_MAX + 1}"):
        opened(plugin, num_inference_steps=STEPS_MAX + 1)


def test_guidance_has_a_default(plugin: GlyphFlowPlugin) -> None:
    def first(**fields: Any) -> Any:
        session = opened(plugin, **fields)
        return rendered(session, session.encode_interaction({"prompt": "a cat"}), n_frames=1)[0]

    assert (first() == first(guidance_scale=GUIDANCE)).all()
    assert (first() != first(guidance_scale=GUIDANCE + 3.0)).any()


def test_videos_share_the_network_and_nothing_else(plugin: GlyphFlowPlugin) -> None:
    """Two at once, chunk by chunk, are the same as one after the other."""

    def video(session: Any) -> list[Any]:
        return [frame for index in range(2) for frame in rendered(session, state, index=index, n_frames=2)]

    state = WordStages().call(0, _text("a cat"))[0].vector
    alone = [video(opened(plugin, seed=seed)) for seed in (1, 2)]
    together = [opened(plugin, seed=seed) for seed in (1, 2)]
    mixed: list[list[Any]] = [[], []]
    for index in range(2):
        for frames, session in zip(mixed, together, strict=True):
            frames += rendered(session, state, index=index, n_frames=2)
    for one, other in zip(alone, mixed, strict=True):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))


def _text(text: str) -> Any:
    from duplex_trio.stages.units import TextToEmbed

    return TextToEmbed(text=text)


def test_a_deployment_may_name_another_copy_of_the_encoder() -> None:
    deploy = DeployConfig(pipeline="glyph_flow", stages=(StageDeploy(stage_id=0, model="/models/minilm"),))
    (use,) = GlyphFlowPipeline.models_used(deploy)
    assert (use.reference, use.kind, use.stage_id) == ("/models/minilm", "text-encoder", 0)
    (use,) = GlyphFlowPipeline.models_used(DeployConfig(pipeline="glyph_flow"))
    assert use.reference == "minilm-l6-v2"


@pytest.mark.models
def test_the_pipeline_is_found_by_its_name_and_makes_video(tmp_path: Path) -> None:
    pipeline = load_pipeline(DeployConfig(pipeline="glyph_flow"))
    assert isinstance(pipeline, GlyphFlowPipeline)
    assert pipeline.model_name() == "glyph-flow"
    stages = WorkerStages(pipeline)
    made = pipeline.build_video_plugin()
    made.load()
    session = made.open(VideoRequest(**START), stages)
    state = session.encode_interaction({"prompt": "a cat"})
    assert isinstance(stages.call(0, _text("a cat"))[0], TextEmbedding)
    assert len(rendered(session, state)) == 9
    session.close()
    made.close()
