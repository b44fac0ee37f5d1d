"""The image, read rather than built: what the README installs, of files that are there, for a user without rights."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from duplex_trio.cli.main import build_parser
from duplex_trio.models.cache import CACHE_VARIABLE
from tests.operations.units import Instruction, instructions


@pytest.fixture(scope="module")
def stages(operations: Path) -> dict[str, list[Instruction]]:
    """The instructions by the stage that they belong to."""
    found: dict[str, list[Instruction]] = {}
    for one in instructions(operations / "docker" / "Dockerfile"):
        if one.name == "FROM":
            found[one.words[-1]] = current = []
        current.append(one)
    return found


def only(stage: list[Instruction], name: str) -> Instruction:
    (found,) = [one for one in stage if one.name == name]
    return found


def test_docker_knows_every_instruction(stages: dict[str, list[Instruction]]) -> None:
    known = {
        "FROM",
        "RUN",
        "COPY",
        "ENV",
        "WORKDIR",
        "USER",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    assert {one.name for stage in stages.values() for one in stage} <= known
    assert list(stages) == ["base", "build", "slim", "baked"]


def test_each_stage_builds_on_one_that_is_there(stages: dict[str, list[Instruction]]) -> None:
    """Or on Python's own image, in the version that the package asks for."""
    before: list[str] = []
    for name, stage in stages.items():
        base = only(stage, "FROM").words[0]
        assert base in before or re.fullmatch(r"python:3\.11-slim-\w+", base)
        sources = [
            word for one in stage for word in one.words if one.name == "COPY" and word.startswith("--from=")
        ]
        assert all(source.removeprefix("--from=") in before for source in sources)
        before.append(name)


def test_what_is_copied_is_in_the_repository_and_not_ignored(
    stages: dict[str, list[Instruction]], operations: Path
) -> None:
    lines = (operations / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*", "what is not named stays outside"
    let_in = {line[1:] for line in patterns if line.startswith("!")}
    copied = set()
    for one in (one for one in stages["build"] if one.name == "COPY"):
        copied |= {source for source in one.words[:-1] if not source.startswith("--")}
    assert copied == let_in
    assert all((operations.parent / source).exists() for source in copied)
    kept_out = [line.removeprefix("**/") for line in patterns if line.startswith("**/")]
    assert any(fnmatch("__pycache__", pattern) for pattern in kept_out)


def test_it_installs_what_the_readme_does(stages: dict[str, list[Instruction]], operations: Path) -> None:
    """The same two commands, with the extra for traces; nothing of CUDA, and no option that is not one."""
    readme = (operations.parent / "README.md").read_text()
    commands = [command for one in stages["build"] if one.name == "RUN" for command in one.commands]
    assert ["pip", "install", ".[otel]"] in commands
    assert "pip install ." in readme
    (ours,) = [command for command in commands if command[0] == "duplex-trio"]
    assert " ".join(ours[:3]) == "duplex-trio install cpu"
    assert "duplex-trio install cpu" in readme
    assert build_parser(ours[1:]).parse_args(ours[1:]).yes
    assert not re.search(r"nvidia|cuda:|\[gpu\]", (operations / "docker" / "Dockerfile").read_text())


def test_it_serves_as_nobody_in_particular(stages: dict[str, list[Instruction]]) -> None:
    """Not as root; writable is only where the models are, which is where it looks for them."""
    slim = stages["slim"]
    assert only(slim, "USER").text == "duplex-trio"
    names = [one.name for one in slim]
    assert names.index("USER") < names.index("CMD")
    assert "USER" not in [one.name for one in stages["baked"]], "the last stage keeps it"
    folder = only(slim, "WORKDIR").text
    assert f"{CACHE_VARIABLE}={folder}" in only(slim, "ENV").words
    assert any(folder in one.text for one in stages["build"] if one.name == "RUN")
    assert only(stages["baked"], "COPY").words[-2:] == [folder, folder]


def test_its_command_is_one_of_ours(stages: dict[str, list[Instruction]]) -> None:
    slim = stages["slim"]
    assert only(slim, "ENTRYPOINT").words == ["duplex-trio"]
    arguments = only(slim, "CMD").words
    parsed = build_parser(arguments).parse_args(arguments)
    assert parsed.host == "0.0.0.0"
    assert str(parsed.port) == only(slim, "EXPOSE").text
    assert f"http://127.0.0.1:{parsed.port}/health" in only(slim, "HEALTHCHECK").text


# ------------------------------------------------------------------ the composition


@pytest.fixture(scope="module")
def services(operations: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((operations / "docker" / "compose.yaml").read_text())
    volumes = {str(volume).split(":")[0] for one in loaded["services"].values() for volume in one["volumes"]}
    named = {volume for volume in volumes if "/" not in volume}
    assert named == set(loaded["volumes"])
    services: dict[str, Any] = loaded["services"]
    return services


def test_what_is_mounted_and_built_is_there(services: dict[str, Any], operations: Path) -> None:
    folder = operations / "docker"
    build = services["duplex-trio"]["build"]
    context = (folder / build["context"]).resolve()
    assert (context / "pyproject.toml").is_file()
    assert (context / build["dockerfile"]).is_file()
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert "/" not in source or (folder / source).exists(), source


def test_only_this_machine_reaches_it(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_grafana_is_given_the_dashboard_and_its_data(services: dict[str, Any], operations: Path) -> None:
    """The folder that it is told to read is the one that the dashboard is mounted in."""
    provisioning = operations / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "duplex_trio.yaml").read_text())["providers"]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    assert mounts["../grafana/duplex_trio.json"].startswith(provider["options"]["path"] + "/")
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    scraped = yaml.safe_load((operations / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert scraped[0]["static_configs"][0]["targets"] == ["duplex-trio:8765"]
    assert {"prometheus", "duplex-trio"} <= set(services)
