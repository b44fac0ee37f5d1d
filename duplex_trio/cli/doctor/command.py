"""The `duplex-trio doctor` command: which checks there are, in which order, and what becomes of their findings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import trio
from rich.console import Console

from duplex_trio.cli.compose import DEFAULT_DEPLOY
from duplex_trio.cli.doctor.checks import CHECKS
from duplex_trio.cli.doctor.deployment import check_port, check_served
from duplex_trio.cli.doctor.facts import MachineFacts, look_at_machine
from duplex_trio.cli.doctor.finding import Finding, fenced, unforeseen
from duplex_trio.cli.doctor.report import show, sum_up
from duplex_trio.cli.doctor.server import check_server
from duplex_trio.cli.doctor.sound import check_sound
from duplex_trio.cli.doctor.turn import check_import, check_turn
from duplex_trio.cli.errors import UsageError
from duplex_trio.cli.own_server import API_KEY_VARIABLE, key_from_environment
from duplex_trio.clients.url import build_realtime_url
from duplex_trio.models.cache import ModelCache, cache_root

_DESCRIPTION = """\
Say what works on this machine, and what to do about the rest: Python, processor, memory and disk, the engine's
packages, the models, a deployment, its port, sound devices. Takes a second or two and loads no model; --full
holds a spoken turn. With --url a server is looked at instead. Exit status 1 if there is a problem.
"""


def add_parser(subparsers: Any) -> None:
    """Add `doctor` to the command line."""
    parser = subparsers.add_parser(
        "doctor", help="say what works on this machine, and mend the rest", description=_DESCRIPTION
    )
    parser.add_argument(
        "--deploy",
        metavar="NAME|FILE",
        default=DEFAULT_DEPLOY,
        help="deployment that is to be served (default: %(default)s)",
    )
    parser.add_argument("--port", type=_port, default=8765, help="port to serve at (default: %(default)s)")
    parser.add_argument(
        "--full", action="store_true", help="import the engine and hold a spoken turn: a minute or so"
    )
    parser.add_argument("--url", metavar="URL", help="look at the server there instead")
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        default=key_from_environment(),
        help=f"for --url; default: {API_KEY_VARIABLE}",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, and nothing else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look, and tell; 0 without a problem, else 1.

    Raises:
        UsageError: the URL is none to connect to, or options do not go together.
    """
    console = Console()
    findings: list[Finding] = []
    for finding in _findings(args):
        findings.append(finding)
        if not args.json:
            show(finding, console)
    well = not any(finding.state == "problem" for finding in findings)
    if args.json:
        print(json.dumps({"well": well, "findings": [finding.to_json() for finding in findings]}, indent=2))
    else:
        sum_up(findings, console)
    return 0 if well else 1


def _findings(args: argparse.Namespace) -> Iterable[Finding]:
    if args.url is None:
        return _of_this_machine(args)
    if args.full:
        raise UsageError("--full is about this machine, not about --url")
    try:
        build_realtime_url(args.url)
    except ValueError as error:
        raise UsageError(f"--url: {error}") from None
    return trio.run(_of_a_server, args.url, args.api_key or None)


async def _of_a_server(url: str, api_key: str | None) -> list[Finding]:
    found: list[Finding] = []
    try:
        async for finding in check_server(url, api_key):
            found.append(finding)
    except Exception as error:  # the fence of `fenced`, for checks that wait
        found.append(unforeseen("Server", error))
    return found


def _of_this_machine(args: argparse.Namespace) -> Iterator[Finding]:
    looked: list[MachineFacts] = []

    def look() -> Iterator[Finding]:
        looked.append(look_at_machine(ModelCache(cache_root())))
        yield from ()

    yield from fenced("Machine", look)
    if looked:
        for check in CHECKS:
            yield from fenced(_title(check), partial(check, looked[0]))
    yield from fenced("Deployment", partial(check_served, args.deploy))
    yield from fenced("Port", partial(check_port, "127.0.0.1", args.port))
    if looked and "sounddevice" in looked[0].environment.installed:
        yield from fenced("Sound", check_sound)
    if args.full:
        yield from fenced("Engine starts", check_import)
        yield from fenced("A spoken turn", partial(check_turn, args.deploy))


def _title(check: Callable[..., object]) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ").capitalize()


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a port, 1 to 65535, not {text!r}")
    return int(text)
