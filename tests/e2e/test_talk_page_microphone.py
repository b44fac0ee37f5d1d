"""The page at `/` with a microphone: held to talk, switched off and on, and one that is not to be had."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from duplex_trio.protocol.duplex.audio import write_wav
from duplex_trio.testing.browser import chromium_process, find_chromium
from duplex_trio.testing.server_process import ServedPort
from duplex_trio.testing.talk_visitor import Visitor, visit_talk

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RATE_HZ = 48_000
ROWS = "[...document.querySelectorAll('#log-list li')]"
SENT = f"""{ROWS}.filter((row) => row.dataset.type === 'input_audio_buffer.append')
  .reduce((sum, row) => sum + Number(row.querySelector('.log-note').textContent.slice(2) || 1), 0)"""
"""Pieces of sound that went out so far."""


@pytest.fixture(scope="module")
def humming_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A browser whose microphone hears somebody hum for a minute."""
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium: install one, or name it in CHROME")
    wav = tmp_path_factory.mktemp("microphone") / "hum.wav"
    time_s = np.arange(60 * RATE_HZ) / RATE_HZ
    voice = sum(np.sin(2 * np.pi * 140 * harmonic * time_s) / harmonic for harmonic in range(1, 8))
    swell = 0.5 + 0.5 * np.sin(2 * np.pi * 3 * time_s)
    write_wav(wav, [(0.15 * voice * swell).astype(np.float32)], RATE_HZ)
    with chromium_process(program, microphone=wav) as address:
        yield address


@pytest.fixture
async def hummer(humming_browser: str, talk_server: ServedPort) -> AsyncIterator[Visitor]:
    async with visit_talk(humming_browser, talk_server.port) as one:
        await one.choose("log-kind", "all")
        yield one


@asynccontextmanager
async def held(visitor: Visitor, how: str) -> AsyncIterator[None]:
    """Hold the button, or the space bar."""
    x, y = await visitor.page.run(
        "(({ x, y, width, height }) => [x + width / 2, y + height / 2])"
        "(document.getElementById('talk').getBoundingClientRect())"
    )

    async def go(down: bool) -> None:
        about: dict[str, Any]
        if how == "mouse":
            about = {"x": x, "y": y, "button": "left", "clickCount": 1}
            kind = "mousePressed" if down else "mouseReleased"
            await visitor.page.call("Input.dispatchMouseEvent", type=kind, **about)
        else:
            about = {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32}
            await visitor.page.call("Input.dispatchKeyEvent", type="keyDown" if down else "keyUp", **about)

    await go(True)
    yield
    await go(False)


async def ready_to_hold(visitor: Visitor) -> None:
    await visitor.choose("turns-mode", "hold")
    await visitor.page.click("#talk")
    await visitor.page.until("document.getElementById('say').textContent === 'Hold to talk'")
    assert await visitor.text("talk-label") == "Hold to talk"
    assert await visitor.page.run("document.getElementById('hold-key').checkVisibility()")


@pytest.mark.parametrize("how", ["mouse", "space"])
async def test_it_listens_while_it_is_held_and_answers_then(hummer: Visitor, how: str) -> None:
    await ready_to_hold(hummer)
    before = await hummer.page.run(SENT)
    if how == "space":
        await hummer.page.run("document.activeElement.blur()")
    async with held(hummer, how):
        await hummer.page.until("document.getElementById('talk').dataset.held === 'true'")
        await hummer.page.until("document.getElementById('status').textContent === 'You speak'")
        await hummer.page.until(f"{SENT} > {before} + 25")
    await hummer.said("sound of ")
    await hummer.heard("You said: sound of ")
    assert await hummer.page.run("document.getElementById('talk').dataset.held") == "false"
    types = [kind for way, kind in await hummer.logged() if way == "out"]
    assert types.index("input_audio_buffer.commit") < types.index("response.create")
    after = await hummer.page.run(SENT)
    await hummer.state("listening")
    assert await hummer.page.run(SENT) == after  # nothing is sent that is not held
    updated = (await hummer.last_json("session.updated"))["session"]
    assert updated["audio"]["input"]["turn_detection"] is None


async def test_a_slip_is_no_turn(hummer: Visitor) -> None:
    await ready_to_hold(hummer)
    await hummer.page.run(  # in one go, however busy the machine is
        "for (const kind of ['keydown', 'keyup'])"
        " document.body.dispatchEvent(new KeyboardEvent(kind, { key: ' ', bubbles: true }))"
    )
    await hummer.page.until(f"{ROWS}.some((row) => row.dataset.type === 'input_audio_buffer.cleared')")
    assert "response.create" not in [kind for _, kind in await hummer.logged()]
    assert await hummer.turns() == []


