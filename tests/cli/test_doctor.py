"""What `duplex-trio doctor` says of machines of every kind, and of servers."""

from __future__ import annotations

import io
import json
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from attrs import evolve
from rich.console import Console

from duplex_trio.cli.doctor import command
from duplex_trio.cli.doctor.checks import (
    CHECKS,
    check_engine,
    check_extras,
    check_memory,
    check_models,
    check_open_files,
    check_processor,
    check_python,
    check_space,
    check_test_programs,
)
from duplex_trio.cli.doctor.deployment import check_port, check_served
from duplex_trio.cli.doctor.facts import MachineFacts, available_memory, cpu_flags, look_at_machine
from duplex_trio.cli.doctor.finding import Finding, fenced
from duplex_trio.cli.doctor.report import show
from duplex_trio.cli.doctor.server import _unreachable, check_server
from duplex_trio.cli.install.environment import Environment
from duplex_trio.cli.install.requirements import LIBRARIES, WITHOUT_DEPENDENCIES, InstalledPackage
from duplex_trio.cli.main import main
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.catalog import CATALOG
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server

GB = 1_000_000_000


def packages(*lines: str) -> dict[str, InstalledPackage]:
    """Packages at the versions that requirement lines name first."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found = {}
    for line in lines:
        requirement = Requirement(line)
        lowest = next(part.version for part in requirement.specifier if part.operator in (">=", "=="))
        found[str(canonicalize_name(requirement.name))] = InstalledPackage(lowest)
    return found


COMPLETE = {
    **packages(*LIBRARIES, *WITHOUT_DEPENDENCIES),
    "torch": InstalledPackage("2.13.0+cpu"),
    "pip": InstalledPackage("24.0"),
}


def facts(**changes: Any) -> MachineFacts:
    """A machine on which all is well, but for the changes; those of its environment too."""
    environment = Environment(
        python_version=(3, 11, 7),
        prefix=Path("/home/me/.venv"),
        system="Linux",
        machine="x86_64",
        externally_managed=False,
        installed=COMPLETE,
        models={model.name: "present" for model in CATALOG},
        packages_free=100 * GB,
        cache_free=100 * GB,
        packages_disk=1,
        cache_disk=1,
    )
    of_environment = {name: value for name, value in changes.items() if hasattr(environment, name)}
    others = {name: value for name, value in changes.items() if name not in of_environment}
    well = MachineFacts(
        environment=evolve(environment, **of_environment),
        cores=4,
        cpu_flags=frozenset({"avx2"}),
        memory=16 * GB,
        open_files=4096,
        torch_build="cpu",
    )
    return evolve(well, **others)


def without(*names: str, **more: str) -> dict[str, InstalledPackage]:
    kept = {name: package for name, package in COMPLETE.items() if name not in names}
    return kept | {name.replace("_", "-"): InstalledPackage(version) for name, version in more.items()}


def test_all_is_well_on_a_machine_where_it_is() -> None:
    found = [finding for check in CHECKS for finding in check(facts())]
    assert {finding.state for finding in found} == {"ok", "note"}
    assert all(finding.said for finding in found)


@pytest.mark.parametrize(
    ("check", "changes", "state", "said", "remedy"),
    [
        (check_python, {"python_version": (3, 12, 1)}, "problem", "Python 3.12.1", "python3.11 -m venv"),
        (check_python, {"system": "Darwin"}, "problem", "Darwin", "Linux container"),
        (check_python, {"externally_managed": True}, "problem", "Python 3.11.7", "python3.11 -m venv"),
        (check_processor, {"cpu_flags": frozenset({"sse2"})}, "problem", "without AVX2", "another machine"),
        (check_processor, {"cores": 1}, "warning", "1 core: the default models", "two cores"),
        (check_processor, {"cores": 8, "cpu_flags": frozenset()}, "ok", "8 cores", None),
        (check_memory, {"memory": GB}, "warning", "1.0 GB free", "smaller models"),
        (check_memory, {"memory": None}, "note", "does not say", None),
        (check_engine, {"installed": without("torch")}, "problem", "torch missing", "install cpu"),
        (check_engine, {"installed": without("hibari-tts", "av")}, "problem", "av", "install cpu"),
        (check_engine, {"installed": {}}, "problem", " more missing", "duplex-trio install cpu"),
        (check_engine, {"has_numa": False}, "problem", "no libnuma.so.1", "libnuma1"),
        (check_engine, {"torch_build": "cuda"}, "warning", "built for cuda", "--yes"),
        (
            check_engine,
            {"installed": without(vllm="0.32.0"), "torch_build": "cuda"},
            "problem",
            "shows no NVIDIA GPU",
            "install cpu",
        ),
        (
            check_engine,
            {"installed": without(vllm="0.32.0"), "torch_build": "cuda", "gpus": 2},
            "ok",
            "2 NVIDIA GPUs",
            None,
        ),
        (check_models, {"models": {"silero-vad": "damaged"}}, "problem", "is damaged", "install cpu"),
        (check_models, {"models": {"silero-vad": "absent"}}, "problem", "is absent", "install cpu"),
        (check_space, {"installed": {}, "packages_free": GB}, "problem", "free", "Not enough disk space"),
        (check_open_files, {"open_files": 256}, "warning", "256", "ulimit -n"),
        (
            check_test_programs,
            {"installed": without(pytest="8"), "programs": {"node": "/bin/node"}},
            "note",
            "a Chromium and npm",
            None,
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(
    check: Any, changes: dict[str, Any], state: str, said: str, remedy: str | None
) -> None:
    finding = next(iter(check(facts(**changes))))
    assert finding.state == state
    assert said in finding.said
    assert finding.remedy is None if remedy is None else remedy in (finding.remedy or "")


def test_extras_are_told_with_their_versions() -> None:
    installed = without(sounddevice="0.5.1")
    mic, otel = check_extras(facts(installed=installed))
    assert (mic.state, mic.said) == ("ok", "talk --mic: sounddevice 0.5.1")
    assert (otel.state, otel.remedy) == ("note", "pip install 'duplex-trio[otel]'")


def test_a_check_that_breaks_is_a_finding() -> None:
    def broken() -> Iterator[Finding]:
        yield Finding("First", "ok", "there")
        raise ZeroDivisionError("of a machine like no other")

    first, second = fenced("Broken", broken)
    assert first.state == "ok"
    assert second.state == "problem"
    assert "ZeroDivisionError: of a machine like no other" in second.said


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    seen = look_at_machine(ModelCache(tmp_path))
    assert seen.cores >= 1
    assert seen.environment.models["smollm2-135m"] == "absent"
    assert "trio" in seen.environment.installed


def test_what_the_system_says_is_read() -> None:
    assert cpu_flags("processor : 0\nflags\t\t: fpu avx2\nprocessor : 1\n") == {"fpu", "avx2"}
    assert cpu_flags("") == frozenset()
    assert available_memory("MemTotal: 9 kB\nMemAvailable:   2000 kB\n") == 2_048_000
    assert available_memory("") is None


def test_a_deployment_is_checked(tmp_path: Path) -> None:
    (well,) = check_served("scripted")
    assert well.state == "ok"
    (tmp_path / "bad.yaml").write_text("base_config: scripted\nstagess: []\nwhat: 1\n")
    (bad,) = check_served(str(tmp_path / "bad.yaml"))
    assert bad.state == "problem"
    assert "stagess" in bad.said
    assert "and 1 more" in bad.said
    assert bad.remedy == f"duplex-trio deploy check {tmp_path / 'bad.yaml'}"


def test_a_port_is_tried() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (busy,) = check_port("127.0.0.1", port)
    (free,) = check_port("127.0.0.1", port)
    assert (busy.state, free.state) == ("warning", "ok")
    assert f"doctor --url ws://127.0.0.1:{port}" in (busy.remedy or "")


async def of_server(url: str, key: str | None = None) -> list[tuple[str, str, str]]:
    return [(finding.title, finding.state, finding.said) async for finding in check_server(url, key)]


async def serving(nursery: trio.Nursery, **options: Any) -> str:
    factory = partial(DuplexOmni, ScriptedPipeline(), max_sessions=1, warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0, **options)))
    return str(address.ws_url)


async def test_a_server_is_asked_and_a_session_opened(nursery: trio.Nursery) -> None:
    url = await serving(nursery)
    health, key, session = await of_server(url)
    assert (health[1], health[2]) == ("ok", "ready, model scripted")
    assert key[1:] == ("ok", "lets us in")
    assert session[1] == "ok"
    assert session[2].endswith(" ms with scripted, and closed")
    nursery.cancel_scope.cancel()


async def test_a_server_that_wants_a_key_says_so(nursery: trio.Nursery) -> None:
    url = await serving(nursery, api_keys=("k-1",))
    health, key, session = await of_server(url)
    assert health[1:] == ("ok", "ready")
    assert key[1] == "problem"
    assert session[1] == "problem"
    assert "API key" in session[2]
    assert [finding[1] for finding in await of_server(url, "k-1")] == ["ok"] * 3
    nursery.cancel_scope.cancel()


async def test_a_server_that_is_none_of_ours_is_told(nursery: trio.Nursery) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        await stream.aclose()

    (listener,) = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
    port = listener.socket.getsockname()[1]
    found = await of_server(f"ws://127.0.0.1:{port}")
    assert found[0][1] == "problem"
    assert "not a server of ours" in found[0][2]
    nursery.cancel_scope.cancel()


def test_a_server_that_is_not_there_is_a_problem(free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--url", f"ws://127.0.0.1:{free_port}"]) == 1
    printed = capsys.readouterr().out
    assert "cannot be reached" in printed
    assert "→ is it running? duplex-trio serve" in printed
    assert "1 problem" in printed


def caused(cause: Exception) -> httpx.ConnectError:
    error = httpx.ConnectError("")
    error.__cause__ = ValueError()
    error.__cause__.__cause__ = cause
    return error


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("cause", "said", "remedy"),
    [
        (untrusted(), "its certificate is refused: self-signed certificate", "SSL_CERT_FILE"),
        (ssl.SSLError(1, "wrong version number"), "does not speak TLS as we do", "http://"),
        (OSError("no route"), "cannot be reached: no route", "is it running?"),
    ],
)
def test_what_keeps_a_server_out_of_reach_is_found_among_the_causes(
    cause: Exception, said: str, remedy: str
) -> None:
    finding = _unreachable("Server", caused(cause))
    assert finding.said.startswith(said)
    assert remedy in (finding.remedy or "")


def test_full_is_not_about_a_server_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--full", "--url", "ws://127.0.0.1:1"]) == 2
    assert "--full is about this machine" in capsys.readouterr().err


def test_a_url_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--url", "ftp://x"]) == 2
    assert capsys.readouterr().err.startswith("duplex-trio: --url: ")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[MachineFacts]:
    """What the command sees of its machine, to be said by the test."""
    seen: list[MachineFacts] = []
    monkeypatch.setattr(command, "look_at_machine", lambda _: seen[-1])
    return seen


def test_the_command_ends_well_on_a_machine_where_all_is(
    machine: list[MachineFacts], free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.append(facts())
    assert main(["doctor", "--deploy", "scripted", "--port", str(free_port)]) == 0
    printed = capsys.readouterr().out
    assert "✓ Deployment scripted: " in printed
    assert "All is well" in printed


def test_the_findings_are_json_for_scripts(
    machine: list[MachineFacts], free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.append(facts(memory=GB, models={"silero-vad": "absent"}))
    assert main(["doctor", "--json", "--deploy", "scripted", "--port", str(free_port)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["well"] is False
    by_title = {finding["title"]: finding for finding in told["findings"]}
    assert by_title["Memory"]["state"] == "warning"
    assert by_title["Models"]["remedy"] == "duplex-trio install cpu"


def test_a_machine_that_cannot_be_looked_at_costs_no_other_check(
    machine: list[MachineFacts], free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--deploy", "scripted", "--port", str(free_port)]) == 1  # IndexError inside
    printed = capsys.readouterr().out
    assert "✗ Machine: the check itself failed: IndexError" in printed
    assert "✓ Deployment scripted" in printed


def test_a_port_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--port", "web"])
    assert "must be a port, 1 to 65535, not 'web'" in capsys.readouterr().err


@pytest.mark.models
def test_the_thorough_check_holds_a_turn(free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--full", "--port", str(free_port)]) == 0
    printed = capsys.readouterr().out
    assert "✓ Engine starts" in printed
    assert "breakfast" in printed


@pytest.mark.parametrize(
    ("encoding", "lines"), [("utf-8", ["✗ A: b", "    → c"]), ("ascii", ["x A: b", "    -> c"])]
)
def test_marks_are_those_that_the_terminal_knows(encoding: str, lines: list[str]) -> None:
    shown = io.BytesIO()
    with io.TextIOWrapper(shown, encoding=encoding, write_through=True) as file:
        show(Finding("A", "problem", "b", "c"), Console(file=file))
        assert shown.getvalue().decode(encoding).splitlines() == lines
