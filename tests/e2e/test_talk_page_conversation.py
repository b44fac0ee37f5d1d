"""Spoken conversations at the page `/`, in a real browser whose microphone hears recorded speech."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
from attrs import Factory, define

from duplex_trio.cli.talk.command import SAMPLES
from duplex_trio.clients.files import load_wav
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex.audio import write_wav
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.browser import Page, chromium_process, find_chromium, open_page
from duplex_trio.testing.server_process import ServedPort
from duplex_trio.testing.tap.reading import TappedConnection
from duplex_trio.testing.tap.run import WireTap

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RATE_HZ = 48_000
BREAKFAST, MOON = (load_wav(path, RATE_HZ) for path in sorted(SAMPLES.glob("*.wav")))
ANSWER = "A good breakfast has something warm and something fresh and enough time to enjoy both of them"


def silence(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.zeros(int(seconds * RATE_HZ), np.float32)


@pytest.fixture(scope="module")
def hearing_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A browser whose microphone hears the first sample, 3.5 s of silence, the second sample, and nothing more."""
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium: install one, or name it in CHROME")
    wav = tmp_path_factory.mktemp("microphone") / "speech.wav"
    write_wav(wav, [np.concatenate([silence(0.3), BREAKFAST, silence(3.5), MOON, silence(60)])], RATE_HZ)
    with chromium_process(program, microphone=wav) as address:
        yield address


def script(**changes: Any) -> Script:
    return Script(otherwise=lambda _: ANSWER, word_ms=300, **changes)


