"""The order of a start: each wrong deployment ends it at one step, and nothing behind that step has begun."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from duplex_trio.deploy import DeployError
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.entrypoints.omni_base import AsyncOmniBase, WarmUpError
from duplex_trio.entrypoints.start_up import (
    NoDeploymentError,
    SeveralServersError,
    StartPlan,
    build_omni,
    plan_start,
)
from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.errors import UnknownModelError
from duplex_trio.pipelines.declared import DeclaredPathError
from duplex_trio.pipelines.registry import GROUP, BrokenPipelineError, UnknownPipelineError
from duplex_trio.pipelines.topology import TopologyError
from duplex_trio.plugin.checks import PluginError
from duplex_trio.stages.errors import StageLoadError
from duplex_trio.testing.distributions import install

STEPS = ["deployment", "session_mode", "servers", "model", "stages", "warm_up"]

MODULE = '''
import attrs
from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.errors import UnknownModelError
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.video import ScriptedVideoPipeline, plugin_of
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.models.scripted.workers import ScriptedLlm
from duplex_trio.models.cascade.plugin import make_plugin
from duplex_trio.stages.worker import UnitRefused

def named(name, **changes):
    return attrs.evolve(ScriptedPipeline.config, name=name, default_deploy=None, **changes)

class Lost(ScriptedPipeline):
    """Looks for a model that is not there."""
    config = named("lost")
    def __init__(self, deploy=None):
        raise UnknownModelError("there is no model 'atlantis'")

class NoPlugin(Lost):
    config = named("noplugin", duplex_plugin="start_up_models:nothing")

class NoModule(Lost):
    config = named("nomodule", duplex_plugin="start_up_models_gone:make")

class NoProcessor(Lost):
    config = named("noprocessor", processor=None)

class Headless(Lost):
    config = named("headless", stages=())

def make_text(pipeline):
    return "a text"

class WrongKind(ScriptedPipeline):
    config = named("wrongkind", duplex_plugin="start_up_models:make_text")

def make_nameless(pipeline):
    plugin = make_plugin(pipeline)
    plugin.plugin_id = ""
    return plugin

class Nameless(ScriptedPipeline):
    config = named("nameless", duplex_plugin="start_up_models:make_nameless")

class NoVideo(Lost):
    config = named("novideo")

class VideoGone(ScriptedVideoPipeline):
    config = attrs.evolve(ScriptedVideoPipeline.config, name="videogone", video_plugin="start_up_models:gone")

class VideoText(ScriptedVideoPipeline):
    config = attrs.evolve(ScriptedVideoPipeline.config, name="videotext", video_plugin="start_up_models:make_text")

def make_broken_video(pipeline):
    plugin = plugin_of(pipeline)
    def load():
        raise OSError("the weights are cut off")
    plugin.load = load
    return plugin

class VideoBroken(ScriptedVideoPipeline):
    config = attrs.evolve(
        ScriptedVideoPipeline.config, name="videobroken", video_plugin="start_up_models:make_broken_video"
    )

class VideoMute(ScriptedVideoPipeline):
    config = attrs.evolve(ScriptedVideoPipeline.config, name="videomute")
    def __init__(self, deploy=None):
        super().__init__(deploy, script=VideoScript(fail_at_chunk=0))

class BrokenLlm(ScriptedLlm):
    def load(self):
        raise OSError("the weights are cut off")

class Broken(ScriptedPipeline):
    config = named("broken")
    def build_worker(self, stage_id):
        return BrokenLlm(self.script) if stage_id == 1 else super().build_worker(stage_id)

class PickyLlm(ScriptedLlm):
    def check_params(self, params):
        if params.temperature is not None and params.temperature > 1:
            raise UnitRefused("invalid_value", f"temperature must be at most 1, is {params.temperature}")

class Picky(ScriptedPipeline):
    """Its runtime takes less than deployments may say."""
    config = named("picky")
    def build_worker(self, stage_id):
        return PickyLlm(self.script) if stage_id == 1 else super().build_worker(stage_id)

class Mute(ScriptedPipeline):
    """Loads, and fails at whatever it is asked."""
    config = named("mute")
    def __init__(self, deploy=None):
        super().__init__(deploy, script=Script(fail_on=frozenset({"Hello!", "Hello"})))

class NotOne:
    """Is no pipeline."""
'''


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with models of which each is wrong in its own way."""
    classes = (
        "Lost",
        "NoPlugin",
        "NoModule",
        "NoProcessor",
        "Headless",
        "WrongKind",
        "Nameless",
        "Broken",
        "Picky",
        "Mute",
        "NoVideo",
        "VideoGone",
        "VideoText",
        "VideoBroken",
        "VideoMute",
    )
    points = {name.lower(): f"start_up_models:{name}" for name in (*classes, "NotOne")}
    files = {"start_up_models.py": MODULE}
    install(tmp_path, "start-up-models", files=files, announces={GROUP: points})
    monkeypatch.syspath_prepend(tmp_path)


