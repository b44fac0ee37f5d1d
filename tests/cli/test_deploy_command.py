"""`duplex-trio deploy`: what it lists, finds wrong and prints."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import attrs
import pytest
import yaml

from duplex_trio.cli.deploy.check import check_deployment
from duplex_trio.cli.main import main
from duplex_trio.deploy import (
    DeployConfig,
    DuplexSessionDeploy,
    StageDeploy,
    bundled_deployments,
    load_deploy,
)
from duplex_trio.deploy.stage import RemoteDeploy


def write(tmp_path: Path, text: str, name: str = "deploy.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["deploy", *arguments])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


# ---------------------------------------------------------------------------- list


def test_the_list_has_every_deployment_with_its_pipeline_and_mode(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "list", "--json")
    rows = {row["name"]: row for row in json.loads(text)}
    assert status == 0
    assert set(bundled_deployments()) <= set(rows)
    assert (rows["cascade_cpu"]["pipeline"], rows["cascade_cpu"]["session_mode"]) == ("cascade", "duplex")
    assert rows["cascade_turn"]["session_mode"] == "turn"
    assert all(rows[name]["about"] for name in bundled_deployments())


def test_the_list_for_people_names_each_with_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "list")
    assert status == 0
    assert "cascade_gpu" in text
    assert "The default on a CPU" in text


# ---------------------------------------------------------------------------- check


@pytest.mark.parametrize("name", [name for name in bundled_deployments() if name.startswith("scripted")])
def test_a_deployment_without_weights_can_be_served(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, text = run(capsys, "check", name)
    assert (status, text.splitlines()) == (0, [text.strip()])
    assert text.startswith(f"{name} can be served: pipeline {name} (")


@pytest.mark.models
def test_the_default_can_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", "cascade_cpu", "--platform", "cpu") == (
        0,
        (
            "cascade_cpu can be served: pipeline cascade (asr, llm, tts) in duplex mode on cpu, and beside it pipeline "
            "scene (text_encoder) in video mode on cpu.\n"
        ),
    )


@pytest.mark.models
@pytest.mark.parametrize("name", ["scene", "glyph_flow", "cascade_turn"])
def test_what_ships_for_a_cpu_can_be_served(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, text = run(capsys, "check", name, "--platform", "cpu")
    assert (status, "beside it" in text) == (0, False)


def test_video_needs_its_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duplex_trio.cli.deploy.check.find_spec", lambda name: None if name == "av" else 1)
    (fault,) = check_deployment("scripted_video").faults
    assert "needs PyAV" in fault.message
    assert check_deployment("scripted").faults == []


@pytest.mark.parametrize(
    ("video", "told"),
    [
        ("scripted_video", "and beside it pipeline scripted_video (text_encoder) in video mode"),
        ("./v.yaml", "and beside it pipeline scripted_video (text_encoder) in video mode"),
        (
            "scripted",
            "deploy.yaml:2:1: video must name a deployment of video, and scripted is in duplex mode",
        ),
        ("./deploy.yaml", "deploy.yaml is in duplex mode"),
        ("scripted_vide", "deploy.yaml:2:1: video scripted_vide cannot be served: "),
        ("./faulty.yaml", "faulty.yaml:2:17: video_session.max_sessions must be greater than 0, not 0"),
    ],
)
def test_the_video_beside_is_checked_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], video: str, told: str
) -> None:
    write(tmp_path, "base_config: scripted_video\n", "v.yaml")
    write(tmp_path, "base_config: scripted_video\nvideo_session: {max_sessions: 0}\n", "faulty.yaml")
    path = write(tmp_path, f"pipeline: scripted\nvideo: {video}\n")
    status, text = run(capsys, "check", path)
    assert told in text
    assert status == (0 if "beside it" in told else 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "base_config: scripted_video\nduplex_session: {idle_ttl_s: 5, stage_commands_max: 9}\n",
            ["2:18: duplex_session.idle_ttl_s has no effect: there are no sessions in video mode"],
        ),
        (
            "base_config: scripted_video\nvideo: scripted_video\n",
            ["2:1: video has no effect: this deployment serves video itself"],
        ),
        (
            "base_config: scripted\nvideo_session: {max_sessions: 3}\n",
            [
                "2:17: video_session.max_sessions has no effect in duplex mode: the one that `video` names says it"
            ],
        ),
        ("base_config: scripted_video\nvideo_session: {max_sessions: 3}\n", []),
        (
            "base_config: scripted_video\nsession_mode: duplex\n",
            ["2:1: session_mode is duplex, and pipeline scripted_video can only be served as video"],
        ),
    ],
)
def test_keys_of_the_other_kind_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: list[str]
) -> None:
    path = write(tmp_path, text)
    status, printed = run(capsys, "check", path)
    notes = [line for line in printed.splitlines() if line.startswith("note:")]
    assert (status, [note.split(f"{path}:")[1] for note in notes]) == (0, told)


def test_a_gpu_deployment_lacks_here_its_gpu_and_its_weights_and_nothing_else() -> None:
    """One sentence for each: which are the only ones on a machine without either."""
    report = check_deployment("cascade_gpu")
    told = [fault.message for fault in report.faults]
    lacking = ("shows no NVIDIA GPU", "CUDA builds of vLLM")
    assert all(any(words in message for words in lacking) for message in told), told
    assert sum("NVIDIA GPU" in message for message in told) <= 1
    assert all("is not on this machine yet; serving fetches it" in note.message for note in report.notes)


def test_faults_are_lines_and_the_status_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "pipeline: scripted\nsession_mode: both\nduplex_session: {max_sessions: 0}\n")
    status, text = run(capsys, "check", path)
    assert status == 1
    assert text.splitlines() == [
        f"fault: {path}:2:1: session_mode must be one of turn, duplex, video, not 'both'",
        f"fault: {path}:3:18: duplex_session.max_sessions must be greater than 0, not 0",
        f"{path} cannot be served: 2 faults.",
    ]


STAGE = "pipeline: cascade\nstages:\n  - stage_id: {stage_id}\n    {key}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pipeline: cascada\n", "there is no pipeline 'cascada' (did you mean cascade?)"),
        (
            "pipeline: scripted_native\nsession_mode: turn\n",
            "session_mode cannot be turn: pipeline scripted_native declares",
        ),
        (
            "pipeline: scripted\nstages: [{stage_id: 3}]\n",
            "stages[0].stage_id must be one of the stages of pipeline",
        ),
        (
            "pipeline: scripted\nstages: [{stage_id: 1, model: m}]\n",
            "stages[0].model must be left out: stage 1 (llm)",
        ),
        (
            STAGE.format(stage_id=1, key="model: smollm3"),
            "stages[0].model cannot be loaded: There is no language model",
        ),
        (STAGE.format(stage_id=1, key="model: ./nowhere"), "nowhere does not exist."),
        (
            STAGE.format(stage_id=1, key="model: whisper-tiny.en"),
            "is a speech recogniser, not a language model",
        ),
        (STAGE.format(stage_id=1, key="skip_tokenizer_init: true"), "skip_tokenizer_init must be false"),
        (STAGE.format(stage_id=1, key="default_sampling_params: {heat: 1}"), "default_sampling_params"),
        (
            STAGE.format(stage_id=0, key="engine_args: {threads: 0}"),
            "engine_args.threads must be a whole number",
        ),
        (
            STAGE.format(stage_id=0, key="engine_args: {beams: 5}"),
            "engine_args.beams is no argument of this stage",
        ),
        (
            STAGE.format(stage_id=0, key="engine_args: {compute_type: int3}"),
            "engine_args.compute_type must be one of auto",
        ),
        (
            STAGE.format(stage_id=0, key="devices: '0,1'"),
            "stages[0].devices must be cpu or one GPU a replica",
        ),
        (
            STAGE.format(stage_id=2, key="devices: 0"),
            "stages[0].devices must be cpu: the voice runs on a CPU only",
        ),
        (
            "pipeline: scripted\nplatforms:\n  musa: {dtype: odd}\n",
            "platforms.musa.dtype must be one of auto",
        ),
        (
            "pipeline: scripted\nstages: [{stage_id: 0, execution: process, python: ./no-python}]\n",
            "stages[0].python must be a program that can be run, not './no-python'",
        ),
    ],
    ids=lambda text: text.splitlines()[-1][:50],
)
def test_what_a_pipeline_or_the_machine_does_not_have_is_a_fault(
    tmp_path: Path, text: str, told: str
) -> None:
    report = check_deployment(write(tmp_path, text), platform="cpu")
    matching = [fault for fault in report.faults if told in fault.message]
    assert matching, report.faults
    assert all(fault.place is not None and fault.place.line > 0 for fault in matching)


def test_an_interpreter_is_run_and_asked_for_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours has it; one that prints something else, or lacks it, does not."""
    text = "pipeline: scripted\nstages:\n  - stage_id: 0\n    execution: process\n    python: {}\n"
    assert check_deployment(write(tmp_path, text.format(sys.executable))).faults == []
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    (fault,) = check_deployment(write(tmp_path, text.format(bare))).faults
    assert "stages[0].python must be an interpreter that has duplex_trio" in fault.message
    assert "No module named" in fault.message
    (tmp_path / "true").symlink_to("/bin/true")
    (fault,) = check_deployment(write(tmp_path, text.format(tmp_path / "true"))).faults
    assert "stages[0].python must be a Python interpreter, and" in fault.message
    (tmp_path / "cat").symlink_to("/bin/cat")
    (fault,) = check_deployment(write(tmp_path, text.format(tmp_path / "cat"))).faults
    assert "must be an interpreter that has duplex_trio" in fault.message


