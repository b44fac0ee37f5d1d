"""The `openai` package's realtime client, which reconnects by itself when its connection breaks.

Usage: openai_reconnect.py WS_BASE
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from openai import AsyncOpenAI
from parts import API_KEY, GREETING, LAST, report


async def main(ws_base: str) -> None:
    client = AsyncOpenAI(api_key=API_KEY, websocket_base_url=ws_base)
    breaks: list[int] = []
    waiting = [("first", GREETING), ("second", LAST)]
    turn = ""

    def on_reconnecting(event: Any) -> None:
        breaks.append(event.close_code)

    async with client.realtime.connect(model="gpt-realtime", on_reconnecting=on_reconnecting) as connection:
        async for event in connection:
            if event.type == "error":
                raise RuntimeError(f"the server said {event}")
            if event.type == "session.created":
                turn, text = waiting.pop(0)
                part = {"type": "input_text", "text": text}
                await connection.conversation.item.create(
                    item={"type": "message", "role": "user", "content": [part]}
                )
                await connection.response.create()
            if event.type == "response.done":
                report(turn, answer=event.response.output[0].content[0].transcript, breaks=breaks)
                if not waiting:
                    return


asyncio.run(main(sys.argv[1]))
