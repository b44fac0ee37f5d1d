"""OpenAI's own Python SDK, unchanged, against the server with the real models."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openai import OpenAI

from duplex_trio.protocol.duplex.audio import pcm16_bytes, resample
from duplex_trio.stages.units import Pcm
from duplex_trio.testing.speech import Speaker

pytestmark = [pytest.mark.e2e, pytest.mark.models]

PATIENCE_S = 180.0
CHUNK_SAMPLES = 480
"""20 ms at the SDK's 24 kHz."""


class Microphone:
    """Sends what is said in real time, then silence, from a thread of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._waiting: list[bytes] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def say(self, pcm: Pcm) -> None:
        data = pcm16_bytes(resample(pcm, 16_000, 24_000))
        step = 2 * CHUNK_SAMPLES
        self._waiting += [data[i : i + step] for i in range(0, len(data), step)]

    @contextmanager
    def on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(timeout=10)

    def _run(self) -> None:
        quiet = bytes(2 * CHUNK_SAMPLES)
        while not self._stop.wait(0.02):
            chunk = self._waiting.pop(0) if self._waiting else quiet
            self._connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())


def _next(
    connection: Any, kind: str, seen: list[Any], where: Callable[[Any], bool] = lambda event: True
) -> Any:
    for event in connection:
        seen.append(event)
        assert event.type != "error", event
        if event.type == kind and where(event):
            return event
    raise AssertionError(f"the connection ended without {kind}; came: {[event.type for event in seen]}")


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower()))


def test_two_spoken_turns_and_a_written_one(real_server: Any) -> None:
    """The SDK holds a conversation with its default session: it hears speech, in its own event classes."""
    speaker = Speaker()
    client = OpenAI(api_key="none needed", websocket_base_url=real_server.ws_base)
    seen: list[Any] = []
    with client.realtime.connect(model="gpt-realtime") as connection:
        created = _next(connection, "session.created", seen)
        assert created.session.model == "gpt-realtime"
        assert created.session.audio.input.format.rate == 24_000
        microphone = Microphone(connection)
        with microphone.on():
            for sentence, word in (
                ("Hello, what is a good breakfast?", "breakfast"),
                ("Tell me something about the moon.", "moon"),
            ):
                microphone.say(speaker.say(sentence))
                completed = _next(connection, "conversation.item.input_audio_transcription.completed", seen)
                assert word in _words(completed.transcript)
                delta = _next(connection, "response.output_audio.delta", seen)
                assert len(base64.b64decode(delta.delta)) > 0
                done = _next(connection, "response.done", seen)
                assert done.response.status in ("completed", "incomplete")
                assert done.response.output[0].content[0].transcript
                assert done.response.usage.output_tokens > 0
        connection.session.update(session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        updated = _next(connection, "session.updated", seen)
        assert updated.session.audio.input.turn_detection is None
        text = [{"type": "input_text", "text": "What colour is the sky?"}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": text})
        connection.response.create(response={"output_modalities": ["text"]})
        written = _next(connection, "response.output_text.done", seen)
        done = _next(connection, "response.done", seen)
        assert done.response.output[0].content[0].text == written.text != ""
    assert "conversation.item.added" in {event.type for event in seen}


def test_every_event_of_a_conversation_passes_strict_validation(real_server: Any) -> None:
    """A recorded session holds nothing that OpenAI's schema does not allow, wrong types included."""
    from openai.types.realtime import RealtimeServerEvent
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
    speaker = Speaker()
    client = OpenAI(api_key="none needed", websocket_base_url=real_server.ws_base)
    raw: list[str] = []
    with client.realtime.connect(model="m") as connection:
        microphone = Microphone(connection)
        with microphone.on():
            microphone.say(speaker.say("Hello, please tell me a story."))
            interrupted = False
            for data in iter(lambda: connection.recv_bytes(), None):
                raw.append(data.decode() if isinstance(data, bytes) else data)
                if '"response.output_audio.delta"' in raw[-1] and not interrupted:
                    interrupted = True
                    microphone.say(speaker.say("Stop, please."))
                if '"response.done"' in raw[-1] and sum('"response.done"' in line for line in raw) == 2:
                    break
    kinds = set()
    for line in raw:
        event = adapter.validate_json(line, strict=True)
        kinds.add(event.type)
    assert {"response.done", "input_audio_buffer.speech_started", "response.output_audio.delta"} <= kinds
