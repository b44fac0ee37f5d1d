"""The `openai` package's realtime client, GA or beta, with the session that the server gives it.

Usage: openai_realtime.py WS_BASE [beta]
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

from openai import AsyncOpenAI
from parts import (
    API_KEY,
    GREETING,
    LAST,
    LONG,
    TOOL,
    WEATHER,
    WEATHER_SAID,
    Heard,
    Microphone,
    report,
    speech,
    weather,
)


class Conversation:
    """An application as the SDK's documentation shows it: it keeps the events and plays the sound."""

    def __init__(self, connection: Any, *, beta: bool) -> None:
        self.connection = connection
        self.beta = beta
        self.audio_delta = "response.audio.delta" if beta else "response.output_audio.delta"
        self.heard = Heard()
        self.sound: dict[str, int] = {}

    async def listen(self) -> None:
        async for event in self.connection:
            if event.type == "error":
                raise RuntimeError(f"the server said {event}")
            if event.type == self.audio_delta:
                size = len(base64.b64decode(event.delta))
                self.sound[event.item_id] = self.sound.get(event.item_id, 0) + size
            self.heard.add(event)

    async def next(self, kind: str) -> Any:
        return await self.heard.next(lambda event: event.type == kind, kind)

    async def write(self, text: str, **response: Any) -> None:
        part = {"type": "input_text", "text": text}
        item = {"type": "message", "role": "user", "content": [part]}
        await self.connection.conversation.item.create(item=item)
        await self.connection.response.create(response=response)

    async def answer(self) -> dict[str, Any]:
        """The next answer's words, and how much sound it has."""
        response = (await self.next("response.done")).response
        item = response.output[0]
        sound = self.sound.pop(item.id, 0)
        return {"status": response.status, "answer": item.content[0].transcript, "bytes": sound}

    async def speech_turn(self, microphone: Microphone) -> None:
        microphone.say(speech("question", 1.0))
        heard = await self.next("conversation.item.input_audio_transcription.completed")
        report("speech", heard=heard.transcript, **await self.answer())

    async def interruption(self, microphone: Microphone) -> None:
        await self.write(LONG)
        delta = await self.next(self.audio_delta)
        microphone.say(speech("stop", 0.6))
        await self.next("input_audio_buffer.speech_started")
        audio_end_ms = self.sound[delta.item_id] * 1000 // 48_000
        await self.connection.conversation.item.truncate(
            item_id=delta.item_id, content_index=0, audio_end_ms=audio_end_ms
        )
        cut = await self.answer()
        if cut["status"] != "cancelled":
            raise RuntimeError(f"the interrupted answer is {cut}")
        await self.next("conversation.item.truncated")
        report("interruption", **await self.answer())

    async def declare_tool(self) -> None:
        session = {"tools": [{"type": "function", **TOOL}]}
        await self.connection.session.update(
            session=session if self.beta else {"type": "realtime", **session}
        )
        await self.next("session.updated")

    async def tool_turn(self, name: str, text: str) -> None:
        await self.write(text)
        call = await self.next("response.function_call_arguments.done")
        done = (await self.next("response.done")).response
        output = weather(**json.loads(call.arguments))
        item = {"type": "function_call_output", "call_id": call.call_id, "output": output}
        await self.connection.conversation.item.create(item=item)
        await self.connection.response.create()
        report(name, items=[item.type for item in done.output], **await self.answer())


async def main(ws_base: str, *, beta: bool) -> None:
    client = AsyncOpenAI(api_key=API_KEY, websocket_base_url=ws_base)
    realtime: Any = client.beta.realtime if beta else client.realtime
    async with realtime.connect(model="gpt-realtime") as connection:
        conversation = Conversation(connection, beta=beta)
        listening = asyncio.create_task(conversation.listen())
        microphone = Microphone(
            lambda pcm: connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())
        )
        talking = asyncio.create_task(talk(conversation, microphone))
        done, _ = await asyncio.wait([listening, talking], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        listening.cancel()


async def talk(conversation: Conversation, microphone: Microphone) -> None:
    await conversation.next("session.created")
    await conversation.write(GREETING)
    report("text", **await conversation.answer())
    async with microphone.on():
        await conversation.speech_turn(microphone)
        await conversation.interruption(microphone)
    await conversation.declare_tool()
    await conversation.tool_turn("tool", WEATHER)
    await conversation.tool_turn("tool_said", WEATHER_SAID)
    await conversation.write(LAST, metadata={"purpose": "the last turn"})
    report("last", **await conversation.answer())


asyncio.run(main(sys.argv[1], beta=sys.argv[2:] == ["beta"]))
