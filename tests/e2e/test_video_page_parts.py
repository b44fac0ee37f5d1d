"""The parts of the page that touch nothing of it, in a real browser: how prompts are followed, how ends are told."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from duplex_trio.testing.browser import Page, open_page
from duplex_trio.testing.server_process import ServedPort

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Step = tuple[str, Any]
NOTHING = "\N{EN DASH}"


@pytest.fixture
async def parts(browser: str, video_server: ServedPort) -> AsyncIterator[Page]:
    """A page whose modules can be imported."""
    async with open_page(browser) as page:
        await page.open(f"http://127.0.0.1:{video_server.port}/video")
        yield page


def chunk(generation: int | None, started: str = "", active: str = "", completed: str = "") -> Step:
    lists = {"started": started, "active": active, "completed": completed}
    ids = {f"{name}_event_ids": text.split() for name, text in lists.items()}
    return "chunk", {
        "kind": "trailer" if generation is None else "media",
        "generation_chunk_index": generation,
        **ids,
    }


def sent(name: str, transition: int = 0) -> list[Step]:
    return [("send", [name, transition]), ("queued", name)]


PLAYED = """async (steps) => {
  const { InteractionBook } = await import('/video/interactions.js');
  const book = new InteractionBook();
  for (const [what, value] of steps) {
    if (what === 'send') book.send(value[0], `prompt ${value[0]}`, value[1], 0);
    else if (what === 'chunk') book.chunk(value, 1);
    else if (what === 'failed') book.failed(value, 'no');
    else if (what === 'end') book.end(value);
    else book.queued(value, 5);
  }
  return Object.fromEntries(book.all.map((one) => [one.id, `${one.state} ${one.steps}`]));
}"""


async def outcomes(page: Page, steps: list[Step]) -> dict[str, str]:
    found: dict[str, str] = await page.run(f"({PLAYED})({orjson.dumps(steps).decode()})")
    return found


CASES: dict[str, tuple[list[Step], dict[str, str]]] = {
    "hard": ([*sent("a"), chunk(0), chunk(1, "a", "a", "a"), chunk(2)], {"a": "completed 1"}),
    "soft": ([*sent("a", 3), chunk(0, "a", "a"), chunk(1, "", "a")], {"a": "active 2"}),
    "whole": ([*sent("a", 2), chunk(0, "a", "a"), chunk(1, "", "a", "a"), chunk(2)], {"a": "completed 2"}),
    "split": (
        [*sent("a", 2), chunk(0, "a", "a"), chunk(0, "", "a"), chunk(1, "", "a", "a")],
        {"a": "completed 2"},
    ),
    "superseded": (
        [*sent("a", 3), *sent("b"), chunk(1, "b", "b", "b")],
        {"a": "superseded 0", "b": "completed 1"},
    ),
    "interrupted": (
        [*sent("a", 3), chunk(1, "a", "a"), *sent("b", 2), chunk(2, "b", "a b"), chunk(3, "", "b", "b")],
        {"a": "interrupted 2", "b": "completed 2"},
    ),
    "interrupted at its last step": (
        [*sent("a", 2), chunk(1, "a", "a"), *sent("b", 2), chunk(2, "b", "a b", "a"), chunk(3, "", "b", "b")],
        {"a": "completed 2", "b": "completed 2"},
    ),
    "refused": ([("send", ["a", 1]), ("failed", "a"), chunk(0)], {"a": "failed 0"}),
    "failed later": (
        [*sent("a"), *sent("b"), ("failed", "b"), chunk(0, "a", "a", "a")],
        {"a": "completed 1", "b": "failed 0"},
    ),
    "too late to fail": ([*sent("a"), chunk(0, "a", "a", "a"), ("failed", "a")], {"a": "completed 1"}),
    "never begun": ([*sent("a"), ("end", {"a": "unfinished"})], {"a": "unfinished 0"}),
    "never answered": ([("send", ["a", 0]), ("end", {})], {"a": "unfinished 0"}),
    "not ended by the trailer": ([*sent("a", 9), chunk(0, "a", "a"), chunk(None)], {"a": "active 1"}),
    "as the server says": (
        [*sent("a", 9), chunk(0, "a", "a"), ("end", {"a": "interrupted"})],
        {"a": "interrupted 1"},
    ),
    "not ours": ([chunk(0, "x", "x", "x"), ("queued", "x"), ("failed", "x")], {}),
}


async def test_what_became_of_prompts_is_read_off_the_messages(parts: Page) -> None:
    found = {case: await outcomes(parts, steps) for case, (steps, _) in CASES.items()}
    assert found == {case: expected for case, (_, expected) in CASES.items()}


async def test_every_end_is_explained(parts: Page) -> None:
    codes = "invalid_start model_not_found resource_exhausted server_shutdown start_timeout stall_timeout"
    for code in [*codes.split(), "generation_failed", "too_many_errors", "unsupported", "something_new"]:
        error = orjson.dumps({"code": code, "message": "the server's words"}).decode()
        told = await parts.run(
            f"import('/video/explain.js').then(({{ explainError }}) => explainError({error}))"
        )
        assert told["title"]
        assert "The server's words." in told["advice"]


async def test_figures_are_of_the_last_chunks(parts: Page) -> None:
    told = await parts.run(
        """Promise.all([import('/video/figures.js'), import('/shared/units.js')]).then(
          ([{ Pace }, { ms, bytes, clock, seconds }]) => {
          const pace = new Pace();
          const none = [pace.fps, pace.intervalMs];
          for (let chunk = 0; chunk < 30; chunk++) pace.chunk(9, chunk < 20 ? chunk * 50 : 1000 + (chunk - 20) * 500);
          const words = [ms(null), ms(3.21), ms(345.6), ms(12_345), bytes(24), bytes(4_200), bytes(3.2e6), clock(75.9)];
          return [none, pace.fps, pace.intervalMs, [...words, seconds(0.44), seconds(12.3)]];
        })"""
    )
    none, fps, interval_ms, words = told
    assert none == [None, None]
    assert (fps, interval_ms) == (18, 500)
    assert words == [NOTHING, "3.2 ms", "346 ms", "12 s", "24 B", "4 kB", "3.2 MB", "1:15", "0.4 s", "12 s"]


async def test_a_clip_is_named_by_what_it_shows(parts: Page) -> None:
    names = await parts.run(
        """import('/video/player.js').then(({ Clip }) => [
          new Clip('video/mp4; codecs="avc1.42C00B"').name('A snowy street, "illuminated" by/warm lanterns', 7),
          new Clip('video/webm; codecs="vp8"').name('雪の街', 1),
          new Clip('video/webm').name('../..', 2),
        ])"""
    )
    assert names == ["a-snowy-street-illuminated-by-warm-7.mp4", "雪の街-1.webm", "video-2.webm"]
