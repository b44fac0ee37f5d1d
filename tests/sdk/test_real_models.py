"""Published clients in a spoken conversation with the packaged models, in speech that has to be understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duplex_trio.protocol.duplex.audio import pcm16_bytes, resample
from duplex_trio.testing.speech import SAMPLE_RATE_HZ, Speaker

pytestmark = [pytest.mark.e2e, pytest.mark.models]

CLIENT_RATE_HZ = 24_000
SAID = {"question": "What is a good breakfast?", "stop": "Stop, please. Tell me about the moon."}


@pytest.fixture(scope="module")
def heard_conversations(
    hold: Any, real_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("speech")
    speaker = Speaker()
    for name, text in SAID.items():
        pcm = resample(speaker.say(text), SAMPLE_RATE_HZ, CLIENT_RATE_HZ)
        (folder / f"{name}.pcm").write_bytes(pcm16_bytes(pcm))
    recordings: dict[str, Any] = hold(
        dict.fromkeys(["openai-agents", "pipecat"], real_server.port), SPEECH_FOLDER=str(folder)
    )
    return recordings


@pytest.mark.parametrize("name", ["openai-agents", "pipecat"])
def test_a_client_is_understood_answered_and_may_interrupt(
    heard_conversations: dict[str, Any], name: str
) -> None:
    """With the turn detection that it asks for by default: semantic in one, by silence in the other."""
    recording = heard_conversations[name]
    assert recording.returncode == 0, recording.story
    assert not [event for event in recording.events if event["type"] == "error"], recording.story
    question, stop = recording.facts["real"]["heard"]
    assert "breakfast" in question.lower(), recording.story
    assert "moon" in stop.lower(), recording.story
    (end,) = [
        event["response"]["status_details"]
        for event in recording.events
        if event["type"] == "response.done" and event["response"]["status"] == "cancelled"
    ]
    assert end["reason"] == "turn_detected", recording.story
