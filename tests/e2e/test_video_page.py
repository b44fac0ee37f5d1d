"""The page at `/video` in a real browser with a real server: what people see, and what they do when things go wrong."""

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from attrs import define

from duplex_trio.testing.browser import Page, chromium_process, find_chromium, open_page
from duplex_trio.testing.serve_command import serve_command
from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.video_frames import decode_frames

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

START_TIMEOUT_S = 120.0
DEPLOYMENT = """
pipeline: scripted_video
session_mode: video
stages:
  - stage_id: 0
    engine_args: {refused_word: impossible, failing_word: broken}
video_session: {max_sessions: 3}
"""

RED = "red"
LOWER_MIDDLE = """(() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 8;
  const context = canvas.getContext('2d');
  context.drawImage(document.getElementById('video'), 0, 0, 8, 8);
  return [...context.getImageData(4, 6, 1, 1).data].slice(0, 3);
})()"""
"""The colour of the scripted model's picture, which is that of the prompt's state."""
BRIGHTNESS = """(() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 8;
  const context = canvas.getContext('2d');
  context.drawImage(document.getElementById('video'), 0, 0, 8, 8);
  return context.getImageData(0, 0, 8, 8).data.reduce((sum, part) => sum + part, 0) - 64 * 255;
})()"""


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[tuple[int, Callable[[], None]]]:
    """A port that leads to another one, and what cuts every connection that goes through it."""
    open_now: set[trio.SocketStream] = set()

    async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
            await sink.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it was cut

    async def lead(client: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as onwards:
            open_now.update((client, onwards))
            async with trio.open_nursery() as both:
                both.start_soon(pump, client, onwards)
                both.start_soon(pump, onwards, client)

    def cut() -> None:
        for stream in open_now:
            stream.socket.close()
        open_now.clear()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, lead, 0, host="127.0.0.1"))
        yield listener.socket.getsockname()[1], cut
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def browser() -> Iterator[str]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium: install one, or name it in CHROME")
    with chromium_process(program) as address:
        yield address


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "video.yaml"
    path.write_text(DEPLOYMENT)
    return path


@pytest.fixture
def one_place(tmp_path: Path) -> Path:
    """A deployment for one video at a time."""
    path = tmp_path / "small.yaml"
    path.write_text(DEPLOYMENT.replace("max_sessions: 3", "max_sessions: 1"))
    return path


@pytest.fixture(scope="module")
def server(deployment: Path) -> Iterator[ServedPort]:
    with server_process("--deploy", str(deployment), start_timeout_s=START_TIMEOUT_S) as running:
        yield running


@define
class Viewer:
    """A person at the page."""

    page: Page

    async def state(self, wanted: str) -> None:
        """Wait for a state of the page."""
        await self.page.until(f"document.body.dataset.state === '{wanted}'")

    async def choose(self, name: str, value: str) -> None:
        """Set a control of the page."""
        await self.page.run(
            f"(() => {{ const one = document.getElementById('{name}'); one.value = '{value}';"
            " one.dispatchEvent(new Event('input')); })()"
        )

    async def say(self, prompt: str) -> None:
        """Enter a prompt and send it."""
        await self.page.run("document.getElementById('prompt').focus()")
        await self.page.run("document.getElementById('prompt').select()")
        await self.page.type(prompt)
        await self.page.press("Enter")

    async def start(self, prompt: str = RED, *, until: str = "running", **settings: str) -> None:
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

    async def text(self, name: str) -> str:
        """What stands at a place of the page."""
        said: str = await self.page.run(f"document.getElementById('{name}').textContent")
        return said

    async def notice(self) -> str:
        """What the page has to say, once it has something to say."""
        await self.page.until("!document.getElementById('notice').hidden")
        return await self.text("notice")

    async def logged(self) -> list[tuple[str, str]]:
        """Every message that the log shows: its way and its type."""
        await self.choose("log-kind", "all")
        rows = await self.page.run(
            "[...document.querySelectorAll('#log-list li')].map((row) => [row.dataset.way, row.dataset.type])"
        )
        return [(way, type) for way, type in rows]


def file_bytes(path: Path) -> bytes:
    return path.read_bytes()


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_text().splitlines()]


@asynccontextmanager
async def visit(
    browser: str, port: int, *, quiet: bool = True, downloads: Path | None = None
) -> AsyncIterator[Viewer]:
    """Open the page. At the end nothing may have been complained of, unless it is not `quiet`."""
    async with open_page(browser, downloads=downloads) as page:
        await page.look(width=1280, height=860)
        await page.open(f"http://127.0.0.1:{port}/video")
        yield Viewer(page)
        await page.run("0")  # whatever was said before it has come by then
        assert not quiet or page.complaints == []


