"""Deployment files: defaults, strictness, inheritance, platforms, and faults a person can act on."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from duplex_trio.deploy import (
    DeployConfig,
    DeployError,
    DuplexSessionDeploy,
    KeyFaultError,
    StageDeploy,
    bundled_deployments,
    load_deploy,
    with_models,
)
from duplex_trio.deploy.keys import file_key


def write(tmp_path: Path, text: str, name: str = "deploy.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(DeployError) as caught:
        load_deploy(write(tmp_path, text))
    assert str(tmp_path / "deploy.yaml") in str(caught.value)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize("name", bundled_deployments())
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_every_bundled_deployment_loads(name: str, platform: str) -> None:
    deploy = load_deploy(name, platform=platform)
    modes = {"cascade_turn": "turn", "scripted_video": "video", "scene": "video", "glyph_flow": "video"}
    assert deploy.session_mode == modes.get(name, "duplex")
    assert [stage.stage_id for stage in deploy.stages] == list(range(len(deploy.stages)))


def test_the_cpu_cascade_names_the_packaged_models() -> None:
    deploy = load_deploy("cascade_cpu")
    assert deploy.pipeline == "cascade"
    assert [stage.model for stage in deploy.stages] == ["whisper-tiny.en", "smollm2-135m", "hibari-heart"]
    assert deploy.duplex_session.server_vad_model_path == "silero"
    assert deploy.duplex_session.max_sessions == 8
    llm = deploy.stage(1)
    assert (llm.max_model_len, llm.max_num_seqs, llm.kv_cache_memory_bytes) == (2048, 12, 256 * 2**20)


def test_the_defaults_of_a_session_are_those_of_the_reference() -> None:
    reference = {
        "idle_ttl_s": 300.0,
        "disconnect_grace_s": 30.0,
        "reaper_interval_s": 5.0,
        "resume_replay_ttl_s": 60.0,
        "resume_replay_max_bytes_per_session": 8388608,
        "max_pending_input_bytes_per_session": 16777216,
        "max_pending_turns_per_session": 4,
        "max_sessions": 1,
        "completed_append_cache_size": 256,
        "server_vad_model_path": None,
        "warmup_frames": 0,
    }
    defaults = DuplexSessionDeploy()
    ours = {file_key(a): getattr(defaults, a.name) for a in attrs.fields(DuplexSessionDeploy)}
    assert ours | reference == ours


REFERENCE_KEYS = """
session_mode: duplex
async_chunk: true
active_stream_window: 1
model_runner: v1
connectors: {shm: {name: x}}
edges: [{from: 0, to: 1}]
platforms: {npu: {dtype: float16}}
trust_remote_code: false
dtype: bfloat16
quantization: fp8
enable_prefix_caching: true
enable_chunked_prefill: true
data_parallel_size: 1
pipeline_parallel_size: 1
custom_voice_dir: ./voices
duplex_session:
  {idle_ttl_s: 300.0, disconnect_grace_s: 30.0, reaper_interval_s: 5.0, resume_replay_ttl_s: 60.0,
  resume_replay_max_bytes_per_session: 8388608, max_pending_input_bytes_per_session: 16777216,
  max_pending_turns_per_session: 4, max_sessions: 1, completed_append_cache_size: 256,
  server_vad_model_path: silero, warmup_frames: 0}
stages:
  - stage_id: 1
    devices: "0"
    num_replicas: 1
    max_num_seqs: 4
    gpu_memory_utilization: 0.5
    enforce_eager: true
    max_num_batched_tokens: 2048
    max_model_len: 3000
    async_scheduling: false
    default_sampling_params: {temperature: 0.0}
    subtalker_sampling_params: {top_k: 50}
    input_connectors: {from_stage_0: shm}
    output_connectors: {to_stage_2: shm}
    model: org/name
    hf_overrides: {a: 1}
    limit_mm_per_prompt: {audio: 4, image: 8}
    media_io_kwargs: {video: {num_frames: 4}}
    enable_prefix_caching: false
    skip_tokenizer_init: false
    dtype: float16
    mamba_ssm_cache_dtype: float32
    kv_cache_memory_bytes: 268435456
    compilation_config: {level: 0}
