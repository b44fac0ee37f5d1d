"""The page at `/video` in a real browser with a real server: what people do there, and what they see."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from duplex_trio.testing.serve_command import serve_command
from duplex_trio.testing.video_frames import decode_frames
from duplex_trio.testing.video_viewer import Viewer, visit

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RED = "red"


def file_bytes(path: Path) -> bytes:
    return path.read_bytes()


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_text().splitlines()]


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
    await viewer.page.until("document.getElementById('status').textContent === 'Playing'")
    assert await viewer.text("model") == "scripted_video"
    await viewer.colour("r > 150 && g < 100 && b < 100")


async def test_the_picture_changes_after_an_update(viewer: Viewer) -> None:
    await viewer.start()
    await viewer.colour("r > 150 && b < 100")
    await viewer.choose("transition", "0")
    await viewer.say("blue")
    await viewer.colour("r < 100 && b > 150")
    await viewer.newest("completed")
    await viewer.page.until("document.querySelector('#prompts .facts').textContent.includes('seen after')")
    (update, first) = await viewer.prompts()
    assert update[:2] == ["blue", "completed"]
    assert update[2].startswith("taken after ")
    assert first[0] == RED
    assert await viewer.text("caption") == "blue"
    assert await viewer.text("news") == "Now on screen: blue"
    for figure in ("f-ack", "f-picture", "f-interval"):
        assert (await viewer.text(figure)).endswith((" ms", " s"))
    assert (await viewer.text("f-fps")).endswith(" fps")


async def test_a_transition_is_seen_on_its_way(viewer: Viewer) -> None:
    await viewer.start("black")
    await viewer.choose("transition", "5")
    assert await viewer.text("transition-said") == "5 chunks · 2.8 s"
    await viewer.say("white")
    await viewer.newest("active")
    said = (await viewer.last_json("session.interaction"))["interaction"]
    assert (said["event"], said["transition_chunks"]) == ({"prompt": "white"}, 5)
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
    assert await viewer.last_json("session.playback") == {
        "type": "session.playback",
        "position_seconds": pytest.approx(at, abs=0.001),  # the server generates no further ahead of it
    }
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


async def test_a_browser_that_is_full_is_given_no_more_than_it_takes(viewer: Viewer) -> None:
    await viewer.page.run(
        "(() => { const append = SourceBuffer.prototype.appendBuffer; window.refusals = 0;"
        " SourceBuffer.prototype.appendBuffer = function (data) {"
        " const room = this.buffered.length ? this.buffered.end(0) - this.buffered.start(0) : 0;"
        " if (room < 3) return append.call(this, data);"
        " window.refusals += 1; throw new DOMException('full', 'QuotaExceededError'); }; })()"
    )
    await viewer.start(seconds="10", lead="", until="done")
    for second in (2, 4, 6, 8, 9.5):
        await viewer.played(second - 1)
        await viewer.page.run(
            "(() => { const { buffered } = document.getElementById('video');"
            f" document.getElementById('video').currentTime = Math.min({second}, buffered.end(0) - 0.1); }})()"
        )
    await viewer.page.until("document.getElementById('video').ended")
    assert await viewer.page.run("window.refusals") > 0


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


@pytest.mark.models
async def test_the_scene_model_is_steered(browser: str, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, deploy="scene") as running,
        visit(browser, running.port) as viewer,
    ):
        await viewer.start("a bright tropical beach at noon", size="256x256")
        await viewer.played(0.5)
        noon = await viewer.brightness()
        await viewer.choose("transition", "0")
        await viewer.say("a dark forest at midnight")
        await viewer.newest("completed")
        await viewer.brightness(f"now < {noon} * 0.75")
        await viewer.page.until("/ m?s$/.test(document.getElementById('f-picture').textContent)")
        await viewer.page.click("#stop")
        await viewer.state("done")
