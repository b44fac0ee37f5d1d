"""The pipelines that deployments may use, where each comes from, and whether it can be used."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from rich.console import Console
from rich.markup import escape

from duplex_trio.pipelines.config import PipelineConfig
from duplex_trio.pipelines.declared import path_faults
from duplex_trio.pipelines.registry import (
    PipelineOrigin,
    PipelineUnavailableError,
    pipeline_config,
    pipeline_origins,
)
from duplex_trio.pipelines.topology import topology_faults


@frozen(kw_only=True)
class PipelineListing:
    """One row.

    Attributes:
        name: what deployments call it.
        package: the distribution that announces it, and `version` its version.
        value: what it announces.
        modes: how it can be served: `duplex`, `turn`; the one that it is meant for is first.
        stages: the names of its stages, in order.
        deployment: the deployment that is meant for it, if there is one.
        faults: why it cannot be used; none for one that can.
    """

    name: str
    package: str
    version: str
    value: str
    modes: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    deployment: str | None = None
    faults: tuple[str, ...] = ()


def list_pipelines() -> list[PipelineListing]:
    """Every announced pipeline by name, those that cannot be used among them."""
    return [_listing(origin) for origin in pipeline_origins()]


def _listing(origin: PipelineOrigin) -> PipelineListing:
    known: dict[str, Any] = {
        "name": origin.name,
        "package": origin.distribution,
        "version": origin.version,
        "value": origin.value,
    }
    try:
        config = pipeline_config(origin.name)
    except PipelineUnavailableError as error:
        return PipelineListing(**known, faults=(str(error),))
    faults = [*map(str, topology_faults(config)), *(str(error) for error in path_faults(config))]
    return PipelineListing(
        **known,
        modes=_modes(config),
        stages=tuple(stage.name for stage in config.stages),
        deployment=config.default_deploy,
        faults=tuple(faults),
    )


def _modes(config: PipelineConfig) -> tuple[str, ...]:
    declared = {"duplex": config.duplex_plugin, "turn": config.processor}
    modes = [mode for mode, path in declared.items() if path is not None]
    return tuple(sorted(modes, key=lambda mode: mode != config.default_session_mode))


def print_pipelines(listings: list[PipelineListing], console: Console) -> None:
    """Print the rows for people."""

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    for listing in listings:
        state = "[red]cannot be used[/]" if listing.faults else ", ".join(listing.modes)
        say(f"[bold]{escape(listing.name):<20}[/] {state}")
        if listing.stages:
            served = f"; duplex-trio serve --deploy {listing.deployment}" if listing.deployment else ""
            say(f"  {escape(', '.join(listing.stages) + served)}")
        for fault in listing.faults:
            say(f"  [red]{escape(fault)}[/]")
        say(f"  [dim]{escape(f'{listing.package} {listing.version} ({listing.value})')}[/]")
