"""The `duplex-trio models` command: the packaged models, what else a model option accepts, and the pipelines."""

from __future__ import annotations

import argparse
import json
from typing import Any

from attrs import asdict, frozen
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape

from duplex_trio.cli.pipelines import list_pipelines, print_pipelines
from duplex_trio.models.cache import ModelCache, cache_root
from duplex_trio.models.catalog import CATALOG, KIND_NAMES, PackagedModel
from duplex_trio.models.errors import INSTALL_COMMAND, ModelIntegrityError
from duplex_trio.models.local import EXPECTED
from duplex_trio.models.packages import locate_packaged


@frozen
class ModelListing:
    """One row: `size` is bytes on disk, `state` one of installed, missing, damaged; `path` where it lies."""

    name: str
    kind: str
    state: str
    path: str | None
    size: int
    licence: str
    package: str
    description: str


def add_parser(subparsers: Any) -> None:
    """Add `models` to the command line."""
    parser = subparsers.add_parser(
        "models",
        help="list the models and where they are",
        description="List the packaged models, or the pipelines that deployments join models to.",
    )
    parser.add_argument(
        "--pipelines", action="store_true", help="list the pipelines and the packages that they come from"
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the list; 0."""
    if args.pipelines:
        pipelines = list_pipelines()
        if args.json:
            print(json.dumps([asdict(pipeline) for pipeline in pipelines], indent=2))
        else:
            print_pipelines(pipelines, Console())
        return 0
    cache = ModelCache(cache_root())
    listings = [list_model(model, cache) for model in CATALOG]
    if args.json:
        print(json.dumps([asdict(listing) for listing in listings], indent=2))
    else:
        _print_list(listings, Console())
    return 0


def list_model(model: PackagedModel, cache: ModelCache) -> ModelListing:
    """What there is to say about one packaged model on this machine."""
    try:
        path = locate_packaged(model, cache)
        state = "missing" if path is None else "installed"
    except ModelIntegrityError:
        path, state = None, "damaged"
    return ModelListing(
        name=model.name,
        kind=model.kind,
        state=state,
        path=None if path is None else str(path),
        size=model.stored_size,
        licence=model.licence,
        package=model.requirement,
        description=model.description,
    )


def _print_list(listings: list[ModelListing], console: Console) -> None:
    def say(text: str = "") -> None:
        console.print(text, highlight=False, soft_wrap=True)

    for listing in listings:
        colour = "green" if listing.state == "installed" else "yellow"
        facts = f"{decimal(listing.size):>9}  {listing.licence}"
        say(f"[bold]{listing.name:<16}[/] {listing.kind}  [{colour}]{listing.state:<9}[/] {facts}")
        say(f"  {listing.description}")
        if listing.path:
            say(f"  [dim]{escape(listing.path)}[/]")
    if any(listing.state != "installed" for listing in listings):
        say(f"\nGet what is missing with: {INSTALL_COMMAND}")
    say("\nThe options that name a model take one of these names, or the path of")
    for kind, expected in EXPECTED.items():
        say(f"  {kind}  {KIND_NAMES[kind]}: {expected}")
    say("or the id of a model with such files on the Hugging Face hub: org/name, or org/name/file.gguf")
