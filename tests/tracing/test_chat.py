"""A chat completion is a span in the trace of the HTTP request that asked for it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_has_its_clients_trace(
    spans: Any, traced: Any, autojump_clock: MockClock, stream: bool
) -> None:
    """And the tree below it that a session has."""
    async with traced(spans, Script(otherwise=lambda _: "Good morning.")) as omni:
        transport = httpx.ASGITransport(app=make_app(omni, ServeOptions(tracer=spans.tracer)))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answer = await client.post(
                "/v1/chat/completions",
                json={"messages": [{"role": "user", "content": "hello"}], "stream": stream},
                headers={"traceparent": PARENT},
            )
    assert answer.status_code == 200
    chat, response = spans.one("chat"), spans.one("response")
    assert f"{chat.context.trace_id:032x}" == TRACE_ID
    assert response.parent.span_id == chat.context.span_id
    assert response.attributes["gen_ai.output.type"] == "text"
    assert [span.name for span in spans.named("llm")] == ["llm"]
