"""The commands of the documentation are those that there are: the real parsers read them, the files exist, and
those that only look are run.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from duplex_trio.cli.main import build_parser, main
from duplex_trio.deploy import read_deploy
from tests.docs.blocks import PAGES, ROOT, Block, named, prose_of
from tests.docs.commands import LANGUAGES, commands_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BLOCKS = named(*LANGUAGES)
COMMANDS = [(block, command) for block in BLOCKS for command in commands_of(block)]
OURS = {tuple(command[1:]): block for block, command in COMMANDS if command[0] == "duplex-trio"}

PLACEHOLDER = re.compile(r"^[A-Z][A-Z0-9|_.]+$|NAME\|FILE|\.\.\.")
"""A word that stands for one of the reader's own."""

FOREIGN = {
    "curl", "git", "docker", "systemctl", "journalctl", "cd", "export", "mkdir", "chmod", "openssl", "source",
    "ulimit", "install", "useradd", "npm", "node", "nginx", "cp", "kill", "ffmpeg", "aplay", "cat", "echo", "jq",
    "promtool", "apt", "websocat", "ls", "tail", "grep", "vllm", "set", "cloudflared", "ssh", ".",
}  # fmt: skip
"""Programs of other people, whose options are theirs."""


def _ids(command: tuple[str, ...]) -> str:
    return " ".join(command)[:60] or "help"


@pytest.mark.parametrize("arguments", sorted(OURS), ids=_ids)
def test_the_command_understands_it(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the deployments that it names are there."""
    monkeypatch.chdir(ROOT)
    words = ["1" if word == "N" else word for word in arguments]
    if not words or any("..." in word or word in COMMAND_PLACEHOLDERS for word in words):
        return
    try:
        parsed = vars(build_parser(words).parse_args(words))
    except SystemExit as end:
        assert end.code == 0, capsys.readouterr().err  # noqa: PT017 - it is argparse's way to say no
        return
    name = parsed.get("deployment") or parsed.get("deploy")
    if isinstance(name, str) and name not in INSTALLED and not PLACEHOLDER.search(name):
        assert read_deploy(name, environment={}).config.pipeline


SAID = sorted({command for page in PAGES for command in re.findall(r"`duplex-trio ([^`]+)`", prose_of(page))})


@pytest.mark.parametrize("command", SAID)
def test_a_command_in_a_sentence_is_understood(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is whole: pages also speak of a command by its first words."""
    words = ["1" if word == "N" else word for word in shlex.split(command)]
    if any("..." in word or "|" in word or word in COMMAND_PLACEHOLDERS for word in words):
        return
    try:
        build_parser(words).parse_args(words)
    except SystemExit as end:
        told, code = capsys.readouterr().err, end.code
    else:
        return
    assert code == 0 or re.search("following arguments are required|expected one argument", told), told


COMMAND_PLACEHOLDERS = {"COMMAND", "SUBCOMMAND"}

INSTALLED = {"parrot", "my_model"}
"""Deployments of packages that their pages tell to install first."""

LOOKS = sorted(
    arguments
    for arguments in OURS
    if arguments[:2] in {("deploy", "list"), ("deploy", "show")}
    or arguments in {("models",), ("--version",), ("--help",), ("models", "--pipelines")}
    or (arguments[:1] == ("completion",) and len(arguments) == 2)
    if not any(PLACEHOLDER.search(word) for word in arguments)
)


@pytest.mark.parametrize("arguments", LOOKS, ids=_ids)
def test_what_only_looks_works(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert main(list(arguments)) == 0


@pytest.mark.parametrize(
    ("block", "command"),
    [(block, command) for block, command in COMMANDS if command[0] != "duplex-trio"],
    ids=lambda value: str(value) if isinstance(value, Block) else value[0],
)
def test_other_commands_name_what_there_is(block: Block, command: list[str]) -> None:
    folder = (ROOT / block.page).parent
    match command:
        case ["pip", "install", *words] | ["python", "-m", "pip", "install", *words]:
            for word in words:
                _check_package(word)
        case ["python" | "python3.11", "-m", "venv", *_]:
            pass
        case ["pytest", *words] | ["python", "-m", "pytest", *words]:
            for word in words:
                assert word.startswith("-") or _there(word.partition("::")[0], folder), word
        case ["python", "-m", module, *options]:
            _check_options(_module_source(module), options)
        case ["python", file, *options] if file.endswith(".py"):
            path = _there(file, folder)
            assert path, file
            _check_options(path.read_text(), options)
        case [program, *_]:
            assert program in FOREIGN or _there(program, folder), f"which program is {program}?"


def _check_package(word: str) -> None:
    if word.startswith("-") or PLACEHOLDER.search(word):
        return
    folder, _, extras = word.rstrip("]").partition("[")
    if folder in (".", "duplex-trio") or folder.startswith(("./", "examples/")):
        assert folder == "duplex-trio" or (ROOT / folder / "pyproject.toml").is_file(), word
        names = set(filter(None, extras.split(",")))
        assert names <= set(PROJECT["optional-dependencies"]), f"{word}: no such extra"
    else:
        Requirement(word)


def _module_source(module: str) -> str:
    found = importlib.util.find_spec(module)
    assert found is not None, module
    assert found.origin is not None
    path = Path(found.origin)
    return (path.with_name("__main__.py") if path.name == "__init__.py" else path).read_text()


def _check_options(source: str, options: list[str]) -> None:
    for option in options:
        name = option.partition("=")[0]
        if name.startswith("--") and "argparse" in source:
            assert f'"{name}"' in source, f"no option {name}"


def _there(name: str, folder: Path) -> Path | None:
    return next((path for base in (ROOT, folder) if (path := base / name).exists()), None)


def test_the_readme_begins_with_the_two_commands() -> None:
    """They are what people copy first, so they stay as they are."""
    first, second = [block.text for block in BLOCKS if block.page == "README.md"][:2]
    assert first == "pip install . && duplex-trio install cpu && duplex-trio talk\n"
    assert second == 'pip install ".[test]" && duplex-trio install cpu && python -m pytest\n'


CLIPS = sorted(
    arguments
    for arguments in OURS
    if arguments[:1] == ("video",)
    and not {"--url", "--help"} & set(arguments)
    and not any(PLACEHOLDER.search(word) for word in arguments)
)


@pytest.mark.e2e
@pytest.mark.parametrize("arguments", CLIPS, ids=_ids)
def test_a_clip_is_made(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the scripted model, which is quick and small."""
    monkeypatch.chdir(tmp_path)
    words = list(arguments)
    for option in ("--model", "--size"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    assert main([*words, "--model", "scripted_video", "--size", "64x64", "--quiet"]) == 0
    (clip,) = tmp_path.iterdir()
    assert clip.name == (words[words.index("--out") + 1] if "--out" in words else "video.mp4")
    assert clip.stat().st_size > 1000
