"""The scripts really complete, in the shells that there are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from duplex_trio.cli.completion import SHELLS, script
from duplex_trio.cli.main import main, whole_parser


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / shell).write_text(script(whole_parser(), shell))
    return folder


def in_bash(scripts: Path, line: str, last: str = "", cwd: Path | None = None) -> set[str]:
    bash = shutil.which("bash")
    assert bash is not None
    words = line.split()
    program = f"""
source {scripts / "bash"}
COMP_WORDS=({line} "{last}"); COMP_CWORD={len(words)}; COMP_TYPE=9; COMPREPLY=()
$(complete -p duplex-trio | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=True, cwd=cwd)
    return {word.strip() for word in done.stdout.splitlines() if word.strip()}


def in_fish(scripts: Path, line: str, cwd: Path | None = None) -> set[str]:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("there is no fish")
    program = f"source {scripts / 'fish'}; complete -C '{line}'"
    command = [fish, "--no-config", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return {word.split("\t")[0] for word in done.stdout.splitlines()}


def test_bash_completes_commands_and_options(scripts: Path) -> None:
    assert {"talk", "serve", "doctor", "completion"} <= in_bash(scripts, "duplex-trio")
    assert in_bash(scripts, "duplex-trio", "ta") == {"talk"}
    assert {"--mic", "--url", "--json"} <= in_bash(scripts, "duplex-trio talk", "--")
    assert in_bash(scripts, "duplex-trio serve --ws") >= {"native", "asgi"}


def test_bash_completes_deployments_models_and_files(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    found = in_bash(scripts, "duplex-trio serve --deploy", cwd=tmp_path)
    assert {"cascade_cpu", "scripted", "mine.yaml"} <= found
    assert in_bash(scripts, "duplex-trio serve --llm", "smol", tmp_path) == {"smollm2-135m"}
    assert {"none", "glyph_flow", "mine.yaml"} <= in_bash(
        scripts, "duplex-trio serve --video-model", cwd=tmp_path
    )
    assert "mine.yaml" in in_bash(scripts, "duplex-trio serve --certfile", cwd=tmp_path)


def test_fish_completes_the_same(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    assert "talk" in in_fish(scripts, "duplex-trio ta")
    assert "--mic" in in_fish(scripts, "duplex-trio talk --m")
    assert {"cascade_cpu", "mine.yaml"} <= in_fish(scripts, "duplex-trio serve --deploy ", tmp_path)


def test_zsh_completes_the_same(scripts: Path, tmp_path: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("there is no zsh")
    (tmp_path / "_duplex-trio").write_bytes((scripts / "zsh").read_bytes())
    # Completion needs a terminal: zpty is one.
    program = f"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=({tmp_path} \\$fpath); autoload -U compinit; compinit -u -D; echo rea''dy"
zpty -r -m z line '*ready*'
zpty -w -n z $'duplex-trio serve --deploy cascade_c\\t'
zpty -r -m z line '*cascade_cpu*' && print -r -- "$line"
zpty -d z
"""
    done = subprocess.run([zsh, "-f", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "cascade_cpu" in done.stdout


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    printed = capsys.readouterr().out
    assert "complete -o bashdefault -F _shtab_duplex_trio duplex-trio" in printed
    assert "cascade_cpu" in printed


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "csh"])
    assert "bash" in capsys.readouterr().err