@pytest.fixture
async def viewer(browser: str, server: ServedPort, tmp_path: Path) -> AsyncIterator[Viewer]:
    async with visit(browser, server.port, downloads=tmp_path) as one:
        yield one


# ---------------------------------------------------------------------- a video as it should be


@pytest.mark.parametrize("format", ["m4s", "webm"])
async def test_it_plays_while_the_stream_runs(viewer: Viewer, format: str) -> None:
    await viewer.start(format=format)
    shown = await viewer.page.run(
        "new Promise((resolve) => { const times = []; const video = document.getElementById('video');"
        " const shown = (_, frame) => { times.push(frame.mediaTime);"
        " if (times.length < 12) video.requestVideoFrameCallback(shown);"
        " else resolve([times, document.body.dataset.state]); };"
        " video.requestVideoFrameCallback(shown); })"
    )
    times, state = shown
    assert state == "running"
    assert times == sorted(times)
    assert len(set(times)) >= 10
    assert await viewer.text("status") in ("Playing", "Waiting for pictures…")
    assert await viewer.text("model") == "scripted_video"
    await viewer.colour("r > 150 && g < 100 && b < 100")


async def test_the_picture_changes_after_an_update(viewer: Viewer) -> None:
    await viewer.start()
    await viewer.colour("r > 150 && b < 100")
    await viewer.choose("transition", "0")
    await viewer.say("blue")
    await viewer.colour("r < 100 && b > 150")
    await viewer.newest("completed")
    (update, first) = await viewer.prompts()
    assert update[:2] == ["blue", "completed"]
    assert "seen after" in update[2]
    assert first[0] == RED
    assert await viewer.text("caption") == "blue"
    for figure in ("f-ack", "f-picture", "f-interval"):
        assert (await viewer.text(figure)).endswith((" ms", " s"))
    assert (await viewer.text("f-fps")).endswith(" fps")


async def test_a_transition_is_seen_on_its_way(viewer: Viewer) -> None:
    await viewer.start("black")
    await viewer.choose("transition", "5")
    assert await viewer.text("transition-said") == "5 chunks · 2.8 s"
    await viewer.say("white")
    await viewer.newest("active")
    await viewer.colour("90 < r && r < 165 && 90 < g && g < 165 && 90 < b && b < 165")
    await viewer.newest("completed")
    await viewer.colour("r > 235 && g > 235 && b > 235")


async def test_a_suggestion_is_sent_by_a_click(viewer: Viewer) -> None:
    await viewer.start()
    said = await viewer.page.run("document.querySelector('#chips button').textContent")
    await viewer.page.click("#chips button")
    await viewer.newest("active")
    assert (await viewer.prompts())[0][0] == said


async def test_stop_ends_it_and_the_log_holds_all(viewer: Viewer) -> None:
    await viewer.start()
    await viewer.say("green")
    await viewer.newest("active")
    await viewer.page.click("#stop")
    await viewer.state("done")
    assert await viewer.text("status") == "Stopped"
    await viewer.page.until("document.getElementById('video').ended")
    logged = await viewer.logged()
    assert logged[:2] == [("out", "session.start"), ("in", "video.start")]
    assert logged[-1] == ("in", "session.done")
    assert logged.index(("out", "session.interaction")) < logged.index(("in", "session.interaction.queued"))
    assert ("out", "session.stop") in logged
    assert logged.count(("in", "video.chunk_metadata")) >= 2
    await viewer.choose("log-kind", "interactions")
    few = await viewer.page.run(
        "[...document.querySelectorAll('#log-list li')].map((row) => row.dataset.type)"
    )
    assert "session.interaction" in few
    assert "session.start" not in few
    await viewer.choose("log-words", "nothing says this")
    assert await viewer.page.run("document.querySelectorAll('#log-list li').length") == 0


async def test_a_message_shows_its_json(viewer: Viewer) -> None:
    await viewer.start()
    await viewer.page.run("document.getElementById('log').open = true")
    await viewer.page.click("#log-list li summary")
    await viewer.page.until("document.querySelector('#log-list li pre')")
    shown = orjson.loads(await viewer.page.run("document.querySelector('#log-list li pre').textContent"))
    assert (shown["type"], shown["prompt"], shown["size"]) == ("session.start", RED, "256x256")


async def test_a_video_of_a_length_ends_by_itself_and_is_saved(viewer: Viewer, tmp_path: Path) -> None:
    await viewer.start(seconds="5", lead="", seed="11", until="done")
    assert await viewer.text("status") == "Finished"
    await viewer.page.click("#save")
    await viewer.page.saved()
    clip = file_bytes(tmp_path / "red-11.mp4")
    frames = decode_frames(clip)
    assert len(frames) == 80
    assert frames[0].shape == (256, 256, 3)
    await viewer.page.run("document.getElementById('log').open = true")
    await viewer.page.click("#log-export")
    await viewer.page.saved(2)
    lines = json_lines(tmp_path / "video-messages.jsonl")
    pairs = [line["message"] for line in lines if line["message"]["type"] == "video.chunk_metadata"]
    assert sum(pair["num_frames"] for pair in pairs) == 80
    assert sum(pair["byte_length"] for pair in pairs) == len(clip)
    assert lines[-1]["message"]["chunks"] == len(pairs)


