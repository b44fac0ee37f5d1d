"""Somebody at the page where people talk with the model: what they do there, and what they see. For a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from attrs import define, frozen

from duplex_trio.testing.browser import open_page
from duplex_trio.testing.page_visitor import PageVisitor

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
class Visitor(PageVisitor):
    """A person at the page."""

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

    async def complaint_at(self, name: str) -> str:
        """What is said at a field, once something is."""
        said: str = await self.page.until(f"document.getElementById('{name}-said').textContent")
        return said


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