@define(eq=False)
class Line:
    """The way from the browser to the server, which can be cut, and what passed there."""

    tap: WireTap
    port: int = 0
    _scopes: list[trio.CancelScope] = Factory(list)

    async def relay(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            await self.tap.relay(client)

    @property
    def sockets(self) -> list[TappedConnection]:
        """Its WebSockets, in their order."""
        return [one for one in self.tap.connections if "websocket" in one.request.lower()]

    def cut(self) -> None:
        """Break the connection of the session, as a network does."""
        self._scopes[self.tap.connections.index(self.sockets[-1])].cancel()

    def said(self, kind: str) -> list[Mapping[str, Any]]:
        """What the page said, of a type, over all connections."""
        return [event for one in self.sockets for event in one.events("client") if event["type"] == kind]

    def heard(self) -> list[Mapping[str, Any]]:
        """What the server said over all connections."""
        return [event for one in self.sockets for event in one.events("server")]


def commands(connection: TappedConnection) -> list[str]:
    """Ids of what the page said that a session counts."""
    uncounted = ("session.heartbeat", "session.event_ack", "session.resume", "session.update")
    return [event["event_id"] for event in connection.events("client") if event["type"] not in uncounted]


@define
class Talk:
    """Somebody at the page."""

    page: Page
    line: Line

    async def state(self, *wanted: str) -> None:
        await self.page.until(f"{list(wanted)}.includes(document.body.dataset.state)")

    async def turns(self) -> list[str]:
        """What stands in the transcript, one turn after the other, as it is read."""
        found: list[str] = await self.page.run(
            "[...document.querySelectorAll('#turns > li')].map((row) => row.innerText.replace(/\\s+/g, ' ').trim())"
        )
        return found

    async def text(self, name: str) -> str:
        said: str = await self.page.run(f"document.getElementById('{name}').textContent")
        return said

    async def reads(self, words: str) -> None:
        """Wait until something stands in the transcript."""
        await self.page.until(f"document.getElementById('turns').textContent.includes({words!r})")

    async def until_said(self, kind: str, count: int = 1) -> None:
        with trio.fail_after(30):
            while len([event for event in self.line.heard() if event["type"] == kind]) < count:
                await self.line.tap.wait_passed()


@asynccontextmanager
async def at_the_page(browser: str, *, script: Script, **options: Any) -> AsyncIterator[Talk]:
    async with trio.open_nursery() as nursery:
        factory = partial(DuplexOmni, ScriptedPipeline(script=script), warm_up=False)
        address = await nursery.start(partial(run_server, factory, ServeOptions(port=0, **options)))
        async with through(browser, int(address.http_url.rsplit(":", 1)[1]), nursery) as talk:
            yield talk
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def through(browser: str, port: int, nursery: trio.Nursery) -> AsyncIterator[Talk]:
    line = Line(WireTap(port))
    (listener,) = await nursery.start(partial(trio.serve_tcp, line.relay, 0, host="127.0.0.1"))
    async with open_page(browser) as page:
        await page.look(width=1280, height=860)
        await page.open(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/")
        talk = Talk(page, line)
        await talk.state("idle")
        yield talk
        await page.run("0")
        assert page.complaints == []


async def test_a_spoken_turn_is_heard_and_answered(hearing_browser: str) -> None:
    async with at_the_page(hearing_browser, script=script(heard=["What is a good breakfast?"] * 9)) as talk:
        await talk.page.click("#talk")
        await talk.state("hearing")
        await talk.state("speaking")
        await talk.page.until("document.getElementById('turns').textContent.includes('something warm')")
        question, answer = (await talk.turns())[:2]
        assert "What is a good breakfast?" in question
        assert "something warm" in answer
        # What is still to be heard is told apart from what was.
        ahead = await talk.page.run(
            "document.querySelector('#turns [data-who=model] .ahead')?.textContent ?? ''"
        )
        assert ahead
        assert ANSWER.endswith(ahead.split()[-1]) or ahead.split()[-1] in ANSWER
        assert (await talk.text("l-sound")).endswith("ms")
        assert (await talk.text("l-token")).endswith("ms")
        acks = talk.line.said("playback.ack")
        assert acks[0]["played_ms"] < 400
        played = [ack["played_ms"] for ack in acks]
        assert played == sorted(played)
        await talk.page.click("#end")
        await talk.state("idle")
        with trio.fail_after(10):
            while not talk.line.said("session.close"):
                await talk.line.tap.wait_passed()


async def test_speech_interrupts_an_answer(hearing_browser: str) -> None:
    async with at_the_page(hearing_browser, script=script(heard=["tell me"] * 9)) as talk:
        await talk.page.click("#talk")
        await talk.state("speaking")
        await talk.until_said("output_audio_buffer.cleared")
        await talk.page.until(
            "document.querySelector('#turns [data-state=interrupted], #turns .interrupted') !== null"
        )
        done = next(event for event in talk.line.heard() if event["type"] == "response.done")
        assert done["response"]["status"] == "cancelled"
        spoken = done["response"]["id"]
        await talk.page.until("document.getElementById('l-silence').textContent.endsWith('ms')")
        # The server keeps what was heard: the last acknowledgement is of less than what was sent.
        acks = [a["played_ms"] for a in talk.line.said("playback.ack") if a["response_id"] == spoken]
        sent_ms = sum(
            len(event["delta"]) * 3 / 4 / 48
            for event in talk.line.heard()
            if event["type"] == "response.output_audio.delta" and event["response_id"] == spoken
        )
        assert 1000 < acks[-1] < sent_ms
        await talk.until_said("response.created", 2)
        await talk.state("speaking")


async def test_escape_interrupts_an_answer(hearing_browser: str) -> None:
    async with at_the_page(hearing_browser, script=script(heard=["tell me"] * 9)) as talk:
        await talk.page.click("#talk")
        await talk.state("speaking")
        await talk.reads("something")
        await talk.page.press("Escape")
        await talk.until_said("output_audio_buffer.cleared")
        assert len(talk.line.said("barge_in")) == 1
        await talk.state("listening", "hearing")


async def test_a_lost_connection_is_resumed_and_nothing_is_missed(hearing_browser: str) -> None:
    async with at_the_page(hearing_browser, script=script(heard=["tell me"] * 9)) as talk:
        await talk.page.click("#talk")
        await talk.state("speaking")
        await talk.reads("A good")
        talk.line.cut()
        await talk.state("away")
        assert await talk.text("banner-title") == "Connection lost"
        await talk.page.until("document.getElementById('banner-title').textContent === 'Connected again'")
        assert len(talk.line.sockets) == 2
        await talk.until_said("response.done")
        # Each numbered event came to the page once over both connections, but for what was cut in the middle.
        seqs = [event["server_event_seq"] for event in talk.line.heard() if "server_event_seq" in event]
        assert sorted(set(seqs)) == list(range(1, max(seqs) + 1))
        logged = await talk.page.run(
            "(() => { document.getElementById('log-kind').value = 'all';"
            " document.getElementById('log-kind').dispatchEvent(new Event('input'));"
            " return [...document.querySelectorAll('#log-list li')].map((row) => row.dataset.type); })()"
        )
        for once in ("session.resumed", "response.created", "response.output_item.added"):
            assert logged.count(once) == 1
        # So does what the page says: over the new connection it goes on where the server's count ends.
        resumed = next(event for event in talk.line.heard() if event["type"] == "session.resumed")
        before, after = map(commands, talk.line.sockets)
        taken = resumed["client_event_count"]
        assert 50 < taken <= len(before)
        assert after[: len(before) - taken] == before[taken:]
        assert not set(before) & set(after[len(before) - taken :])
        await talk.state("speaking", "listening", "hearing")


async def test_two_losses_and_words_written_meanwhile(hearing_browser: str) -> None:
    """What is sent while there is no connection is said once there is one again, and once."""
    async with at_the_page(hearing_browser, script=script(heard=["tell me"] * 9)) as talk:
        await talk.page.run(
            "(() => { document.getElementById('words').value = 'Hello there';"
            " document.getElementById('words').dispatchEvent(new Event('input'));"
            " document.getElementById('composer').requestSubmit(); })()"
        )
        await talk.state("speaking")
        talk.line.cut()
        await talk.state("away")
        await talk.page.run(
            "(() => { document.getElementById('words').value = 'And now this';"
            " document.getElementById('words').dispatchEvent(new Event('input'));"
            " document.getElementById('composer').requestSubmit(); })()"
        )
        await talk.until_said("session.resumed")
        talk.line.cut()
        await talk.until_said("session.resumed", 2)
        await talk.reads("And now this")
        await talk.until_said("response.done")
        items = {
            event["item"]["id"]
            for event in talk.line.heard()
            if event["type"] == "conversation.item.added" and "And now this" in str(event)
        }
        assert len(items) == 1


async def test_without_a_microphone_it_is_said_and_words_can_be_written(browser: str) -> None:
    async with at_the_page(browser, script=script()) as talk:
        await talk.page.click("#talk")
        await talk.page.until("!document.getElementById('notice').hidden")
        assert await talk.text("notice-title") in ("No microphone was found", "The microphone isn't allowed")
        await talk.page.run(
            "(() => { document.getElementById('words').value = 'Hello there';"
            " document.getElementById('words').dispatchEvent(new Event('input'));"
            " document.getElementById('composer').requestSubmit(); })()"
        )
        await talk.state("speaking")
        await talk.reads("something")


@pytest.mark.models
async def test_the_real_models_answer_the_sample(hearing_browser: str, real_server: ServedPort) -> None:
    async with trio.open_nursery() as nursery:
        async with through(hearing_browser, real_server.port, nursery) as talk:
            await talk.page.click("#talk")
            await talk.state("speaking")
            await talk.reads("breakfast")
            await talk.until_said("response.output_audio.delta", 3)
            await talk.page.click("#end")
        nursery.cancel_scope.cancel()


async def test_words_that_never_arrived_stand_in_the_box_again(browser: str) -> None:
    async with at_the_page(browser, script=script()) as talk:
        write = (
            "((text) => { document.getElementById('words').value = text;"
            " document.getElementById('composer').requestSubmit(); })"
        )
        await talk.page.run(f"{write}('Hello there')")
        await talk.reads("Hello there")
        talk.line.cut()
        await talk.state("away")
        await talk.page.run(f"{write}('one'), {write}('two')")
        assert await talk.page.run("document.getElementById('words').value") == ""
        await talk.page.run("document.getElementById('words').value = 'half a'")
        await talk.page.click("#end")
        await talk.state("idle")
        assert await talk.page.run("document.getElementById('words').value") == "one\ntwo\nhalf a"
