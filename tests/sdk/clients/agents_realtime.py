"""The `openai-agents` package's realtime session, with an agent that has a tool and is set up in no other way.

Usage: agents_realtime.py WS_URL
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from parts import (
    API_KEY,
    GREETING,
    LAST,
    LONG,
    SPEECH_FOLDER,
    WEATHER,
    WEATHER_SAID,
    Heard,
    Microphone,
    report,
    speech,
    weather,
)


@function_tool
def get_weather(city: str) -> str:
    """Look up the weather of a city."""
    return weather(city)


class Conversation:
    """An application that follows the session's events."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.heard = Heard()
        self.items: dict[str, Any] = {}

    async def listen(self) -> None:
        async for event in self.session:
            if event.type == "raw_model_event" and event.data.type == "exception":
                raise RuntimeError(f"{event.data.context}: {event.data.exception}")
            if event.type == "error":
                raise RuntimeError(f"the server said {event.error}")
            if event.type == "history_added":
                self.items[event.item.item_id] = event.item
            if event.type == "history_updated":
                self.items = {item.item_id: item for item in event.history}
            if event.type != "raw_model_event" or event.data.type == "turn_ended":
                self.heard.add(event)

    async def next(self, kind: str) -> Any:
        return await self.heard.next(lambda event: event.type == kind, kind)

    def last(self, role: str) -> str:
        """What the history holds of what one side said last."""
        item = [item for item in self.items.values() if getattr(item, "role", None) == role][-1]
        return str(item.content[0].transcript)

    async def turn(self) -> list[Any]:
        """Everything up to the end of the next answer."""
        return await self.heard.until(lambda event: event.type == "raw_model_event", "end of a turn")

    async def answer(self) -> dict[str, Any]:
        """What the history holds of the next answer at its end, and how much sound it had."""
        sound = sum(len(event.audio.data) for event in await self.turn() if event.type == "audio")
        return {"answer": self.last("assistant"), "bytes": sound}

    async def speech_turn(self, microphone: Microphone) -> None:
        microphone.say(speech("question", 1.0))
        answer = await self.answer()
        report("speech", heard=self.last("user"), **answer)

    async def interruption(self, microphone: Microphone) -> None:
        await self.session.send_message(LONG)
        audio = await self.next("audio")
        microphone.say(speech("stop", 0.6))
        interrupted = await self.next("audio_interrupted")
        if interrupted.item_id != audio.item_id:
            raise RuntimeError(f"{interrupted.item_id} was interrupted instead of {audio.item_id}")
        await self.turn()
        report("interruption", **await self.answer())

    async def real_speech(self, microphone: Microphone) -> None:
        """A question, a cut into its answer, and the first sound of the next one."""
        microphone.say(speech("question", 1.0))
        await self.next("audio")
        heard = self.last("user")
        microphone.say(speech("stop", 0.6))
        await self.next("audio_interrupted")
        await self.turn()
        await self.next("audio")
        report("real", heard=[heard, self.last("user")])

    async def tool_turn(self, name: str, text: str) -> None:
        """The tool runs while the turn that called it ends; the answer is the turn after that."""
        await self.session.send_message(text)
        before, after = await self.turn(), await self.turn()
        (called,) = [event for event in before + after if event.type == "tool_end"]
        report(name, arguments=called.arguments, answer=self.last("assistant"))


async def main(ws_url: str) -> None:
    runner = RealtimeRunner(RealtimeAgent(name="assistant", tools=[get_weather]))
    async with await runner.run(model_config={"api_key": API_KEY, "url": ws_url}) as session:
        conversation = Conversation(session)
        listening = asyncio.create_task(conversation.listen())
        talking = asyncio.create_task(talk(conversation))
        done, _ = await asyncio.wait([listening, talking], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        listening.cancel()


async def talk(conversation: Conversation) -> None:
    session = conversation.session
    if SPEECH_FOLDER is not None:
        async with Microphone(session.send_audio).on() as microphone:
            await conversation.real_speech(microphone)
        return
    await session.send_message(GREETING)
    report("text", **await conversation.answer())
    async with Microphone(session.send_audio).on() as microphone:
        await conversation.speech_turn(microphone)
        await conversation.interruption(microphone)
    await conversation.tool_turn("tool", WEATHER)
    await conversation.tool_turn("tool_said", WEATHER_SAID)
    await session.send_message(LAST)
    report("last", **await conversation.answer())


logging.basicConfig(level=logging.WARNING)
set_tracing_disabled(True)
asyncio.run(main(sys.argv[1]))
