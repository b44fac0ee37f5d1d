"""The page at `/` in a real browser with a real server: what people do there without speaking, and what they see."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.browser import Page
from duplex_trio.testing.serve_command import serve_command
from duplex_trio.testing.server_process import ServedPort
from duplex_trio.testing.talk_visitor import Visitor, visit_talk

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LONG = "one two three four five six seven eight nine ten"


@pytest.fixture(scope="session")
def one_session(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A deployment for one conversation at a time."""
    path = tmp_path_factory.mktemp("page") / "small.yaml"
    path.write_text("base_config: scripted\nduplex_session: {max_sessions: 1}\n")
    return str(path)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_text().splitlines()]


async def disabled(page: Page, name: str) -> bool:
    found: bool = await page.run(f"document.getElementById('{name}').disabled")
    return found


async def test_a_written_turn_is_answered_aloud(visitor: Visitor) -> None:
    await visitor.write("good morning")
    await visitor.said("good morning")
    await visitor.state("speaking")
    assert await visitor.text("status") == "Speaking"
    await visitor.heard("You said: good morning")
    await visitor.state("listening")
    turns = await visitor.turns()
    assert [(turn.who, turn.text) for turn in turns] == [
        ("you", "good morning"),
        ("model", "You said: good morning"),
    ]
    assert turns[-1].ahead == ""
    assert (await visitor.text("l-sound")).endswith(" ms")
    assert (await visitor.text("m-sound")).endswith(" ms")
    logged = await visitor.logged()
    assert ("out", "playback.ack") in logged


async def test_what_was_heard_is_told_apart_from_what_is_to_come(visitor: Visitor) -> None:
    await visitor.write(LONG)
    await visitor.heard("You said:")
    parts = await visitor.page.until(
        "(([heard, ahead]) => heard.textContent && ahead.textContent && [heard.textContent, ahead.textContent])"
        "([...document.querySelector('#turns [data-who=model] .bubble').children])"
    )
    assert f"You said: {LONG}".startswith(parts[0] + parts[1])


@pytest.mark.parametrize("how", ["Escape", "button"])
async def test_an_answer_is_interrupted(visitor: Visitor, how: str) -> None:
    await visitor.write(LONG)
    await visitor.heard("You said:")
    if how == "button":
        await visitor.page.click("#interrupt")
    else:
        await visitor.page.press("Escape")
    await visitor.page.until("document.querySelector('#turns [data-state=interrupted]')")
    await visitor.state("listening")
    turn = (await visitor.turns())[-1]
    assert turn.text.startswith(turn.heard)
    assert turn.heard != f"You said: {LONG}"
    assert "interrupted" in await visitor.page.run("document.querySelector('#turns').textContent")
    assert await disabled(visitor.page, "interrupt")
    await visitor.write("go on")
    await visitor.heard("go on")


async def test_a_conversation_ends_and_another_begins(visitor: Visitor) -> None:
    await visitor.write("first")
    await visitor.heard("first")
    await visitor.page.click("#end")
    await visitor.state("idle")
    assert [turn.who for turn in await visitor.turns()] == ["you", "model"]  # it can still be read
    await visitor.write("second")
    await visitor.heard("second")
    assert [turn.text for turn in await visitor.turns() if turn.who == "you"] == ["second"]


async def test_settings_go_with_the_session_and_follow_it(visitor: Visitor) -> None:
    await visitor.choose("instructions", "Be brief.")
    await visitor.choose("turns-mode", "semantic_vad")
    await visitor.choose("eagerness", "high")
    await visitor.write("hello")
    await visitor.heard("hello")
    opened = (await visitor.last_json("session.created"))["session"]
    assert opened["instructions"] == "Be brief."
    turns = opened["audio"]["input"]["turn_detection"]
    assert (turns["type"], turns["eagerness"]) == ("semantic_vad", "high")
    await visitor.choose("turns-mode", "server_vad")
    await visitor.choose("silence", "900")
    await visitor.page.until(
        "[...document.querySelectorAll('#log-list li')].filter((row) => row.dataset.type === 'session.updated')"
        ".length >= 3"
    )
    now = (await visitor.last_json("session.updated"))["session"]["audio"]["input"]["turn_detection"]
    assert (now["type"], now["silence_duration_ms"]) == ("server_vad", 900)
    assert await visitor.page.run("document.getElementById('eagerness').checkVisibility()") is False