async def start(text: str | None, tmp_path: Path, **planned: Any) -> None:
    """Start what a deployment file says, and stop it once it is ready."""
    path: Path | None = None
    if text is not None:
        path = tmp_path / "deploy.yaml"
        path.write_text(text)
    omni = build_omni(plan_start(path, **planned))
    async with omni.running():
        pass


def kind_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error


PICKY = """
pipeline: picky
duplex_session: {warmup_frames: -1}
stages: [{stage_id: 1, default_sampling_params: {temperature: 1.5}}]
"""
FAULTS: dict[str, tuple[str | None, dict[str, Any], str, type[BaseException], str]] = {
    "nothing is said": (None, {}, "deployment", NoDeploymentError, "say what to serve"),
    "a pipeline without a deployment": (
        None, {"pipeline": "lost"}, "deployment", NoDeploymentError, "'lost' comes with no deployment of its own",
    ),
    "a pipeline that there is not": (
        None, {"pipeline": "scriptd"}, "deployment", UnknownPipelineError, "did you mean scripted",
    ),
    "an unknown key": (
        "pipeline: lost\nsessionmode: duplex\n", {}, "deployment", DeployError, "did you mean session_mode",
    ),
    "no pipeline": ("session_mode: duplex\n", {}, "deployment", DeployError, "pipeline"),
    "an unknown pipeline": ("pipeline: losst\n", {}, "deployment", UnknownPipelineError, "did you mean lost"),
    "no pipeline by that name": ("pipeline: notone\n", {}, "deployment", BrokenPipelineError, "start-up-models 1.0"),
    "a mode that is none": (
        "pipeline: lost\nsession_mode: half\n", {}, "deployment", DeployError, "session_mode.*half",
    ),
    "sessions on several servers": (
        "pipeline: lost\n", {"servers": 2}, "servers", SeveralServersError, "by 2 server processes",
    ),
    "no stages": ("pipeline: headless\n", {}, "model", TopologyError, "no stages"),
    "a stage that there is not": (
        "pipeline: lost\nstages: [{stage_id: 7}]\n", {}, "model", DeployError, "0 .asr., 1 .llm., 2 .tts., not 7",
    ),
    "turns of a model that answers none": (
        "pipeline: noprocessor\nsession_mode: turn\n", {}, "model", DeployError, "declares no processor",
    ),
    "a plugin that is not there": (
        "pipeline: noplugin\n", {}, "model", DeclaredPathError, "start_up_models has no nothing",
    ),
    "a plugin whose module is not there": (
        "pipeline: nomodule\n", {}, "model", DeclaredPathError, "No module named 'start_up_models_gone'",
    ),
    "a model that is not there": ("pipeline: lost\n", {}, "model", UnknownModelError, "atlantis"),
    "a plugin of another kind": ("pipeline: wrongkind\n", {}, "model", DeclaredPathError, "makes a thing of type str"),
    "a plugin without a name": ("pipeline: nameless\n", {}, "model", PluginError, "plugin_id is empty"),
    "weights that do not load": ("pipeline: broken\n", {}, "stages", StageLoadError, "'llm'.*cut off"),
    "weights that do not load, in turns": (
        "pipeline: broken\nsession_mode: turn\n", {}, "stages", StageLoadError, "'llm'.*cut off",
    ),
    "parameters that the runtime refuses": (
        PICKY, {}, "stages", StageLoadError, "'llm'.*refuses the parameters.*temperature must be at most 1, is 1.5",
    ),
    "a model that fails": ("pipeline: mute\n", {}, "warm_up", WarmUpError, "scripted failure"),
    "a model of video that declares none": (
        "pipeline: novideo\nsession_mode: video\n", {}, "model", DeployError, "declares no video_plugin",
    ),
    "a plugin of video that is not there": (
        "pipeline: videogone\n", {}, "model", DeclaredPathError, "start_up_models has no gone",
    ),
    "a plugin of video of another kind": (
        "pipeline: videotext\n", {}, "model", DeclaredPathError, "makes a thing of type str, no VideoModelPlugin",
    ),
    "weights of video that do not load": (
        "pipeline: videobroken\n", {}, "warm_up", WarmUpError, "could not be loaded: OSError: the weights are cut off",
    ),
    "a model of video that renders nothing": (
        "pipeline: videomute\n", {}, "warm_up", WarmUpError, "no chunk could be rendered: RuntimeError: scripted",
    ),
    "a model that fails, in turns": (
        "pipeline: mute\nsession_mode: turn\n", {}, "warm_up", WarmUpError, "scripted failure",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_ends_the_start_at_its_step(tmp_path: Path, name: str) -> None:
    text, planned, step, kind, message = FAULTS[name]
    with structlog.testing.capture_logs() as lines, pytest.raises((kind, BaseExceptionGroup)) as raised:
        await start(text, tmp_path, **planned)
    fault = kind_of(raised.value)
    assert isinstance(fault, kind)
    assert re.search(message, str(fault)), str(fault)
    begun = [line["step"] for line in lines if line["event"] == "start.step"]
    assert begun == STEPS[: STEPS.index(step) + 1]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("base_config: scripted\n", DuplexOmni),
        ("base_config: scripted\nsession_mode: turn\n", AsyncOmni),
        ("pipeline: scripted\n", DuplexOmni),
        ("base_config: scripted_video\n", VideoOmni),
        ("pipeline: scripted_video\n", VideoOmni),
    ],
)
async def test_a_sound_deployment_takes_every_step(
    tmp_path: Path, text: str, kind: type[AsyncOmniBase]
) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text(text)
    with structlog.testing.capture_logs() as lines:
        plan = plan_start(path)
        omni = build_omni(plan)
        assert type(omni) is kind
        assert omni.session_mode == plan.session_mode
        async with omni.running():
            pass
    assert [line["step"] for line in lines if line["event"] == "start.step"] == STEPS


def test_a_pipeline_is_served_by_the_deployment_that_is_meant_for_it() -> None:
    plan = plan_start(pipeline="scripted_native")
    assert plan.deploy.pipeline == "scripted_native"
    assert plan.session_mode == "duplex"
    assert isinstance(plan, StartPlan)


def test_requests_may_be_served_by_several_servers(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("base_config: scripted\nsession_mode: turn\n")
    assert plan_start(path, servers=3).session_mode == "turn"


async def test_the_deployment_bounds_requests(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("base_config: scripted\nsession_mode: turn\nduplex_session: {max_chats: 3}\n")
    omni = build_omni(plan_start(path))
    assert isinstance(omni, AsyncOmni)
    assert omni.statistics().max_requests == 3
    path.write_text("base_config: scripted\nsession_mode: turn\n")
    omni = build_omni(plan_start(path))
    assert isinstance(omni, AsyncOmni)
    assert omni.statistics().max_requests == 64
    await trio.lowlevel.checkpoint()
