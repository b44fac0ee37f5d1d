"""Somebody at the page where people talk with the model: what they do there, and what they see. For a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from attrs import define, frozen

from duplex_trio.testing.browser import Page, open_page

DESKTOP = (1280, 860)
PHONE = (360, 740)


@frozen
class Turn:
    """A turn as it is read.

    Attributes:
        who: `you`, `model` or `note`.
        state: as the page marks it, such as `interrupted`.
        heard: what was heard of it, or all of a turn without sound.
        ahead: what is still to be heard, or was not.
    """

    who: str
    state: str
    heard: str
    ahead: str

    @property
    def text(self) -> str:
        """All that there is to read."""
        return self.heard + self.ahead


@define
class Visitor:
    """A person at the page."""

    page: Page

    async def state(self, *wanted: str) -> str:
        """Wait for one of some states of the page; returns which."""
        names = orjson.dumps(wanted).decode()
        found: str = await self.page.until(
            f"{names}.includes(document.body.dataset.state) && document.body.dataset.state"
        )
        return found

    async def choose(self, name: str, value: str) -> None:
        """Set a control of the page, as somebody who leaves it then."""
        await self.page.run(
            f"(() => {{ const one = document.getElementById('{name}'); one.value = {orjson.dumps(value).decode()};"
            " for (const kind of ['input', 'change']) one.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    async def write(self, text: str) -> None:
        """Write a turn and send it."""
        await self.page.run("document.getElementById('words').focus()")
        await self.page.type(text)
        await self.page.press("Enter")

    async def turns(self) -> list[Turn]:
        """Every turn that is shown, oldest first."""
        rows: list[list[str]] = await self.page.run(
            "[...document.querySelectorAll('#turns .turn')].map((row) => [row.dataset.who, row.dataset.state,"
            " row.querySelector('.heard').textContent, row.querySelector('.ahead').textContent])"
        )
        return [Turn(*row) for row in rows]

    async def heard(self, text: str) -> None:
        """Wait until an answer has been heard as far as a text."""
        wanted = orjson.dumps(text).decode()
        await self.page.until(
            f"[...document.querySelectorAll('#turns [data-who=model] .heard')].some("
            f"(one) => one.textContent.includes({wanted}))"
        )

    async def said(self, text: str) -> None:
        """Wait until a turn of the visitor reads like that."""
        wanted = orjson.dumps(text).decode()
        await self.page.until(
            f"[...document.querySelectorAll('#turns [data-who=you] .bubble')].some("
            f"(one) => one.textContent.includes({wanted}))"
        )

    async def text(self, name: str) -> str:
        """What stands at a place of the page."""
        said: str = await self.page.run(f"document.getElementById('{name}').textContent")
        return said

    async def notice(self) -> str:
        """What the page has to say, once it has something to say."""
        await self.page.until("!document.getElementById('notice').hidden")
        return await self.text("notice")

    async def complaint_at(self, name: str) -> str:
        """What is said at a field, once something is."""
        said: str = await self.page.until(f"document.getElementById('{name}-said').textContent")
        return said

    async def last_json(self, type: str) -> Any:
        """The message of a type that the list shows last, as a reader sees it who opens it."""
        await self.choose("log-kind", "all")
        text: str = await self.page.run(
            f"(async () => {{ const row = [...document.querySelectorAll('#log-list li')].findLast("
            f" (row) => row.dataset.type === '{type}'); const details = row.querySelector('details');"
            " const opened = new Promise((resolve) => details.addEventListener('toggle', resolve));"
            " details.open = true; await opened; return row.querySelector('pre').textContent; })()"
        )
        return orjson.loads(text)

    async def logged(self) -> list[tuple[str, str]]:
        """Every message that the list shows: its way and its type."""
        await self.choose("log-kind", "all")
        rows = await self.page.run(
            "[...document.querySelectorAll('#log-list li')].map((row) => [row.dataset.way, row.dataset.type])"
        )
        return [(way, type) for way, type in rows]


@asynccontextmanager
async def visit_talk(
    browser: str,
    port: int,
    *,
    quiet: bool = True,
    downloads: Path | None = None,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
    until: str | None = "idle",
) -> AsyncIterator[Visitor]:
    """Somebody who has opened the page of a server until the block ends.

    Args:
        browser: as `chromium_process` yields it.
        port: of the server.
        quiet: at the end, the browser's console must be empty.
        downloads: where the page may save files.
        size: of the window, in CSS pixels.
        dark: the visitor prefers dark pages.
        until: the state of the page to wait for at first; None waits for none.

    Raises:
        AssertionError: something was complained of.
    """
    async with open_page(browser, downloads=downloads) as page:
        await page.look(width=size[0], height=size[1], dark=dark)
        await page.open(f"http://127.0.0.1:{port}/")
        visitor = Visitor(page)
        if until is not None:
            await visitor.state(until)
        yield visitor
        await page.run("0")  # whatever was said before it has come by then
        assert not quiet or page.complaints == []