async def test_a_setting_that_is_refused_says_so_at_its_field(visitor: Visitor) -> None:
    await visitor.write("hello")
    await visitor.heard("hello")
    await visitor.choose("threshold", "7")
    assert "at most 1, not 7" in await visitor.complaint_at("threshold")
    assert (
        await visitor.page.run("document.getElementById('threshold').getAttribute('aria-invalid')") == "true"
    )
    assert await visitor.page.run("document.getElementById('notice').hidden")
    await visitor.choose("threshold", "0.6")
    await visitor.page.until("document.getElementById('threshold-said').textContent === ''")
    await visitor.write("still there")
    await visitor.heard("still there")


async def test_a_session_that_is_refused_says_why_at_the_field(visitor: Visitor) -> None:
    await visitor.choose("speed", "9")
    await visitor.write("hello")
    await visitor.state("idle", "failed")
    assert "at most 1.5" in await visitor.complaint_at("speed")
    assert "could not begin" in await visitor.notice()
    await visitor.choose("speed", "1")
    await visitor.write("hello")
    await visitor.heard("hello")


async def test_a_voice_that_has_spoken_is_changed_for_the_next_time(visitor: Visitor) -> None:
    await visitor.write("hello")
    await visitor.heard("hello")
    await visitor.choose("voice", "tone")
    await visitor.page.run("document.getElementById('voice').append(new Option('other'))")
    await visitor.choose("voice", "other")
    assert await visitor.complaint_at("voice") == "Applies to the next conversation."


async def test_messages_are_listed_searched_and_taken_away(visitor: Visitor, tmp_path: Path) -> None:
    await visitor.write("hello")
    await visitor.heard("hello")
    await visitor.state("listening")
    logged = await visitor.logged()
    assert ("out", "session.update") in logged
    assert ("in", "session.created") in logged
    delta = await visitor.last_json("response.output_audio.delta")
    assert "characters of sound" in delta["delta"]
    assert (await visitor.last_json("session.created"))["resume_token"] == "(secret)"
    await visitor.choose("log-kind", "errors")
    assert await visitor.page.run("document.querySelectorAll('#log-list li').length") == 0
    await visitor.choose("log-kind", "conversation")
    await visitor.choose("log-words", "transcript.done")
    assert await visitor.page.run("document.querySelectorAll('#log-list li').length") == 1
    await visitor.page.run("document.getElementById('log').open = true")
    await visitor.page.click("#log-export")
    await visitor.page.saved()
    lines = json_lines(tmp_path / "talk-messages.jsonl")
    assert "session.update" in [line["message"]["type"] for line in lines]
    assert {line["way"] for line in lines} == {"in", "out"}
    assert len(lines) > 10


async def test_a_key_is_asked_for_and_stays_in_the_tab(browser: str, tmp_path: Path) -> None:
    key = "sk-a_b.c-1"
    async with (
        serve_command(tmp_path, "--api-key", key) as running,
        visit_talk(browser, running.port, quiet=False, until="key") as visitor,
    ):
        assert await visitor.page.run("document.activeElement.id") == "key"
        await visitor.page.type("sk-wrong")
        await visitor.page.press("Enter")
        await visitor.page.until("document.getElementById('key-error').textContent.includes('not the one')")
        await visitor.page.run("document.getElementById('key').select()")
        await visitor.page.type(key)
        await visitor.page.press("Enter")
        await visitor.state("idle")
        await visitor.write("hello")
        await visitor.heard("hello")
        assert key in await visitor.page.run("JSON.stringify(sessionStorage)")
        assert await visitor.page.run("localStorage.length + document.cookie.length") == 0
        assert key not in await visitor.page.run("location.href")
        await visitor.choose("log-kind", "all")
        assert key not in await visitor.page.run("document.getElementById('log-list').textContent")
        # Who tries another one that is not let in can go back.
        await visitor.page.click("#end")
        await visitor.page.click("#change-key")
        await visitor.choose("key", "sk-other")
        await visitor.page.run("document.getElementById('door').requestSubmit()")
        await visitor.page.until("document.getElementById('key-error').textContent.includes('not the one')")
        await visitor.page.run("document.activeElement.blur()")
        await visitor.page.press("m", code=77)  # leads to the key as long as one is wanted
        assert await visitor.page.run("document.activeElement.id") == "key"
        await visitor.page.click("#door-close")
        await visitor.state("idle")
        assert key in await visitor.page.run("JSON.stringify(sessionStorage)")


