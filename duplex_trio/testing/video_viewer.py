"""Somebody at the page of videos: what they do there, and what they see. For tests in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from attrs import define

from duplex_trio.testing.browser import open_page
from duplex_trio.testing.page_visitor import PageVisitor

PIXELS = """(() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 8;
  const context = canvas.getContext('2d');
  context.drawImage(document.getElementById('video'), 0, 0, 8, 8);
  return [...context.getImageData(0, 0, 8, 8).data];
})()"""
"""The picture that is shown, as 8 x 8 pixels of red, green, blue and alpha."""
LOWER_MIDDLE = f"(({PIXELS}).slice(4 * (6 * 8 + 4)))"
"""A pixel that has the colour of the prompt's state in the scripted model's pictures."""
BRIGHTNESS = f"(({PIXELS}).reduce((sum, part) => sum + part, 0) / 256)"
"""Of the whole picture, 64 (black) to 255."""


@define
class Viewer(PageVisitor):
    """A person at the page."""

    async def say(self, prompt: str) -> None:
        """Enter a prompt and send it."""
        await self.page.run("document.getElementById('prompt').focus()")
        await self.page.run("document.getElementById('prompt').select()")
        await self.page.type(prompt)
        await self.page.press("Enter")

    async def start(self, prompt: str = "red", *, until: str = "running", **settings: str) -> None:
        """Start a video."""
        settings = {"size": "256x256", **settings}
        await self.page.run("document.getElementById('settings').open = true")
        for name, value in settings.items():
            await self.choose(name, value)
        await self.say(prompt)
        await self.state(until)

    async def played(self, seconds: float) -> None:
        """Wait until so much has been played."""
        await self.page.until(f"document.getElementById('video').currentTime > {seconds}")

    async def colour(self, condition: str) -> None:
        """Wait until the picture has a colour: a condition of `r`, `g` and `b`."""
        await self.page.until(f"(([r, g, b]) => {condition})({LOWER_MIDDLE})")

    async def brightness(self, condition: str = "true") -> float:
        """Wait until the picture is as bright as a condition of `now` wants it; returns how bright it is."""
        found: float = await self.page.until(f"((now) => ({condition}) && now)({BRIGHTNESS})")
        return found

    async def prompts(self) -> list[list[str]]:
        """Every prompt, the newest first, with its state and what else stands there."""
        rows: list[list[str]] = await self.page.run(
            "[...document.querySelectorAll('#prompts li')].map((row) => [row.children[0].textContent,"
            " row.dataset.state, row.children[2].textContent])"
        )
        return rows

    async def newest(self, state: str) -> None:
        """Wait for a state of the prompt that was sent last."""
        await self.page.until(f"document.querySelector('#prompts li')?.dataset.state === '{state}'")


@asynccontextmanager
async def visit(
    browser: str, port: int, *, quiet: bool = True, downloads: Path | None = None
) -> AsyncIterator[Viewer]:
    """Somebody who has opened the page of a server until the block ends.

    Args:
        browser: as `chromium_process` yields it.
        port: of the server.
        quiet: at the end, the browser's console must be empty.
        downloads: where the page may save files.

    Raises:
        AssertionError: something was complained of.
    """
    async with open_page(browser, downloads=downloads) as page:
        await page.look(width=1280, height=860)
        await page.open(f"http://127.0.0.1:{port}/video")
        yield Viewer(page)
        await page.run("0")  # whatever was said before it has come by then
        assert not quiet or page.complaints == []