async def test_what_was_seen_can_be_seen_again(viewer: Viewer) -> None:
    await viewer.start(seconds="5", lead="", until="done")
    await viewer.page.run("document.getElementById('video').currentTime = 4.5")
    await viewer.page.until("document.getElementById('video').ended")
    await viewer.page.click("#play")
    await viewer.page.until(
        "(({ currentTime, duration }) => currentTime > 0 && currentTime < 4 && Math.abs(duration - 5) < 0.1)"
        "(document.getElementById('video'))"
    )


async def test_another_video_follows(viewer: Viewer) -> None:
    await viewer.start("red")
    await viewer.played(0.2)
    await viewer.page.click("#stop")
    await viewer.state("done")
    await viewer.start("green")
    await viewer.colour("r < 100 && g > 150 && b < 100")
    assert [row[0] for row in await viewer.prompts()] == ["green"]


async def test_a_pause_holds_the_video_and_its_generation(viewer: Viewer) -> None:
    await viewer.start(lead="0.25")
    await viewer.played(0.7)
    await viewer.page.click("#play")
    await viewer.page.until("document.getElementById('status').textContent === 'Paused'")
    at = await viewer.page.run("document.getElementById('video').currentTime")
    await viewer.page.click("#play")
    await viewer.page.until(f"document.getElementById('video').currentTime > {at} + 0.5")
    # What was generated meanwhile is at most the second that the server takes playback to go on, and the lead.
    assert float((await viewer.text("f-buffered")).removesuffix(" s")) < 3


async def test_the_browser_holds_a_bounded_part_of_a_long_video(viewer: Viewer) -> None:
    await viewer.start(seconds="60", lead="", size="256x256", until="done")
    held: list[float] = []
    for second in range(6, 60, 6):
        await viewer.page.run(f"document.getElementById('video').currentTime = {second}")
        await viewer.played(second)
        held.append(float(await viewer.page.run("document.body.dataset.heldS")))
    assert 5 < max(held) < 8 + 4 + 20 + 1.5
    await viewer.page.run("document.getElementById('video').currentTime = 59.5")
    await viewer.page.until("document.getElementById('video').ended")


async def test_prompts_can_be_sent_by_the_keyboard_alone(viewer: Viewer) -> None:
    await viewer.start()
    assert await viewer.page.run("document.activeElement.id") == "prompt"
    await viewer.page.type("yellow")
    for wanted in ("go", "stop", "transition"):
        await viewer.page.press("Tab")
        assert await viewer.page.run("document.activeElement.id") == wanted
    before = await viewer.page.run("document.getElementById('transition').value")
    await viewer.page.press("ArrowRight")
    after = await viewer.page.run("document.getElementById('transition')")
    assert after is not None
    assert int(await viewer.page.run("document.getElementById('transition').value")) == int(before) + 1
    await viewer.page.run("document.getElementById('prompt').focus()")
    await viewer.page.press("Enter")
    await viewer.newest("active")
    assert (await viewer.prompts())[0][0] == "yellow"


async def test_a_phone_needs_no_sideways_scrolling(viewer: Viewer) -> None:
    await viewer.page.look(width=360, height=740, scale=2, dark=True)
    await viewer.start()
    await viewer.played(0.1)
    assert await viewer.page.run("document.documentElement.scrollWidth") == 360


# ---------------------------------------------------------------------- when things go wrong


async def test_a_prompt_that_the_model_refuses_is_told_and_the_video_goes_on(viewer: Viewer) -> None:
    await viewer.start()
    await viewer.say("impossible")
    await viewer.newest("failed")
    notice = await viewer.notice()
    assert "A prompt was not taken" in notice
    assert "cannot do 'impossible'" in notice
    await viewer.choose("transition", "0")
    await viewer.say("blue")
    await viewer.colour("b > 150 && r < 100")
    assert await viewer.page.run("document.body.dataset.state") == "running"


async def test_newer_prompts_supersede(viewer: Viewer) -> None:
    await viewer.start()
    await viewer.choose("transition", "0")
    await viewer.page.run(
        "for (const prompt of ['green', 'blue']) { document.getElementById('prompt').value = prompt;"
        " document.getElementById('composer').requestSubmit(); }"
    )
    await viewer.newest("completed")
    states = {row[0]: row[1] for row in await viewer.prompts()}
    assert states["blue"] == "completed"
    assert states["green"] in ("superseded", "completed")  # the second where a boundary lay between the two


