"""In which order things are said, seen in conversations of the scripted model on a mock clock."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
import trio
import trio.testing

from duplex_trio.protocol.dialects import Dialect
from duplex_trio.testing.run import finish, scripted_omni
from duplex_trio.testing.scenarios import SCENARIOS, STEPS_S
from duplex_trio.testing.transcript import normalised, open_transcript

SHOWN: Mapping[str, str] = {
    "detected_turn": "A spoken turn, and its answer",
    "end_interrupted": "An answer that the user talks into",
    "end_barge_in": "An answer that the client cuts",
    "tool_call": "A function call",
    "written_answer": "A written answer to a written message",
}
"""The scenarios that the page shows, and what it calls them."""


def order_of(name: str) -> str:
    """A conversation, one line for each message: `->` the client's, `<-` the server's; what repeats is counted."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    lines: list[str] = trio.run(partial(_lines, name), clock=clock)
    told: list[str] = []
    for line, count in _counted(lines):
        told.append(line if count == 1 else f"{line}  x {count}")
    return "\n".join(told)


async def _lines(name: str) -> list[str]:
    scenario = SCENARIOS[name]
    async with scripted_omni(pipeline=scenario.pipeline(), step_s=STEPS_S) as omni:
        talker = await open_transcript(omni, Dialect.DUPLEX, patch=scenario.patch)
        if not scenario.opening:
            talker.heard.lines.clear()
        await scenario.play(talker)
        await trio.testing.wait_all_tasks_blocked()
        texts = normalised(talker.heard.lines)
        await finish(omni, talker)
    return [_line(*next(iter(orjson.loads(text).items()))) for text in texts]


def _line(who: str, message: Mapping[str, Any]) -> str:
    match who:
        case "opening":
            return "-> session.update"
        case "client":
            return f"-> {message['type']}{_note(message, 'audio')}"
        case _:
            return f"<-   {message['type']}{_note(message, 'delta')}"


def _note(message: Mapping[str, Any], key: str) -> str:
    match message:
        case {"response": {"status": str() as status, "status_details": {"reason": str() as reason}}}:
            return f"  {status}, {reason}"
        case {"response": {"status": str() as status}}:
            return f"  {status}"
        case {"item": {"type": str() as kind, "role": str() as role}}:
            return f"  {role} {kind}"
        case {"item": {"type": str() as kind}}:
            return f"  {kind}"
        case {"audio": str() as sound} if key == "audio":
            return f"  {sound}"
    return ""


def _counted(lines: list[str]) -> list[tuple[str, int]]:
    """Runs of one line, and of two lines that take turns, as one each."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(lines):
        pair = lines[at : at + 2]
        count = 1
        while len(pair) == 2 and lines[at + 2 * count : at + 2 * count + 2] == pair:
            count += 1
        if count > 1 and pair[0] != pair[1]:
            found += [(line, count) for line in pair]
            at += 2 * count
            continue
        count = 1
        while at + count < len(lines) and lines[at + count] == lines[at]:
            count += 1
        found.append((lines[at], count))
        at += count
    return found
