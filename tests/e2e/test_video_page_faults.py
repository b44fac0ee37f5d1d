"""The page at `/video` in a real browser when things go wrong: what people are told, and how they go on."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.plugin.video.plugin import VideoModelPlugin
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.serve_command import serve_command
from duplex_trio.testing.server_process import ServedPort
from duplex_trio.testing.video_viewer import Viewer, visit

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RED = "red"


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


async def test_a_model_whose_prompt_cannot_be_changed_says_so(
    browser: str, tmp_path: Path, fixed_prompt: Path
) -> None:
    async with (
        serve_command(tmp_path, deploy=str(fixed_prompt)) as running,
        visit(browser, running.port) as viewer,
    ):
        await viewer.start()
        assert "can't be changed" in await viewer.text("prompt-label")
        disabled = "['prompt', 'go', 'stop'].map((name) => document.getElementById(name).disabled)"
        assert await viewer.page.run(disabled) == [True, True, False]
        await viewer.page.click("#stop")
        await viewer.state("done")
        assert await viewer.page.run(disabled) == [False, False, True]


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


async def test_a_key_is_asked_for_and_handed_over(
    browser: str, video_deployment: Path, tmp_path: Path
) -> None:
    key = "sk-a_b.c-1"
    async with (
        serve_command(tmp_path, "--api-key", key, deploy=str(video_deployment)) as running,
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


async def test_a_lost_connection_is_told_and_what_came_is_kept(
    browser: str, video_server: ServedPort
) -> None:
    async with relay(video_server.port) as (port, cut), visit(browser, port, quiet=False) as viewer:
        await viewer.start()
        await viewer.played(0.3)
        cut()
        await viewer.state("failed")
        assert "connection was lost" in await viewer.notice()
        assert await viewer.text("status") == "The connection was lost"
        assert not await viewer.page.run("document.getElementById('save').disabled")
        await viewer.start("green")
        await viewer.colour("g > 150 && r < 100")


async def test_a_server_that_is_gone_is_told(browser: str, video_server: ServedPort) -> None:
    async with relay(video_server.port) as (port, _), visit(browser, port, quiet=False) as viewer:
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


async def test_a_server_that_shuts_down_is_told(browser: str, video_deployment: Path, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, "--drain-timeout", "0.2", deploy=str(video_deployment)) as running,
        visit(browser, running.port, quiet=False) as viewer,
    ):
        await viewer.start()
        await viewer.played(0.2)
        running.signal(signal.SIGTERM)
        await viewer.state("failed")
        assert "shutting down" in await viewer.notice()


async def test_a_video_that_cannot_be_shown_keeps_no_place(
    browser: str, one_place: Path, tmp_path: Path
) -> None:
    async with (
        serve_command(tmp_path, deploy=str(one_place)) as running,
        visit(browser, running.port, quiet=False) as viewer,
    ):
        await viewer.start()
        await viewer.played(0.1)
        await viewer.page.run("document.getElementById('video').dispatchEvent(new Event('error'))")
        await viewer.state("failed")
        assert "can't be shown" in await viewer.notice()
        with trio.fail_after(60):
            while (await running.ask("GET", "/health"))[1]["video"]["videos"]:
                pass
        assert await viewer.text("status") == "The video can't be shown"
        await viewer.start("green")


async def test_a_model_that_still_loads_is_waited_for(browser: str, nursery: trio.Nursery) -> None:
    loading, gate = trio.Event(), trio.Event()

    class Loading(ScriptedVideoPipeline):
        def build_video_plugin(self) -> VideoModelPlugin:
            plugin = super().build_video_plugin()
            plugin.load = self.load  # type: ignore[method-assign]
            return plugin

        def load(self) -> None:
            trio.from_thread.run_sync(loading.set)
            trio.from_thread.run(gate.wait)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    await listener.aclose()
    make = partial(VideoOmni, Loading(), warm_up=False)
    nursery.start_soon(partial(run_server, make, ServeOptions(port=port)))
    await loading.wait()
    async with visit(browser, port, quiet=False) as viewer:
        await viewer.state("loading")
        assert await viewer.text("status") == "The model is loading…"
        await viewer.say(RED)
        assert await viewer.page.run("document.body.dataset.state") == "loading"
        gate.set()
        await viewer.state("idle")
        # The status of /health is the browser's to tell; nothing else is.
        assert {complaint.kind for complaint in viewer.page.complaints} == {"network"}
        await viewer.say(RED)
        await viewer.played(0.1)


async def test_a_closed_tab_frees_its_place(browser: str, one_place: Path, tmp_path: Path) -> None:
    async with serve_command(tmp_path, deploy=str(one_place)) as running:
        for _ in range(2):
            async with visit(browser, running.port) as viewer:
                await viewer.start()
            with trio.fail_after(60):
                while (await running.ask("GET", "/health"))[1]["video"]["videos"]:
                    pass
