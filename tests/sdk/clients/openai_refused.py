"""The `openai` package's realtime client, asking for what cannot be, and then for something that can.

Usage: openai_refused.py WS_BASE
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from openai import AsyncOpenAI
from parts import API_KEY, GREETING, report

ITEM: dict[str, Any] = {
    "id": "mine",
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": GREETING}],
}


async def main(ws_base: str) -> None:
    client = AsyncOpenAI(api_key=API_KEY, websocket_base_url=ws_base)
    async with client.realtime.connect(model="gpt-realtime") as connection:
        await connection.conversation.item.create(item=ITEM)
        await connection.conversation.item.create(item=ITEM, event_id="twice")
        await connection.conversation.item.retrieve(item_id="nowhere", event_id="rci_nowhere")
        await connection.response.cancel(event_id="cancel")
        await connection.input_audio_buffer.commit(event_id="commit")
        await connection.response.create()
        await connection.response.create(event_id="second")
        async for event in connection:
            if event.type == "error":
                report(event.error.event_id, code=event.error.code, message=event.error.message)
            if event.type == "response.done":
                report("text", answer=event.response.output[0].content[0].transcript)
                return


asyncio.run(main(sys.argv[1]))
