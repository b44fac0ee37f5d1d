"""Parts of the page at `/` that touch little of it: what stands in the way, the words of states, what messages say."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from duplex_trio.testing.browser import Page, open_page
from duplex_trio.testing.server_process import ServedPort

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
async def parts(browser: str, talk_server: ServedPort) -> AsyncIterator[Page]:
    """A page whose modules can be imported."""
    async with open_page(browser) as page:
        await page.open(f"http://127.0.0.1:{talk_server.port}/")
        yield page


STAGES = [{"name": "asr", "state": "ready"}, {"name": "llm", "state": "loading"}]
DOORS: dict[str, tuple[int, Any, str]] = {
    "loading": (503, {"status": "loading", "stages": STAGES}, "now “llm”"),
    "loading, nothing known yet": (503, {"status": "loading"}, "loading…"),
    "draining": (503, {"status": "draining", "stages": []}, "shutting down"),
    "key": (200, {"status": "ready"}, ""),
    "video": (200, {"status": "ready", "stages": [], "session_mode": "video"}, ""),
    "none": (200, {"status": "ready", "stages": [], "session_mode": "turn"}, "only chat completions"),
    "gone": (0, None, "can't be reached"),
}


async def test_what_stands_in_the_way_is_told(parts: Page) -> None:
    for case, (status, health, words) in DOORS.items():
        answer = (
            f"new Response({orjson.dumps(orjson.dumps(health).decode()).decode()}, {{ status: {status} }})"
        )
        await parts.run(f"globalThis.fetch = async () => {answer if status else '{ throw new TypeError() }'}")
        kind, said = await parts.run(
            """Promise.all([import('/talk/door.js'), import('/talk/say.js')]).then(
              async ([{ askDoor }, { wordsFor }]) => {
                const detail = await askDoor('');
                const about = { detail, mode: 'server_vad', asks: false, waiting: false };
                const { said, hint } = wordsFor('loading', about);
                return [detail.kind, `${said} ${hint}`];
              })"""
        )
        assert kind == case.partition(",")[0]
        assert words in said, case


async def test_every_state_has_words_and_the_button_a_name(parts: Page) -> None:
    found = await parts.run(
        """import('/talk/say.js').then(({ wordsFor }) => {
          const states = ['loading', 'key', 'idle', 'failed', 'connecting', 'away', 'over', 'listening', 'hearing',
            'thinking', 'speaking'];
          const ways = ['server_vad', 'hold'].flatMap((mode) => [[true, true], [true, false], [false, false]].map(
            ([hasMicrophone, hears]) => ({ mode, hasMicrophone, hears, asks: false, waiting: false })));
          return states.flatMap((state) => ways.map((way) => [state, wordsFor(state, way)]));
        })"""
    )
    assert len(found) == 66
    for state, words in found:
        assert words["status"], state
        assert words["button"], state
        assert words["said"] or state == "key"


async def test_medians_are_of_the_last_ones(parts: Page) -> None:
    found = await parts.run(
        """import('/talk/board.js').then(({ Board, median }) => {
          const board = new Board();
          for (let i = 0; i < 60; i++) board.take('endToFirstSound', i);
          const shown = () => ['l-sound', 'm-sound'].map((id) => document.getElementById(id).textContent);
          const before = shown();
          board.clear();
          return [median([]), median([3, 1, 2]), median([4, 1, 2, 3]), ...before, shown()[1]];
        })"""
    )
    assert found == [None, 2, 2.5, "59 ms", "35 ms", "\N{EN DASH}"]


MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"type": "error", "error": {"code": "c", "message": "m"}}, "c · m"),
    ({"type": "response.output_audio_transcript.delta", "delta": "a word"}, "a word"),
    ({"type": "response.output_audio.delta", "delta": "A" * 6400}, ""),
    ({"type": "conversation.item.added", "item": {"role": "user", "content": [{"text": "hi"}]}}, "user: hi"),
    ({"type": "conversation.item.added", "item": {"type": "function_call"}}, "function_call"),
    (
        {"type": "response.done", "response": {"status": "cancelled", "status_details": {"reason": "r"}}},
        "cancelled · r",
    ),
    ({"type": "session.update", "session": {"type": "realtime", "instructions": "x"}}, "instructions"),
    ({"type": "session.expired", "reason": "idle_ttl_expired"}, "idle_ttl_expired"),
    ({"type": "rate_limits.updated"}, ""),
]


async def test_messages_are_told_in_a_few_words(parts: Page) -> None:
    messages = orjson.dumps([message for message, _ in MESSAGES]).decode()
    told = await parts.run(f"import('/talk/describe.js').then(({{ describe }}) => {messages}.map(describe))")
    assert told == [words for _, words in MESSAGES]


async def test_every_end_is_explained(parts: Page) -> None:
    codes = [
        "resource_exhausted",
        "server_shutdown",
        "session_replaced",
        "idle_ttl_expired",
        1001,
        1006,
        1013,
        "new",
    ]
    for code in codes:
        end = orjson.dumps({"code": code, "message": "the server's words"}).decode()
        told = await parts.run(f"import('/talk/explain.js').then(({{ explainEnd }}) => explainEnd({end}))")
        assert told["title"]
        assert told["advice"]
    for kind in ("denied", "insecure", "missing", "busy", "lost", "unsupported", "other"):
        told = await parts.run(
            f"import('/talk/explain.js').then(({{ explainDevice }}) => explainDevice('{kind}'))"
        )
        assert "write" in told["advice"]


async def test_turns_of_which_no_words_come_are_passed(parts: Page) -> None:
    lines = await parts.run(
        """import('/talk/lines.js').then(({ linesOf }) => linesOf([
          { id: 'a', who: 'you', state: 'partial', text: '', latencyMs: null },
          { id: 'b', who: 'model', state: 'speaking', text: 'One two', heardText: 'One', latencyMs: null },
          { id: 'c', who: 'you', state: 'partial', text: '', latencyMs: null },
        ]))"""
    )
    assert [(line["text"], line["ahead"], line["waiting"]) for line in lines] == [
        ("(spoken)", "", False),
        ("One ", "two", False),
        ("", "", True),
    ]