"""


def test_every_key_of_the_reference_is_read(tmp_path: Path) -> None:
    """Files that were written for it need no change of their keys."""
    path = tmp_path / "reference.yaml"
    path.write_text(f"base_config: cascade_cpu\n{REFERENCE_KEYS}")
    deploy = load_deploy(path, platform="cuda")
    stage = deploy.stage(1)
    assert (deploy.model_runner, deploy.dtype, deploy.duplex_session.idle_ttl_s) == ("v1", "bfloat16", 300.0)
    assert (stage.devices, stage.dtype, stage.model) == ("0", "float16", "org/name")
    assert (stage.compilation_config, stage.limit_mm_per_prompt) == ({"level": 0}, {"audio": 4, "image": 8})


@pytest.mark.parametrize("attribute", attrs.fields(DuplexSessionDeploy), ids=file_key)
def test_every_limit_is_set_and_checked_by_its_key(
    tmp_path: Path, attribute: attrs.Attribute[object]
) -> None:
    """A file may set each of them; what it may not be is said in the file's own words."""
    key = file_key(attribute)
    value: object = "silero" if key == "server_vad_model_path" else 3
    deploy = load_deploy(write(tmp_path, f"pipeline: p\nduplex_session: {{{key}: {value}}}\n"))
    assert getattr(deploy.duplex_session, attribute.name) == value
    (fault,) = faults(tmp_path, f"pipeline: p\nduplex_session: {{{key}: [x]}}\n")
    assert fault.startswith(f"duplex_session.{key} must be ")
    if key not in ("server_vad_model_path", "warmup_frames"):
        (fault,) = faults(tmp_path, f"pipeline: p\nduplex_session: {{{key}: -1}}\n")
        assert fault.startswith(f"duplex_session.{key} must be ")


def test_a_stage_the_file_does_not_mention_has_defaults(tmp_path: Path) -> None:
    deploy = load_deploy(write(tmp_path, "pipeline: p\n"))
    assert deploy.session_mode is None
    assert deploy.stage(3) == StageDeploy(stage_id=3)


def test_an_unknown_key_names_the_key_its_place_a_guess_and_what_is_allowed(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "pipeline: p\nduplex_session: {max_sesions: 3}\n")
    assert fault.startswith("unknown key 'max_sesions' at duplex_session (did you mean max_sessions?)")
    assert "idle_ttl_s" in fault


def test_an_unknown_key_of_a_stage_and_of_the_top_level_are_both_reported(tmp_path: Path) -> None:
    found = faults(tmp_path, "pipeline: p\nstage: []\nstages: [{stage_id: 0, maxlen: 3}]\n")
    assert any(f.startswith("unknown key 'stage' at top level (did you mean stages?)") for f in found)
    assert any(f.startswith("unknown key 'maxlen' at stages[0]") for f in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duplex_session: {max_sessions: 0}", "duplex_session.max_sessions must be greater than 0, not 0"),
        (
            "duplex_session: {max_sessions: yes}",
            "duplex_session.max_sessions must be a whole number, not true",
        ),
        (
            "duplex_session: {max_sessions: '3'}",
            "duplex_session.max_sessions must be a whole number, not '3'",
        ),
        ("duplex_session: {idle_ttl_s: soon}", "duplex_session.idle_ttl_s must be a number, not 'soon'"),
        ("duplex_session: {idle_ttl_s: -1}", "duplex_session.idle_ttl_s must be greater than 0, not -1.0"),
        (
            "duplex_session: {disconnect_grace_s: null}",
            "duplex_session.disconnect_grace_s must be a number, not null",
        ),
        (
            "duplex_session: {server_vad_model_path: ''}",
            "duplex_session.server_vad_model_path must not be empty, not ''",
        ),
        ("duplex_session: 3", "duplex_session must be a mapping, not 3"),
        ("session_mode: both", "session_mode must be one of turn, duplex, video, not 'both'"),
        ("stages: 3", "stages must be a list, not 3"),
        ("stages: [3]", "stages[0] must be a mapping, not 3"),
        ("stages: [{model: m}]", "required key stages[0].stage_id is missing"),
        (
            "stages: [{stage_id: 0}, {stage_id: 1, max_num_seqs: 0}]",
            "stages[1].max_num_seqs must be at least 1, not 0",
        ),
        (
            "stages: [{stage_id: 0, gpu_memory_utilization: 1.5}]",
            "stages[0].gpu_memory_utilization must be greater than 0 and at most 1, not 1.5",
        ),
        (
            "stages: [{stage_id: 0}, {stage_id: 0}]",
            "stages[1].stage_id must be another one than that of stages[0], not 0 again",
        ),
        ("stages: [{stage_id: 0, enforce_eager: 1}]", "stages[0].enforce_eager must be true or false, not 1"),
        (
            "stages: [{stage_id: 0, hf_overrides: {1: x}}]",
            "stages[0].hf_overrides must be a mapping with text keys, not {1: 'x'}",
        ),
        ("platforms: 3", "platforms must be a mapping, not 3"),
        ("platforms: {cpu: 3}", "platforms.cpu must be a mapping, not 3"),
        ("base_config: 3", "base_config must be text, not 3"),
    ],
)
def test_a_wrong_value_names_its_path_what_is_allowed_and_what_was_there(
    tmp_path: Path, text: str, message: str
) -> None:
    assert faults(tmp_path, f"pipeline: p\n{text}\n") == [message]


