"""The parrot as it is declared, and how a deployment becomes its runtimes."""

from collections.abc import Collection, Iterator

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.errors import Finding
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.worker import StageWorker
from parrot.worker import ParrotEar, ParrotVoice

DEFAULT_PITCH = 1.25


class ParrotPipeline(Pipeline):
    """One stage, which says again what it gets."""

    config = PipelineConfig(
        name="parrot",
        stages=(StageSpec(stage_id=0, name="voice", window=4, loads_model=False, final_output="audio"),),
        processor="parrot.processor:make_processor",
        duplex_plugin="parrot.plugin:make_plugin",
        default_session_mode="duplex",
        default_deploy="parrot",
    )

    @classmethod
    def stage_keys(cls, stage: StageDeploy) -> Collection[str]:
        """A deployment may set the pitch."""
        return ("engine_args",)

    @classmethod
    def deployment_findings(cls, deploy: DeployConfig) -> Iterator[Finding]:
        """What `duplex-trio deploy check` says of the arguments."""
        for key, value in deploy.stage(0).engine_args.items():
            if key != "pitch":
                yield Finding(key=f"engine_args.{key}", stage_id=0, message="is no argument; there is pitch")
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value <= 2:
                message = f"must be a number between 0.5 and 2, not {value!r}"
                yield Finding(key="engine_args.pitch", stage_id=0, message=message)

    def model_name(self) -> str:
        """What clients call it."""
        return "parrot"

    def build_worker(self, stage_id: int) -> StageWorker:
        """The voice, with the deployment's pitch."""
        return ParrotVoice(self.deploy.stage(stage_id).engine_args.get("pitch", DEFAULT_PITCH))

    def build_vad_worker(self) -> StageWorker:
        """The ear, so that it knows when a turn is over."""
        return ParrotEar()
