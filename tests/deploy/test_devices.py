"""Which devices and which environment each replica of a stage gets."""

from __future__ import annotations

import pytest

from duplex_trio.deploy import DeployConfig, KeyFaultError, StageDeploy, replica_places, server_environment
from duplex_trio.deploy.stage import RemoteDeploy


def stage(stage_id: int = 0, **keys: object) -> StageDeploy:
    return StageDeploy(stage_id=stage_id, **keys)  # type: ignore[arg-type]


def visible(one: StageDeploy, **server: str) -> list[str | None]:
    return [place.environment.get("CUDA_VISIBLE_DEVICES") for place in replica_places(one, server)]


@pytest.mark.parametrize(
    ("devices", "replicas", "dealt"),
    [
        ("0", 1, ["0"]),
        ("0,1", 1, ["0,1"]),
        ("0,1", 2, ["0", "1"]),
        ("2,3,0,1", 2, ["2,3", "0,1"]),
        ("1", 3, ["1", "1", "1"]),
        ("cpu", 2, ["", ""]),
        ("GPU-5a1c,GPU-77b2", 2, ["GPU-5a1c", "GPU-77b2"]),
    ],
)
def test_devices_are_dealt_out_to_replicas_in_processes(
    devices: str, replicas: int, dealt: list[str]
) -> None:
    assert visible(stage(devices=devices, num_replicas=replicas, execution="process")) == dealt


def test_copies_by_data_parallel_size_are_replicas() -> None:
    one = stage(devices="0,1,2,3", num_replicas=2, data_parallel_size=2, execution="process")
    assert [place.index for place in replica_places(one, {})] == [0, 1, 2, 3]
    assert visible(one) == ["0", "1", "2", "3"]


def test_a_stage_that_names_no_devices_is_given_none() -> None:
    (place,) = replica_places(
        stage(execution="process", environment={"A": "b"}), {"CUDA_VISIBLE_DEVICES": "1"}
    )
    assert (place.devices, place.environment, place.on_cpu) == (None, {"A": "b"}, False)


def test_the_environment_of_a_stage_comes_with_it() -> None:
    (place,) = replica_places(
        stage(execution="process", devices="1", environment={"OMP_NUM_THREADS": "2"}), {}
    )
    assert place.environment == {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "1"}
    (place,) = replica_places(stage(devices="cpu"), {})
    assert (place.environment, place.on_cpu) == ({}, True)


def test_numbers_count_among_what_the_server_may_see() -> None:
    one = stage(devices="0,1", num_replicas=2, execution="process")
    assert visible(one, CUDA_VISIBLE_DEVICES="5,GPU-77b2,6") == ["5", "GPU-77b2"]
    with pytest.raises(
        KeyFaultError, match="devices must be among the 1 GPUs that CUDA_VISIBLE_DEVICES lets"
    ):
        visible(one, CUDA_VISIBLE_DEVICES="5")


def environment(*stages: StageDeploy, **server: str) -> dict[str, str]:
    return server_environment(DeployConfig(pipeline="p", stages=stages), server)


def test_stages_in_threads_share_one_list_of_which_each_uses_the_front() -> None:
    assert environment(stage(0, devices="0"), stage(1, devices="0,1"), stage(2)) == {
        "CUDA_VISIBLE_DEVICES": "0,1"
    }
    assert environment(stage(0, devices="1"), CUDA_VISIBLE_DEVICES="4,7") == {"CUDA_VISIBLE_DEVICES": "7"}


def test_the_server_is_left_alone_where_no_thread_names_a_gpu() -> None:
    assert environment() == {}
    assert environment(stage(0), stage(1)) == {}
    assert environment(stage(0, devices="1", execution="process")) == {}
    assert environment(stage(0, devices="cpu"), stage(1)) == {}


def test_gpus_are_hidden_where_every_thread_wants_the_cpu() -> None:
    assert environment(stage(0, devices="cpu"), stage(1, devices="cpu")) == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        (
            [stage(0, devices="0"), stage(1, devices="1")],
            "stages[1].devices must begin with the GPUs of the other",
        ),
        ([stage(0, devices="0,1"), stage(1, devices="1,0")], "stages[1].devices must begin with the GPUs"),
        (
            [stage(1, devices="0,1", num_replicas=2)],
            "stages[1].devices must be one GPU or cpu for replicas in threads",
        ),
    ],
)
def test_threads_that_need_different_gpus_are_refused_with_advice(
    stages: list[StageDeploy], told: str
) -> None:
    with pytest.raises(KeyFaultError) as caught:
        environment(*stages)
    assert told in str(caught.value)
    assert "execution: process" in str(caught.value)


def test_a_remote_stage_takes_no_devices() -> None:
    remote = RemoteDeploy(base_url="http://engine/v1")
    (place,) = replica_places(stage(execution="remote", remote=remote), {})
    assert (place.devices, place.environment) == (None, {})
