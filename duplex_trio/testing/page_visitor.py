"""Somebody at either page: what people do and see there in the same way. For tests in a real browser."""

from __future__ import annotations

from typing import Any

import orjson
from attrs import define

from duplex_trio.testing.browser import Page


@define
class PageVisitor:
    """A person at a page with places that have names, a notice and a list of messages."""

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

    async def text(self, name: str) -> str:
        """What stands at a place of the page."""
        said: str = await self.page.run(f"document.getElementById('{name}').textContent")
        return said

    async def notice(self) -> str:
        """What the page has to say, once it has something to say."""
        await self.page.until("!document.getElementById('notice').hidden")
        return await self.text("notice")

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