async def test_the_microphone_is_switched_off_and_on(hummer: Visitor) -> None:
    await hummer.page.click("#talk")
    await hummer.page.until("document.getElementById('talk').getAttribute('aria-pressed') === 'true'")
    assert await hummer.text("talk-label") == "Microphone"
    await hummer.page.press("m", code=77)
    await hummer.page.until("document.getElementById('talk').dataset.mic === 'off'")
    assert await hummer.page.run("document.getElementById('talk').getAttribute('aria-pressed')") == "false"
    await hummer.page.click("#talk")
    await hummer.page.until("document.getElementById('talk').dataset.mic === 'on'")


async def test_devices_can_be_chosen_once_they_have_names(hummer: Visitor) -> None:
    await hummer.page.click("#talk")
    names = await hummer.page.until(
        "(([...all]) => all.length > 1 && all.map((one) => one.textContent))(document.getElementById('input').options)"
    )
    assert names[0] == "Default"
    assert all("fake" in name.lower() for name in names[1:])
    chosen = await hummer.page.run("document.getElementById('input').options[1].value")
    before = await hummer.page.run(SENT)
    await hummer.choose("input", chosen)
    await hummer.page.until(f"{SENT} > {before} + 25")


async def test_without_a_microphone_people_write(visitor: Visitor) -> None:
    await visitor.page.click("#talk")
    assert "No microphone was found" in await visitor.notice()
    await visitor.page.until("document.getElementById('say').textContent === 'Write to it'")
    await visitor.write("then I write")
    await visitor.heard("then I write")


async def test_a_microphone_that_is_refused_is_explained(visitor: Visitor) -> None:
    await visitor.page.run(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'))"
    )
    await visitor.page.click("#talk")
    assert "isn't allowed" in await visitor.notice()
    await visitor.page.click("#notice-close")
    assert await visitor.page.run("document.getElementById('notice').hidden")


SLOW_TO_ALLOW = """(() => {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  window.tracks = [];
  window.allow = [];
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    await new Promise((resolve) => window.allow.push(resolve));
    const stream = await ask(wanted);
    window.tracks.push(...stream.getTracks());
    return stream;
  };
})()"""
"""Somebody takes time to allow the microphone: `allow` has what lets each question be answered."""
LIVE = "tracks.filter((track) => track.readyState === 'live').length"


async def test_who_presses_again_while_the_browser_asks_has_one_microphone(hummer: Visitor) -> None:
    await hummer.page.run(SLOW_TO_ALLOW)
    await hummer.page.click("#talk")
    await hummer.page.until("document.getElementById('say').textContent === 'Allow the microphone'")
    await hummer.page.click("#talk")
    await hummer.page.press("m", code=77)
    await hummer.page.run("allow.splice(0).forEach((one) => one())")
    await hummer.page.until("document.getElementById('talk').getAttribute('aria-pressed') === 'true'")
    assert await hummer.page.run(LIVE) == 1
    # Two devices, one chosen after the other before either is there: the last one stays, alone.
    change = "document.getElementById('input').dispatchEvent(new Event('change'))"
    await hummer.page.run(f"{change}; {change}; allow.reverse().splice(0).forEach((one) => one())")
    await hummer.page.until(f"tracks.length === 3 && {LIVE} === 1")
    await hummer.page.click("#end")
    await hummer.page.until(f"{LIVE} === 0")


async def test_who_is_muted_stays_muted(hummer: Visitor) -> None:
    await hummer.page.click("#talk")
    await hummer.page.until("document.getElementById('talk').getAttribute('aria-pressed') === 'true'")
    await hummer.page.press("m", code=77)
    await hummer.page.until("document.getElementById('talk').dataset.mic === 'off'")
    await hummer.choose("turns-mode", "semantic_vad")
    await hummer.page.run(
        "(() => { const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);"
        " navigator.mediaDevices.getUserMedia = async (wanted) => {"
        " const stream = await ask(wanted); setTimeout(() => (window.another = true), 100); return stream; };"
        " document.getElementById('input').dispatchEvent(new Event('change')); })()"
    )
    await hummer.page.until("window.another")
    assert await hummer.page.run("document.getElementById('talk').dataset.mic") == "off"


async def test_a_microphone_that_is_back_is_not_called_gone(hummer: Visitor) -> None:
    await hummer.page.run(SLOW_TO_ALLOW)
    on = "document.getElementById('talk').getAttribute('aria-pressed') === 'true'"
    await hummer.page.click("#talk")
    await hummer.page.until("allow.length && allow.splice(0).map((one) => one()).length")
    await hummer.page.until(on)
    await hummer.page.run("tracks[0].dispatchEvent(new Event('ended'))")
    assert "The microphone is gone" in await hummer.notice()
    await hummer.page.click("#talk")
    await hummer.page.until("allow.length && allow.splice(0).map((one) => one()).length")
    await hummer.page.until(f"{on} && document.getElementById('notice').hidden")
