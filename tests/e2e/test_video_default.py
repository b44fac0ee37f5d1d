"""What `duplex-trio serve` serves by default: speech, and scenes beside it, with the packaged models."""

from __future__ import annotations

import urllib.request
from typing import Any

import orjson
import pytest
import trio
import trio_websocket
from openai import OpenAI

from duplex_trio.testing.server_process import ServedPort
from duplex_trio.testing.video_frames import decode_frames

pytestmark = [pytest.mark.e2e, pytest.mark.models, pytest.mark.slow]

GUARD_S = 240.0


async def watch(served: ServedPort) -> tuple[dict[str, Any], bytes]:
    """The summary and the file of a video that is steered while it is made."""
    async with trio_websocket.open_websocket_url(f"{served.ws_url}/video") as socket:
        try:
            return await steer(socket)
        finally:
            # A client of this library that was closed by its server may be left before TCP has ended.
            await trio.aclose_forcefully(socket._stream)


async def steer(socket: trio_websocket.WebSocketConnection) -> tuple[dict[str, Any], bytes]:
    start = {"type": "session.start", "prompt": "a snowy street", "model": "scene", "seed": 7, "seconds": 3}
    await socket.send_message(orjson.dumps({**start, "streaming_buffer_seconds": None}).decode())
    data, steered = b"", False
    while True:
        message = await socket.get_message()
        if isinstance(message, bytes):
            data += message
            if not steered:
                steered = True
                interaction = {"event_id": "a", "event": {"prompt": "lava at night"}, "transition_chunks": 2}
                asking = {"type": "session.interaction", "interaction": interaction}
                await socket.send_message(orjson.dumps(asking).decode())
        elif (event := orjson.loads(message))["type"] == "session.done":
            return event, data
        else:
            assert event["type"] != "error", event


async def test_a_scene_is_steered_while_somebody_asks(real_server: ServedPort) -> None:
    """Both engines at work at once, each with its own figures."""
    answers: list[str] = []

    def ask() -> None:
        client = OpenAI(api_key="none", base_url=real_server.http_base)
        with client:
            completion = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Say hello!"}], max_completion_tokens=16
            )
        answers.append(completion.choices[0].message.content or "")

    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ask)
            done, data = await watch(real_server)
    assert answers[0].strip()
    assert (done["frames"], done["interactions"]) == (72, {"a": "completed"})
    frames = decode_frames(data)
    assert len(frames) == 72
    first, last = frames[0].mean(axis=(0, 1)), frames[-1].mean(axis=(0, 1))
    assert abs(first - last).max() > 10  # another picture
    health = orjson.loads(await trio.to_thread.run_sync(_read, f"http://127.0.0.1:{real_server.port}/health"))
    assert (health["session_mode"], health["video"]["model"]) == ("duplex", "scene")
    figures = await trio.to_thread.run_sync(real_server.metrics)
    assert figures['duplex_videos_ended_total{outcome="done"}'] >= 1
    assert figures['duplex_chat_completions_total{status="completed"}'] >= 1


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        data: bytes = answer.read()
    return data