def test_a_key_of_a_remote_engine_must_be_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """\
base_config: cascade_cpu
stages:
  - stage_id: 1
    execution: remote
    remote: {base_url: "http://engine/v1", api_key_env: ENGINE_KEY, ca_file: ./no.pem}
"""
    path = write(tmp_path, text)
    monkeypatch.delenv("ENGINE_KEY", raising=False)
    told = [fault.message for fault in check_deployment(path).faults]
    assert "stages[0].remote.api_key_env names the environment variable ENGINE_KEY, which is not set" in told
    assert "stages[0].remote.ca_file must be a file that can be read, not './no.pem'" in told
    monkeypatch.setenv("ENGINE_KEY", "secret")
    assert not any("ENGINE_KEY" in fault.message for fault in check_deployment(path).faults)


def test_keys_without_effect_are_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the deployment, of sessions, of a stage of another kind; they keep nothing from being served."""
    text = """\
pipeline: scripted
async_chunk: false
dtype: float32
connectors: {a: b}
duplex_session: {reaper_interval_s: 3}
stages:
  - {stage_id: 0, max_num_seqs: 4, subtalker_sampling_params: {top_k: 3}, num_replicas: 1}
"""
    path = write(tmp_path, text)
    status, printed = run(capsys, "check", path)
    assert status == 0
    notes = [
        line.split(": ", 2)[2].split(" has")[0] for line in printed.splitlines() if line.startswith("note")
    ]
    assert sorted(notes) == [
        "async_chunk",
        "connectors",
        "dtype",
        "duplex_session.reaper_interval_s",
        "stages[0].max_num_seqs",
        "stages[0].subtalker_sampling_params",
    ]


def test_a_model_that_is_to_be_fetched_is_a_note(tmp_path: Path) -> None:
    """Serving would fetch it: it keeps nothing from being served."""
    report = check_deployment(write(tmp_path, STAGE.format(stage_id=1, key="model: nobody/nothing")))
    assert not any("nobody/nothing" in fault.message for fault in report.faults)
    (note,) = report.notes
    assert (
        "stages[0].model is to be fetched: The language model nobody/nothing is not on this machine yet"
        in (note.located)
    )


def test_limits_of_sessions_are_notes_in_turn_mode_where_a_file_says_them_itself(tmp_path: Path) -> None:
    """What it extends may be about sessions, and nobody has to take that away."""
    text = "base_config: {}\nduplex_session: {{idle_ttl_s: 3, max_chats: 3, stage_commands_max: 9}}\n"
    base = tmp_path / "base.yaml"
    base.write_text("pipeline: scripted\nsession_mode: turn\nduplex_session: {max_sessions: 3}\n")
    path = write(tmp_path, text.format("base.yaml"))
    told = "duplex_session.{} has no effect: there are no sessions in turn mode"
    assert [note.message for note in check_deployment(path).notes] == [told.format("idle_ttl_s")]
    assert [note.message for note in check_deployment(str(base)).notes] == [told.format("max_sessions")]
    assert check_deployment("cascade_turn").notes == []


# ---------------------------------------------------------------------------- show


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("name", bundled_deployments())
def test_what_is_shown_loads_again_as_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, every: bool
) -> None:
    status, text = run(capsys, "show", name, *(["--all"] if every else []))
    assert status == 0
    again = load_deploy(write(tmp_path, text))
    assert attrs.evolve(again, session_mode=None) == attrs.evolve(load_deploy(name), session_mode=None)
    assert again.session_mode is not None


def test_all_keys_are_shown_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = run(capsys, "show", "cascade_cpu", "--all")
    shown = yaml.safe_load(text)
    assert set(shown) == set(attrs.fields_dict(DeployConfig))
    assert set(shown["stages"][1]) == set(attrs.fields_dict(StageDeploy))
    assert len(shown["duplex_session"]) == len(attrs.fields(DuplexSessionDeploy))


SECRETS = """\
base_config: scripted
stages:
  - stage_id: 0
    execution: process
    environment: {TOKEN: sesame, PLAIN: "${OPEN}"}
    engine_args: {hf_token: sesame, heard: ["two\\nlines: #1"]}
  - stage_id: 1
    execution: remote
    remote:
      base_url: http://engine/v1
      api_key_env: ENGINE_KEY
      headers: {Authorization: Bearer sesame, X-Key: "${OPEN}"}
      max_retries: ${RETRIES:-4}
