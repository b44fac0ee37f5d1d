"""A model of another package, installed beside this one and served by its name: it says back what was said."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest
import trio
from attrs import frozen
from openai import AsyncOpenAI

from duplex_trio.clients import DuplexClient
from duplex_trio.protocol.duplex.audio import pcm16_bytes, resample, wav_bytes
from duplex_trio.stages.units import Pcm
from duplex_trio.testing.server_process import ServedPort, server_process

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PARROT = ROOT / "examples" / "parrot"
SAID_RATE_HZ, HEARD_RATE_HZ = 16_000, 24_000
PITCH = 1.25
"""As its deployment says."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a process in which the package is installed: pip builds and unpacks it."""
    folder = tmp_path_factory.mktemp("parrot")
    source, site = folder / "source", folder / "site"
    shutil.copytree(PARROT, source, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
        str(source),
    ]
    subprocess.run(command, check=True, timeout=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
        yield dict(os.environ)


@pytest.fixture(scope="module")
def server(environment: dict[str, str]) -> Iterator[ServedPort]:
    with server_process("--deploy", "parrot", start_timeout_s=60.0) as served:
        yield served


def sweep(from_hz: float, to_hz: float) -> Pcm:
    """A second of a tone that rises or falls, which is like no other."""
    time_s = np.arange(SAID_RATE_HZ) / SAID_RATE_HZ
    phase = 2 * np.pi * (from_hz * time_s + (to_hz - from_hz) * time_s**2 / 2)
    swept: Pcm = (0.4 * np.sin(phase)).astype(np.float32)
    return swept


@frozen
class Likeness:
    """How much of a sound is in another one: 1 for all of it, and where it begins there."""

    share: float
    begin_s: float


def likeness(sound: Pcm, within: Pcm) -> Likeness:
    length = len(within) + len(sound)
    spectrum = np.fft.rfft(within, length) * np.conj(np.fft.rfft(sound, length))
    match = np.fft.irfft(spectrum, length)[: len(within)]
    best = int(np.argmax(match))
    heard = np.linalg.norm(within[best : best + len(sound)])
    return Likeness(float(match[best] / max(1e-9, heard * np.linalg.norm(sound))), best / HEARD_RATE_HZ)


def as_the_parrot_says_it(said: Pcm) -> Pcm:
    return resample(said, round(SAID_RATE_HZ * PITCH), HEARD_RATE_HZ)


async def say(client: DuplexClient, sound: Pcm) -> None:
    """Speak in real time, then keep silent so that the server hears the end of it."""
    await client.stream_pcm(
        pcm16_bytes(np.concatenate([sound, np.zeros(SAID_RATE_HZ, np.float32)])), chunk_ms=20
    )


async def answer(client: DuplexClient) -> Pcm:
    with trio.fail_after(30):
        response = await anext(client.responses())
        played = b"".join([piece async for piece in response.audio()])
        await response.wait()
    assert response.status == "completed"
    assert response.sample_rate_hz == HEARD_RATE_HZ
    return np.frombuffer(played, "<i2").astype(np.float32) / 32768


async def test_what_comes_back_is_what_was_said(server: ServedPort) -> None:
    """Turn after turn, each at the parrot's pitch and nothing else."""
    sounds = [sweep(300, 800), sweep(900, 400)]
    async with DuplexClient(server.ws_url) as client:
        for said, other in zip(sounds, reversed(sounds), strict=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(say, client, said)
                heard = await answer(client)
            found = likeness(as_the_parrot_says_it(said), heard)
            assert found.share > 0.9
            assert found.begin_s < 0.5
            assert likeness(as_the_parrot_says_it(other), heard).share < 0.5


async def test_chat_completions_of_a_turn_deployment_say_it_back(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """A deployment of the user's own inherits from the package's by its name."""
    deployment = tmp_path / "quiet_parrot.yaml"
    deployment.write_text("base_config: parrot\nsession_mode: turn\n")
    said = sweep(300, 800)
    message = {
        "type": "input_audio",
        "input_audio": {
            "data": base64.b64encode(wav_bytes(pcm16_bytes(said), SAID_RATE_HZ)).decode(),
            "format": "wav",
        },
    }
    with server_process("--deploy", str(deployment), start_timeout_s=60.0) as served:
        async with AsyncOpenAI(base_url=served.http_base, api_key="none") as client:
            chat = await client.chat.completions.create(
                model="parrot",
                modalities=["text", "audio"],
                audio={"voice": "parrot", "format": "pcm16"},
                messages=[{"role": "user", "content": [message]}],
            )
    assert chat.choices[0].message.audio is not None
    spoken = base64.b64decode(chat.choices[0].message.audio.data)
    heard = np.frombuffer(spoken, "<i2").astype(np.float32) / 32768
    assert likeness(as_the_parrot_says_it(said), heard).share > 0.9


async def test_its_voice_may_live_in_processes_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Nothing in the package says so: the worker is pickled there, one for each replica."""
    deployment = tmp_path / "parrots.yaml"
    deployment.write_text(
        "base_config: parrot\nstages:\n  - stage_id: 0\n    execution: process\n    num_replicas: 2\n"
    )
    with server_process("--deploy", str(deployment), start_timeout_s=60.0) as served:
        async with DuplexClient(served.ws_url) as client, trio.open_nursery() as nursery:
            nursery.start_soon(say, client, sweep(300, 800))
            heard = await answer(client)
    assert likeness(as_the_parrot_says_it(sweep(300, 800)), heard).share > 0.9


def test_its_deployment_can_be_checked(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "duplex_trio", "deploy", "check", "parrot"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "parrot can be served: pipeline parrot (voice) in duplex mode" in done.stdout


def test_it_is_in_the_list_of_pipelines(environment: dict[str, str]) -> None:
    """With its package, and nothing wrong with it."""
    command = [sys.executable, "-m", "duplex_trio", "models", "--pipelines", "--json"]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60).stdout
    (listed,) = [row for row in json.loads(printed) if row["name"] == "parrot"]
    assert (listed["package"], listed["version"], listed["faults"]) == ("duplex-trio-parrot", "0.1.0", [])
    assert listed["modes"] == ["duplex", "turn"]


async def test_it_can_be_interrupted(server: ServedPort) -> None:
    """As any model: the answer that is being played is cut, and the interruption is what comes back."""
    async with DuplexClient(server.ws_url) as client:
        await client.stream_pcm(pcm16_bytes(np.tile(sweep(300, 800), 4)), realtime=False)
        await client.commit(create_response=True)
        with trio.fail_after(30):
            first = await anext(client.responses())
            async with aclosing(first.audio()) as sound:
                await anext(sound)
            await client.barge_in()
            await first.wait()
        assert first.cut
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, client, sweep(900, 400))
            heard = await answer(client)
        assert likeness(as_the_parrot_says_it(sweep(900, 400)), heard).share > 0.9
