"""The `duplex-trio deploy` command: its subcommands and what they print."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from rich.markup import escape

from duplex_trio.cli.deploy.check import Report, check_deployment
from duplex_trio.cli.deploy.show import as_data, as_yaml
from duplex_trio.cli.deployments import opened
from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import PLATFORMS, DeployError, named_deployments, read_deploy
from duplex_trio.pipelines.deployment import session_mode
from duplex_trio.pipelines.registry import PipelineUnavailableError, pipeline_class

_DESCRIPTION = """\
A deployment says which pipeline is served, with which models, on what, and with which limits. It is a YAML file, or
one of those that ship with packages, which have names.
"""


def add_parser(subparsers: Any) -> None:
    """Add `deploy` to the command line."""
    parser = subparsers.add_parser(
        "deploy", help="list, check and show deployments", description=_DESCRIPTION
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the deployments that have a name")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    listing.set_defaults(run=run_list)
    check = actions.add_parser("check", help="look for faults without loading a model")
    _add_deployment(check)
    check.set_defaults(run=run_check)
    show = actions.add_parser("show", help="print what a deployment says, what it extends included, as YAML")
    _add_deployment(show)
    show.add_argument(
        "--all", action="store_true", help="print the keys that are left out too, with their defaults"
    )
    show.add_argument("--json", action="store_true", help="print it as JSON")
    show.set_defaults(run=run_show)


def _add_deployment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("deployment", metavar="NAME|FILE", help="a deployment's name, or a file")
    add_platform(parser)


def add_platform(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses the section of `platforms`."""
    parser.add_argument(
        "--platform",
        choices=PLATFORMS,
        help="whose section of `platforms` to apply (default: this machine's)",
    )


def run_list(args: argparse.Namespace) -> int:
    """Print the deployments that have a name; 0."""
    rows = []
    for named in named_deployments():
        row = {
            "name": named.name,
            "origin": named.origin,
            "pipeline": None,
            "session_mode": None,
            "about": "",
        }
        try:
            row["about"] = _first_comment(named.read_text())
            config = read_deploy(named.name).config
            row["pipeline"] = config.pipeline
            mode = session_mode(pipeline_class(config.pipeline).config, config)
            row["session_mode"] = mode
            row["video"] = None if mode == "video" else config.video
        except DeployError as error:
            row["fault"] = "; ".join(fault.message for fault in error.faults)
        except PipelineUnavailableError as error:
            row["fault"] = str(error)
        rows.append(row)
    if args.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    console = Console()
    for row in rows:
        beside = f", with video by {row['video']}" if row.get("video") else ""
        told = row.get("fault") or f"{row['pipeline']}, {row['session_mode']}{beside}"
        origin = "" if row["origin"] == "duplex_trio" else f"  [dim]{escape(str(row['origin']))}[/]"
        console.print(
            f"[bold]{escape(str(row['name'])):<20}[/] {escape(str(told))}{origin}",
            highlight=False,
            soft_wrap=True,
        )
        if row["about"]:
            console.print(f"  {escape(str(row['about']))}", highlight=False, soft_wrap=True)
    return 0


def _first_comment(text: str) -> str:
    first = text.split("\n", 1)[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""


def run_check(args: argparse.Namespace) -> int:
    """Print every fault and note on a line of its own, and a summary; 1 if there is a fault, else 0."""
    report = check_deployment(args.deployment, platform=args.platform)
    for fault in report.faults:
        print(f"fault: {fault.located}")
    for note in report.notes:
        print(f"note: {note.located}")
    print(_summary(report))
    return 1 if report.faults else 0


def _summary(report: Report) -> str:
    if report.faults:
        count = len(report.faults)
        return f"{report.name} cannot be served: {count} fault{'s' if count > 1 else ''}."
    return f"{report.name} can be served: {report.told}."


def run_show(args: argparse.Namespace) -> int:
    """Print a deployment; 0.

    Raises:
        CommandError: it is faulty.
    """
    with opened(args.deployment):
        document = read_deploy(args.deployment, platform=args.platform)
    try:
        mode = session_mode(pipeline_class(document.config.pipeline).config, document.config)
    except PipelineUnavailableError as error:
        raise CommandError(f"{args.deployment}: {error}") from error
    if args.json:
        print(json.dumps(as_data(document, mode, every=args.all), indent=2, ensure_ascii=False, default=str))
    else:
        print(as_yaml(document, mode, every=args.all), end="")
    return 0