async def test_a_start_that_cannot_be_is_told(viewer: Viewer) -> None:
    await viewer.page.run("document.getElementById('size').append(new Option('63x64'))")
    await viewer.start(size="63x64", until="failed")
    assert "can't make this video" in await viewer.notice()
    assert await viewer.page.run("document.getElementById('prompt').value") == RED
    await viewer.start()


async def test_a_wrong_seed_is_shown_at_its_field(viewer: Viewer) -> None:
    await viewer.start(seed="-1", until="idle")
    assert await viewer.page.run("document.activeElement.id") == "seed"


async def test_a_server_that_is_full_says_so(browser: str, one_place: Path, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, deploy=str(one_place)) as running,
        visit(browser, running.port) as first,
        visit(browser, running.port) as second,
    ):
        await first.start()
        await second.start(until="failed")
        assert "All places are taken" in await second.notice()
        await first.page.click("#stop")
        await first.state("done")
        await second.start()


async def test_a_key_is_asked_for_and_handed_over(browser: str, deployment: Path, tmp_path: Path) -> None:
    key = "sk-a_b.c-1"
    async with (
        serve_command(tmp_path, "--api-key", key, deploy=str(deployment)) as running,
        visit(browser, running.port, quiet=False) as viewer,
    ):
        await viewer.start(until="failed")
        assert "needs an API key" in await viewer.notice()
        assert await viewer.page.run("document.activeElement.id") == "key"
        await viewer.start(key="sk-wrong", until="failed")
        await viewer.page.until("document.getElementById('notice-title').textContent.includes('is wrong')")
        await viewer.start(key="with spaces", until="failed")
        await viewer.page.until("document.getElementById('notice-title').textContent.includes('used')")
        # The refusals themselves are the browser's to tell; nothing else is.
        assert {complaint.kind for complaint in viewer.page.complaints} == {"network"}
        await viewer.start(key=key)
        await viewer.played(0.1)
        assert key in await viewer.page.run("JSON.stringify(sessionStorage)")
        assert await viewer.page.run("localStorage.length + document.cookie.length") == 0
        assert key not in await viewer.page.run("location.href")


async def test_a_lost_connection_is_told_and_what_came_is_kept(browser: str, server: ServedPort) -> None:
    async with relay(server.port) as (port, cut), visit(browser, port, quiet=False) as viewer:
        await viewer.start()
        await viewer.played(0.3)
        cut()
        await viewer.state("failed")
        assert "connection was lost" in await viewer.notice()
        assert await viewer.text("status") == "The connection was lost"
        assert not await viewer.page.run("document.getElementById('save').disabled")
        await viewer.start("green")
        await viewer.colour("g > 150 && r < 100")


async def test_a_server_that_is_gone_is_told(browser: str, server: ServedPort) -> None:
    async with relay(server.port) as (port, _), visit(browser, port, quiet=False) as viewer:
        await viewer.page.run("fetch = () => Promise.reject(new TypeError('gone'))")
        await viewer.page.call("Network.enable")
        await viewer.page.call("Network.setBlockedURLs", urls=["*realtime*"])
        await viewer.page.call(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )
        await viewer.say(RED)
        await viewer.state("failed")
        assert "can't be reached" in await viewer.notice()


async def test_a_server_that_shuts_down_is_told(browser: str, deployment: Path, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, "--drain-timeout", "0.2", deploy=str(deployment)) as running,
        visit(browser, running.port, quiet=False) as viewer,
    ):
        await viewer.start()
        await viewer.played(0.2)
        running.signal(signal.SIGTERM)
        await viewer.state("failed")
        assert "shutting down" in await viewer.notice()


async def test_a_closed_tab_frees_its_place(browser: str, one_place: Path, tmp_path: Path) -> None:
    async with serve_command(tmp_path, deploy=str(one_place)) as running:
        for _ in range(2):
            async with visit(browser, running.port) as viewer:
                await viewer.start()
            with trio.fail_after(60):
                while (await running.ask("GET", "/health"))[1]["video"]["videos"]:
                    pass


# ---------------------------------------------------------------------- with a model that has something to show


@pytest.mark.models
async def test_the_scene_model_is_steered(browser: str, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, deploy="scene") as running,
        visit(browser, running.port) as viewer,
    ):
        await viewer.start("a bright tropical beach at noon", size="256x256")
        await viewer.played(0.5)
        noon = await viewer.page.run(BRIGHTNESS)
        await viewer.choose("transition", "0")
        await viewer.say("a dark forest at midnight")
        await viewer.newest("completed")
        await viewer.page.until(f"({BRIGHTNESS}) < {noon} * 0.75")
        assert (await viewer.text("f-picture")).endswith((" ms", " s"))
        await viewer.page.click("#stop")
        await viewer.state("done")