async def test_a_server_that_is_full_says_so(browser: str, one_session: str, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, deploy=one_session) as running,
        visit_talk(browser, running.port) as first,
        visit_talk(browser, running.port) as second,
    ):
        await first.write("I am first")
        await first.heard("first")
        await second.write("and I")
        assert "All places are taken" in await second.notice()
        assert await second.page.run("document.getElementById('words').value") == "and I"  # it is not lost
        await second.page.run("document.getElementById('words').value = ''")
        await first.page.click("#end")
        await first.state("idle")
        await second.write("and now")
        await second.heard("and now")


async def test_a_server_that_shuts_down_says_so(browser: str, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, "--drain-timeout", "0.2") as running,
        visit_talk(browser, running.port, quiet=False) as visitor,
    ):
        await visitor.write("hello")
        await visitor.heard("hello")
        running.signal(signal.SIGTERM)
        assert "shutting down" in await visitor.notice()
        await visitor.page.until("document.getElementById('say').textContent.includes('reached')")


async def test_a_model_that_loads_is_waited_for(browser: str, nursery: trio.Nursery) -> None:
    gate = trio.Event()

    def make() -> DuplexOmni:
        trio.from_thread.run(gate.wait)
        return DuplexOmni(ScriptedPipeline(), warm_up=False)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    await listener.aclose()
    nursery.start_soon(partial(run_server, make, ServeOptions(port=port)))
    async with visit_talk(browser, port, quiet=False, until="loading") as visitor:
        await visitor.page.until("document.getElementById('say').textContent.includes('loading')")
        await visitor.write("are you there")
        await visitor.page.until("document.getElementById('hint').textContent.includes('by itself')")
        gate.set()
        await visitor.heard("are you there")
        # The status of /health is the browser's to tell; nothing else is.
        assert {complaint.kind for complaint in visitor.page.complaints} <= {"network"}


async def test_a_connection_that_is_lost_is_told_with_a_countdown(
    visitor: Visitor, talk_server: ServedPort
) -> None:
    shown = await visitor.page.run(
        """import('/talk/banner.js').then(async ({ showAway, showBack, hideBanner }) => {
          const said = () => document.getElementById('banner').innerText;
          const found = [];
          showAway({ attempt: 2, retryAtMs: Date.now() + 4000 });
          found.push(said(), document.getElementById('banner-now').checkVisibility());
          showAway({ attempt: 2, retryAtMs: null });
          found.push(document.getElementById('banner-now').checkVisibility());
          showBack({ missed: 12, lostSoundMs: 3000 });
          found.push(said());
          hideBanner();
          return [...found, document.getElementById('banner').hidden];
        })"""
    )
    away, can_try, tries, back, hidden = shown
    assert "Connection lost" in away
    assert "Attempt 2." in away
    assert "4 s" in away
    assert (can_try, tries, hidden) == (True, False, True)
    assert "12 events were caught up. The first 3.0 s of what you said meanwhile are lost." in back


