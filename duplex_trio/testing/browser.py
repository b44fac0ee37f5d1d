"""A headless Chromium, driven by the DevTools protocol: for tests of pages as people use them.

The process is started by the caller's thread, so that one may serve many tests; each test opens a page in a browser
context of its own, over one WebSocket. Nothing is installed: where there is no Chromium, `find_chromium` says so.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import trio
import trio_websocket
from attrs import define, field, frozen

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_TIMEOUT_S = 60.0
PATIENCE_S = 60.0
"""How long a page may take for what a test waits for; only a broken one takes as long."""
_LOOK_EVERY_S = 0.02
_MESSAGE_MAX = 64 * 2**20
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, and see their own pages only
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class PageError(Exception):
    """The page threw, or the browser refused a command."""


def find_chromium() -> str | None:
    """The browser's program: the variable `CHROME`, or one of the usual names; None where there is none."""
    named = os.environ.get("CHROME")
    found = [shutil.which(name) for name in ([named] if named else NAMES)]
    return next((path for path in found if path is not None), None)


@contextmanager
def chromium_process(program: str, *, microphone: Path | None = None) -> Iterator[str]:
    """Run a browser with a profile of its own until the block ends; yields its DevTools address.

    Args:
        program: the browser.
        microphone: a WAV file that is heard by every page that asks for a microphone, from its beginning and once; no
            page is asked whether it may. Without it there is no microphone.

    Raises:
        AssertionError: it did not start in time; with what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        log, told = Path(folder, "log"), Path(folder, "DevToolsActivePort")
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 (the browser that was found)
                [program, *_FLAGS, *_hearing(microphone), f"--user-data-dir={folder}", "about:blank"],
                stdout=output,
                stderr=output,
            )
        try:
            yield _address(process, told, log)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _hearing(microphone: Path | None) -> list[str]:
    if microphone is None:
        return []
    return [
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}%noloop",
    ]


def _address(process: subprocess.Popen[bytes], told: Path, log: Path) -> str:
    end_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end_s and process.poll() is None:
        lines = told.read_text().splitlines() if told.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(_LOOK_EVERY_S)
    raise AssertionError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')[-4000:]}")


@frozen
class Complaint:
    """Something that a browser tells whoever looks at its console. `kind` is its level or where it is from."""

    kind: str
    text: str


@define(eq=False)
class Page:
    """One tab. Used by one task at a time.

    Attributes:
        complaints: errors and warnings of its console so far: exceptions, policy violations, failed requests.
    """

    _socket: trio_websocket.WebSocketConnection
    _session: str | None
    complaints: list[Complaint] = field(factory=list)
    _next_id: int = 0
    _saved: int = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """Send one command of the DevTools protocol and wait for its answer.

        Raises:
            PageError: it was refused.
            trio.TooSlowError: no answer came.
        """
        self._next_id += 1
        command = {"id": self._next_id, "method": method, "params": parameters}
        with trio.fail_after(PATIENCE_S):
            if self._session is not None:
                command["sessionId"] = self._session
            await self._socket.send_message(orjson.dumps(command).decode())
            while True:
                message = await self._next_message()
                if message.get("id") == self._next_id and message.get("sessionId") == self._session:
                    break
        if "error" in message:
            raise PageError(f"{method}: {message['error']['message']}")
        return message["result"]

    async def open(self, url: str) -> None:
        """Go to an address and wait until the document and its modules are loaded."""
        moved = await self.call("Page.navigate", url=url)
        if "errorText" in moved:
            raise PageError(f"{url}: {moved['errorText']}")
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression, which may be a promise.

        Raises:
            PageError: it threw.
        """
        answer = await self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if (thrown := answer.get("exceptionDetails")) is not None:
            raise PageError(thrown.get("exception", {}).get("description") or thrown["text"])
        return answer["result"].get("value")

    async def until(self, condition: str) -> Any:
        """Wait until an expression is true, looking with each frame that the page draws; returns its value.

        Raises:
            trio.TooSlowError: it never was.
        """
        return await self.run(
            "new Promise((resolve, reject) => { const look = () => { try {"
            f" const found = ({condition}); found ? resolve(found) : requestAnimationFrame(look);"
            " } catch (error) { reject(error); } }; look(); })"
        )

    async def type(self, text: str) -> None:
        """Enter text into whatever has the focus."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, *, code: int = 0) -> None:
        """Press and release a key by its name, as `KeyboardEvent.key` has it. `code` is its Windows key code."""
        code = code or {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        about = {"key": key, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def click(self, selector: str) -> None:
        """Click the middle of the first element that a selector finds, as a mouse does.

        Raises:
            PageError: there is none.
        """
        found = f"document.querySelector({orjson.dumps(selector).decode()})"
        x, y = await self.run(
            f"(() => {{ const found = {found}; found.scrollIntoView({{block: 'nearest', behavior: 'instant'}});"
            " const box = found.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def saved(self, count: int = 1) -> None:
        """Wait until that many files have been saved in all.

        Raises:
            trio.TooSlowError: they never were.
        """
        with trio.fail_after(PATIENCE_S):
            while self._saved < count:
                await self._next_message()

    async def screenshot(self, *, whole: bool = False) -> bytes:
        """A PNG of what is seen, or of the whole page."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    async def look(self, *, width: int, height: int, scale: float = 1.0, dark: bool = False) -> None:
        """Set the size of the window in CSS pixels, and the scheme of colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def _next_message(self) -> dict[str, Any]:
        message: dict[str, Any] = orjson.loads(await self._socket.get_message())
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                thrown = about["exceptionDetails"]
                text = thrown.get("exception", {}).get("description") or thrown["text"]
                self.complaints.append(Complaint("exception", text))
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                said = " ".join(str(argument.get("value", argument)) for argument in about["args"])
                self.complaints.append(Complaint(about["type"], said))
            case "Browser.downloadProgress" if about["state"] == "completed":
                self._saved += 1
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                entry = about["entry"]
                self.complaints.append(Complaint(entry["source"], f"{entry['text']} {entry.get('url', '')}"))


@asynccontextmanager
async def open_page(address: str, *, downloads: Path | None = None) -> AsyncIterator[Page]:
    """A new tab in a browser context of its own (its storage and cache are nobody else's) until the block ends.

    Args:
        address: as `chromium_process` yields it.
        downloads: where files are saved that the page offers; None refuses them.
    """
    async with trio_websocket.open_websocket_url(address, max_message_size=_MESSAGE_MAX) as socket:
        browser = Page(socket, None)
        context = (await browser.call("Target.createBrowserContext", disposeOnDetach=True))[
            "browserContextId"
        ]
        behaviour = (
            {"behavior": "deny"}
            if downloads is None
            else {"behavior": "allow", "downloadPath": str(downloads)}
        )
        await browser.call(
            "Browser.setDownloadBehavior", browserContextId=context, eventsEnabled=True, **behaviour
        )
        made = await browser.call("Target.createTarget", url="about:blank", browserContextId=context)
        found = await browser.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        page = Page(socket, found["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        yield page