def test_a_missing_pipeline_is_said(tmp_path: Path) -> None:
    assert faults(tmp_path, "session_mode: duplex\n") == ["required key pipeline is missing"]


def test_a_null_lifts_a_limit_where_the_key_allows_it(tmp_path: Path) -> None:
    deploy = load_deploy(write(tmp_path, "pipeline: p\nduplex_session: {idle_ttl_s: null}\n"))
    assert deploy.duplex_session.idle_ttl_s is None


@pytest.mark.parametrize("text", ["- a\n", "pipeline: [\n", "just words\n"])
def test_a_file_that_is_no_mapping_is_one_clear_line(tmp_path: Path, text: str) -> None:
    (fault,) = faults(tmp_path, text)
    assert "\n" not in fault
    assert "YAML" in fault or "mapping" in fault


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("pipeline: p\npipeline: q\n", "pipeline"),
        (
            "pipeline: p\nduplex_session:\n  max_sessions: 4\n  idle_ttl_s: 9\n  max_sessions: 16\n",
            "max_sessions",
        ),
        ("pipeline: p\nstages: [{stage_id: 0, engine_args: {a: 1, b: 2, a: 3}}]\n", "a"),
    ],
)
def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, text: str, key: str) -> None:
    (fault,) = faults(tmp_path, text)
    assert f"the key '{key}' is there twice" in fault


def test_a_merged_mapping_may_be_overridden(tmp_path: Path) -> None:
    text = "pipeline: p\nstages:\n- &first {stage_id: 0, dtype: float32}\n- {<<: *first, stage_id: 1}\n"
    stages = load_deploy(write(tmp_path, text)).stages
    assert [(stage.stage_id, stage.dtype) for stage in stages] == [(0, "float32"), (1, "float32")]


def test_a_missing_file_and_an_unknown_name_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="cannot read the deployment file: No such file"):
        load_deploy(tmp_path / "absent.yaml")
    with pytest.raises(DeployError, match=r"no such deployment.*; there are .*cascade_cpu"):
        load_deploy("cascade_gpu_9000")


def test_a_file_extends_a_bundled_deployment_stage_by_stage(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "base_config: cascade_cpu\nduplex_session: {max_sessions: 2}\n"
        "stages:\n  - {stage_id: 1, model: ./big, max_model_len: 4096}\n",
    )
    deploy = load_deploy(path)
    assert deploy.duplex_session.max_sessions == 2
    assert deploy.duplex_session.server_vad_model_path == "silero"
    assert deploy.stage(0).model == "whisper-tiny.en"
    assert (deploy.stage(1).model, deploy.stage(1).max_model_len, deploy.stage(1).max_num_seqs) == (
        "./big",
        4096,
        12,
    )


def test_a_base_is_found_relative_to_the_file_and_a_circle_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "pipeline: p\nsession_mode: duplex\n", "base.yaml")
    assert load_deploy(write(tmp_path, "base_config: base.yaml\n")).session_mode == "duplex"
    write(tmp_path, "base_config: deploy.yaml\n", "base.yaml")
    with pytest.raises(DeployError, match="goes in a circle"):
        load_deploy(tmp_path / "deploy.yaml")


def test_the_platform_section_is_merged_last_and_only_for_its_platform(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "pipeline: p\nstages: [{stage_id: 0, max_num_seqs: 8}]\n"
        "platforms:\n  cuda:\n    stages: [{stage_id: 0, max_num_seqs: 64}]\n",
    )
    assert load_deploy(path).stage(0).max_num_seqs == 8
    assert load_deploy(path, platform="cuda").stage(0).max_num_seqs == 64


def test_models_are_overridden_by_stage_and_the_original_is_untouched() -> None:
    deploy = load_deploy("cascade_cpu")
    other = with_models(deploy, {1: "/models/llm", 7: "extra"})
    assert other.stage(1).model == "/models/llm"
    assert other.stage(1).max_model_len == 2048
    assert other.stage(7) == StageDeploy(stage_id=7, model="extra")
    assert other.stage(0) == deploy.stage(0)
    assert deploy.stage(1).model == "smollm2-135m"


def test_the_classes_check_values_given_from_python_too() -> None:
    with pytest.raises(KeyFaultError, match="max_sessions must be greater than 0, not 0"):
        DuplexSessionDeploy(max_sessions=0)
    with pytest.raises(KeyFaultError, match="pipeline must not be empty"):
        DeployConfig(pipeline=" ")
