"""A video is one span, whoever ends it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import trio
import trio.lowlevel
from opentelemetry.trace import StatusCode

from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.serving.asgi_channel import AsgiChannel
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.video import VideoEndpoint

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SCOPE = {
    "type": "websocket",
    "path": "/v1/realtime/video",
    "query_string": b"",
    "headers": [(b"traceparent", PARENT.encode())],
    "client": None,
}


class Watcher:
    """A client over ASGI: asks for a video, and watches it or leaves after its first chunk."""

    def __init__(self, start: dict[str, Any], *, leaves: bool = False) -> None:
        self.sent: list[dict[str, Any]] = []
        self._messages = [{"type": "websocket.receive", "text": orjson.dumps(start).decode()}]
        self._left = trio.Event()
        self._leaves = leaves

    async def send(self, message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(message)
        if message["type"] == "websocket.close" or (self._leaves and message.get("bytes")):
            self._left.set()

    async def receive(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if self._messages:
            return self._messages.pop(0)
        await self._left.wait()
        return {"type": "websocket.disconnect", "code": 1001}


START = {"type": "session.start", "prompt": "a secret wish", "seconds": 1, "streaming_buffer_seconds": None}


@pytest.mark.parametrize(
    ("start", "leaves", "outcome"),
    [
        (START, False, "done"),
        ({**START, "seconds": 60}, True, "aborted"),
        ({**START, "fps": -1}, False, "invalid_start"),
    ],
)
async def test_a_video_is_a_span_in_the_clients_trace(
    spans: Any, start: dict[str, Any], leaves: bool, outcome: str
) -> None:
    omni = VideoOmni(ScriptedVideoPipeline(), warm_up=False)
    async with omni.running():
        endpoint = VideoEndpoint(omni=omni, deployment=Deployment(), tracer=spans.tracer)
        watcher = Watcher(start, leaves=leaves)
        with trio.fail_after(20):
            await endpoint.serve(AsgiChannel(SCOPE, watcher.receive, watcher.send))
    spans.ledger.check()
    span = spans.one("video")
    told = span.attributes
    assert told["duplex.video.outcome"] == outcome
    assert f"{span.context.trace_id:032x}" in PARENT
    assert (told["duplex.video.frames"] > 0) is (outcome != "invalid_start")
    assert span.status.status_code is StatusCode.UNSET, "it is nobody's fault here"
    assert "secret" not in span.to_json()


async def test_one_that_is_cancelled_ends_too(spans: Any) -> None:
    omni = VideoOmni(ScriptedVideoPipeline(), warm_up=False)
    async with omni.running():
        endpoint = VideoEndpoint(omni=omni, deployment=Deployment(), tracer=spans.tracer)
        watcher = Watcher({**START, "seconds": 60})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(endpoint.serve, AsgiChannel(SCOPE, watcher.receive, watcher.send))
            with trio.fail_after(20):
                while not watcher.sent:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    spans.ledger.check()
    assert spans.one("video").attributes["duplex.video.outcome"] == "aborted"


def test_a_model_that_fails_is_a_fault(spans: Any) -> None:
    trace = spans.tracer.video("m", {})
    trace.ended("generation_failed", {"chunks": 3})
    trace.ended("done", {})
    span = spans.one("video")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes["error.type"], span.attributes["duplex.video.chunks"]) == ("generation_failed", 3)