"""


def test_secrets_are_not_shown_and_references_stay_references(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPEN", "open-sesame")
    path = write(tmp_path, SECRETS)
    for form in ([], ["--json"]):
        status, text = run(capsys, "show", path, *form)
        assert status == 0
        assert "sesame" not in text
        assert "${OPEN}" in text
        assert "ENGINE_KEY" in text
    _, text = run(capsys, "show", path)
    again = load_deploy(write(tmp_path, text, "again.yaml"))
    remote = again.stage(1).remote
    assert isinstance(remote, RemoteDeploy)
    assert (remote.max_retries, remote.headers["X-Key"]) == (4, "open-sesame")
    assert again.stage(0).engine_args["heard"] == ["two\nlines: #1"]


def test_each_value_tells_which_file_it_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "base_config: scripted\nduplex_session:\n  max_sessions: 3\n")
    _, text = run(capsys, "show", path)
    lines = {line.split(":")[0].strip(): line.partition("# ")[2] for line in text.splitlines()}
    assert lines["pipeline"] == "scripted:2"
    assert lines["max_sessions"] == f"{path}:3"
    _, text = run(capsys, "show", write(tmp_path, "pipeline: scripted\n", "other.yaml"))
    assert "session_mode: duplex  # default of pipeline scripted\n" in text.replace("   ", "")


def test_a_section_is_shown_for_the_platform_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(
        tmp_path, "pipeline: scripted\nplatforms:\n  cuda:\n    duplex_session: {max_sessions: 64}\n"
    )
    shown = json.loads(run(capsys, "show", path, "--json", "--platform", "cuda")[1])
    assert shown["config"]["duplex_session"] == {"max_sessions": 64}
    assert (shown["platform"], shown["files"]) == ("cuda", [path])
    assert (
        "duplex_session"
        not in json.loads(run(capsys, "show", path, "--json", "--platform", "cpu")[1])["config"]
    )


def test_a_faulty_deployment_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "pipeline: scripted\nnonsense: 1\ndtype: odd\n")
    status, text = run(capsys, "show", path)
    assert status == 1
    assert text.count(os.path.basename(path)) == 2
    assert run(capsys, "show", "nonesuch")[0] == 1