async def test_answers_are_heard_where_the_browser_has_no_worklets(
    browser: str, talk_server: ServedPort
) -> None:
    """As it is where the page comes without TLS from another machine."""
    async with visit_talk(browser, talk_server.port, quiet=False) as visitor:
        await visitor.page.run("delete BaseAudioContext.prototype.audioWorklet")
        await visitor.write(LONG)
        await visitor.heard("You said: one")
        await visitor.state("speaking")
        await visitor.page.press("Escape")
        await visitor.page.until("document.querySelector('#turns [data-state=interrupted]')")
        await visitor.write("go on")
        await visitor.heard("go on")
        await visitor.state("listening")
        assert {complaint.kind for complaint in visitor.page.complaints} <= {"deprecation"}


async def test_an_answer_that_the_end_cuts_is_marked(visitor: Visitor) -> None:
    await visitor.write(LONG)
    await visitor.heard("You said:")
    await visitor.page.click("#end")
    await visitor.state("idle")
    assert [turn.state for turn in await visitor.turns()] == ["done", "interrupted"]
    await visitor.write("and one more")
    await visitor.page.click("#end")  # before there is an answer
    await visitor.page.until("document.querySelectorAll('#turns .dots:not([hidden])').length === 0")


async def test_a_key_that_no_browser_can_send_is_told(browser: str, tmp_path: Path) -> None:
    async with (
        serve_command(tmp_path, "--api-key", "ключ/=1") as running,
        visit_talk(browser, running.port, quiet=False, until="key") as visitor,
    ):
        for key in ("ключ/=1", "two words"):
            await visitor.choose("key", key)
            await visitor.page.run("document.getElementById('door').requestSubmit()")
            await visitor.page.until(
                "document.getElementById('key-error').textContent.includes('this key has others')"
            )
            await visitor.page.run("document.getElementById('key-error').textContent = ''")
        assert await visitor.page.run("sessionStorage.length") == 0
        assert not [one for one in visitor.page.complaints if one.kind == "exception"]


async def test_a_turn_right_to_left_is_written_so(visitor: Visitor) -> None:
    await visitor.write("مرحبا (1)")
    await visitor.said("مرحبا")
    found = await visitor.page.run(
        "getComputedStyle(document.querySelector('#turns [data-who=you] .bubble')).direction"
    )
    assert found == "rtl"
    await visitor.heard("You said:")
    assert (
        await visitor.page.run(
            "getComputedStyle(document.querySelector('#turns [data-who=model] .bubble')).direction"
        )
        == "ltr"
    )


async def test_sound_that_a_slow_line_has_no_room_for_is_told(visitor: Visitor) -> None:
    lost = await visitor.page.run(
        """import('/talk/session.js').then(({ TalkSession }) => new Promise((resolve) => {
          const session = new TalkSession({ session: { type: 'realtime' } }, {
            sent() {}, received() {},
            phase(name, detail) {
              if (name === 'open') {
                Object.defineProperty(WebSocket.prototype, 'bufferedAmount', { value: 1e9 });
                for (let frame = 0; frame < 600; frame++) session.append(new Int16Array(480));
              }
              if (name === 'slow') { session.close(); resolve(detail.lostSoundMs); }
            },
          });
        }))"""
    )
    assert lost == 1000
    told = await visitor.page.run(
        "import('/talk/explain.js').then(({ explainSlow }) => explainSlow({ lostSoundMs: 1000 }))"
    )
    assert "too slow" in told["title"]
    assert "1.0 s of what you said" in told["advice"]


async def test_a_server_that_takes_nobody_in_any_more_is_not_called_full(
    browser: str, tmp_path: Path
) -> None:
    async with (
        serve_command(tmp_path, "--drain-timeout", "20") as running,
        visit_talk(browser, running.port, quiet=False) as first,
        visit_talk(browser, running.port, quiet=False) as second,
    ):
        await first.write(LONG)
        await first.heard("You said:")
        running.signal(signal.SIGTERM)
        await running.until_health("draining")
        await second.write("and I")
        await second.page.until("document.getElementById('say').textContent.includes('shutting down')")
        assert await second.page.run("document.getElementById('notice').hidden")
        assert await second.page.run("document.getElementById('words').value") == "and I"
