"""Coming back over the wire: the real application over a scripted engine, a test at the other end of each socket."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import attrs
import orjson
import pytest
import trio
from attrs import define, field
from structlog.testing import capture_logs
from trio.testing import MockClock

from duplex_trio.deploy import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.dialects import render
from duplex_trio.serving import socket_attachment
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app
from duplex_trio.session import delivery
from duplex_trio.testing import scripted_omni
from duplex_trio.testing.steps import acting_at

LONG = "alpha bravo charlie delta echo foxtrot golf hotel"
HEARTBEAT = '{"type":"session.heartbeat"}'
ITEM = '{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}'
GO = (f'{{"type":"conversation.item.create","item":{ITEM}}}', '{"type":"response.create"}')


@define(eq=False)
class Client:
    """The client's end of one socket. `seq` is the last number it has."""

    socket: Any
    seq: int = 0
    events: list[dict[str, Any]] = field(factory=list)

    async def next(self) -> dict[str, Any]:
        with trio.fail_after(60):
            event: dict[str, Any] = await self.socket.event()
        self.events.append(event)
        if "server_event_seq" in event:
            assert event["server_event_seq"] == self.seq + 1
            self.seq += 1
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        while (event := await self.next())["type"] != kind:
            pass
        return event

    async def say(self, *texts: str) -> None:
        for text in texts:
            await self.socket.text(text)

    async def closed(self) -> tuple[int, str]:
        """Whatever still came, and the close frame."""
        with trio.fail_after(400):
            while (message := await self.socket.next())["type"] == "websocket.send":
                pass
        return message["code"], message["reason"]


@define(eq=False)
class Deployment:
    """An application and the means to connect to it."""

    omni: DuplexOmni
    app: Any
    nursery: trio.Nursery
    connect: Any

    async def socket(self, target: str = "/v1/realtime?duplex=1&resume=1") -> Client:
        socket = await self.connect(self.app, self.nursery, target)
        await socket.accepted()
        return Client(socket)

    async def open(self, session: str = "{}") -> tuple[Client, dict[str, Any]]:
        """A session in the duplex dialect; also returns its `session.created`."""
        client = await self.socket()
        await client.say(f'{{"type":"session.update","session":{session}}}')
        created = await client.next()
        await client.until("conversation.created")
        return client, created

    async def ask(self, session_id: str, token: str, seq: int = 0, *, attempt: int = 0) -> Client:
        """Ask for a session over a new socket."""
        client = await self.socket()
        client.seq = seq
        await client.say(
            f'{{"type":"session.resume","event_id":"ask","session_id":"{session_id}",'
            f'"resume_token":"{token}","last_received_server_event_seq":{seq},"attempt":{attempt}}}'
        )
        return client

    async def settle(self) -> None:
        """Close every session, so that every connection ends."""
        self.omni.close_all_sessions("over")
        await trio.sleep(20)
        assert self.omni.statistics().sessions == 0


@pytest.fixture
def deployment(connect_to: Any) -> Any:
    @asynccontextmanager
    async def made(*, log_transcripts: bool = False, **engine: Any) -> AsyncIterator[Deployment]:
        script = Script(replies={"go": LONG})
        async with (
            scripted_omni(**({"script": script} | engine)) as omni,
            trio.open_nursery() as nursery,
        ):
            found = Deployment(
                omni, make_app(omni, ServeOptions(log_transcripts=log_transcripts)), nursery, connect_to
            )
            yield found
            await found.settle()

    return made


def session_id(event: dict[str, Any]) -> str:
    return str(event["session"]["id"])


async def refusal(client: Client) -> tuple[str, str | None, str | None]:
    event = await client.next()
    assert event["type"] == "error", event
    error = event["error"]
    assert await client.closed() in ((1008, error["code"]), (1011, error["code"]))
    return error["code"], error.get("param"), error.get("event_id")


# ------------------------------------------------------------------ back again


async def test_a_session_says_how_to_come_back(deployment: Any, autojump_clock: MockClock) -> None:
    async with deployment() as here:
        client, created = await here.open()
        assert created["attachment_generation"] == 1
        assert len(created["resume_token"]) == 43
        assert "server_event_seq" not in created
        assert client.events[1]["type"] == "session.updated"
        assert client.events[1]["server_event_seq"] == 1


async def test_a_lost_connection_is_made_good(deployment: Any, autojump_clock: MockClock) -> None:
    """Lost in the middle of an answer; the numbers go on, and both halves make the whole transcript."""
    async with deployment() as here:
        client, created = await here.open()
        await client.say(*GO)
        await client.until("response.output_audio.delta")
        await client.socket.disconnect(1006)
        await trio.sleep(5)
        assert here.omni.statistics().sessions == 1
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        resumed = await again.next()
        assert resumed["type"] == "session.resumed"
        assert resumed["session_id"] == resumed["session"]["id"] == session_id(created)
        assert resumed["attachment_generation"] == 2
        assert resumed["resume_token"] != created["resume_token"]
        assert "server_event_seq" not in resumed
        await again.until("response.done")
        said = [
            event["delta"]
            for event in client.events + again.events
            if event["type"] == "response.output_audio_transcript.delta"
        ]
        assert "".join(said) == LONG
        await again.say(HEARTBEAT)
        await again.until("session.heartbeat_ack")


async def test_another_socket_takes_over(deployment: Any, autojump_clock: MockClock) -> None:
    """The old one is told and closed; what it still says is discarded; its leaving changes nothing."""
    async with deployment() as here:
        client, created = await here.open()
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await again.next())["type"] == "session.resumed"
        replaced = await client.next()
        assert (replaced["type"], replaced["attachment_generation"]) == ("session.replaced", 1)
        await client.say(HEARTBEAT, '{"type":"session.close"}')
        assert await client.closed() == (1000, "session_replaced")
        with pytest.raises(trio.EndOfChannel):
            await client.socket.next()
        await again.say('{"type":"session.heartbeat","event_id":"mine"}')
        await again.until("session.heartbeat_ack")
        assert [event["type"] for event in again.events] == ["session.resumed", "session.heartbeat_ack"]


async def test_what_a_replaced_socket_says_before_it_is_closed(
    deployment: Any, autojump_clock: MockClock
) -> None:
    """Even while its close frame cannot be written."""
    async with deployment() as here:
        client, created = await here.open()
        client.socket.stop_reading()
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        await again.until("session.resumed")
        await client.say('{"type":"session.close"}')
        await trio.sleep(1)
        await again.say(HEARTBEAT)
        await again.until("session.heartbeat_ack")
        await trio.sleep(20)
        client.socket.read_again()


async def test_the_whole_answer_is_replayed(deployment: Any, autojump_clock: MockClock) -> None:
    """A client that has nothing gets everything, with the numbers and ids that it had before."""
    async with deployment() as here:
        client, created = await here.open()
        await client.say(*GO)
        await client.until("response.done")
        again = await here.ask(session_id(created), created["resume_token"], 0)
        await again.next()
        while again.seq < client.seq:
            await again.next()
        assert again.events[1:] == client.events[1:]


async def test_acknowledged_events_are_gone(deployment: Any, autojump_clock: MockClock) -> None:
    """Who then asks for them must begin anew; the session and its owner are untouched."""
    async with deployment() as here:
        client, created = await here.open()
        await client.say(f'{{"type":"session.event_ack","server_event_seq":{client.seq}}}')
        await trio.sleep(1)
        late = await here.ask(session_id(created), created["resume_token"], client.seq - 1)
        resync = await late.next()
        assert (resync["type"], resync["reason"]) == ("session.resync_required", "journal_gap")
        assert resync["session_id"] == session_id(created)
        assert "server_event_seq" not in resync
        assert await late.closed() == (1008, "journal_gap")
        await client.say(HEARTBEAT)
        await client.until("session.heartbeat_ack")
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await again.next())["type"] == "session.resumed"


async def test_an_acknowledgement_of_what_was_not_sent(deployment: Any, autojump_clock: MockClock) -> None:
    async with deployment() as here:
        client, _ = await here.open()
        await client.say('{"type":"session.event_ack","server_event_seq":99,"event_id":"a"}')
        error = (await client.until("error"))["error"]
        assert (error["code"], error["param"], error["event_id"]) == (
            "invalid_event_ack",
            "server_event_seq",
            "a",
        )


# ------------------------------------------------------------------ who is refused


@pytest.mark.parametrize(
    ("session", "token", "seq", "code", "param"),
    [
        ("duplex-nobody", None, 0, "invalid_resume_token", "resume_token"),
        (None, "x" * 43, 0, "invalid_resume_token", "resume_token"),
        (None, "é", 0, "invalid_resume_token", "resume_token"),
        (None, None, 999, "session_resume_conflict", "last_received_server_event_seq"),
        (None, None, -1, "invalid_session_resume", "last_received_server_event_seq"),
        (None, "", 0, "invalid_session_resume", "resume_token"),
    ],
    ids=["unknown id", "wrong token", "odd token", "beyond the head", "negative", "no token"],
)
async def test_a_refused_resume(
    deployment: Any,
    autojump_clock: MockClock,
    session: str | None,
    token: str | None,
    seq: int,
    code: str,
    param: str,
) -> None:
    """It says which field, names the message, closes its socket, and leaves the session to its owner."""
    async with deployment() as here:
        client, created = await here.open()
        asked = await here.ask(
            session or session_id(created), created["resume_token"] if token is None else token, seq
        )
        assert await refusal(asked) == (code, param, "ask")
        await client.say(HEARTBEAT)
        await client.until("session.heartbeat_ack")
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await again.next())["attachment_generation"] == 2


async def test_an_unknown_session_and_a_wrong_token_look_alike(
    deployment: Any, autojump_clock: MockClock
) -> None:
    """An id tells a stranger nothing, be the session there, gone, or never made."""
    async with deployment() as here:
        client, created = await here.open()
        answers = []
        for name in (session_id(created), "duplex-" + "0" * 32):
            asked = await here.ask(name, "a wrong token")
            event = await asked.next()
            answers.append({**event["error"], "event_id": None})
        await client.say('{"type":"session.close"}')
        await client.until("session.closed")
        await trio.sleep(1)
        asked = await here.ask(session_id(created), "a wrong token")
        answers.append({**(await asked.next())["error"], "event_id": None})
        assert answers[0] == answers[1] == answers[2]


async def test_a_session_that_has_ended(deployment: Any, autojump_clock: MockClock) -> None:
    """Its own client is told so."""
    async with deployment() as here:
        client, created = await here.open()
        await client.socket.disconnect()
        await trio.sleep(31)
        assert here.omni.statistics().sessions == 0
        asked = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert await refusal(asked) == ("session_resume_expired", "session_id", "ask")


async def test_a_token_is_used_once(deployment: Any, autojump_clock: MockClock) -> None:
    """Once something is heard from the new socket the old token is dead, also after that socket is lost."""
    async with deployment() as here:
        client, created = await here.open()
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        resumed = await again.next()
        await again.say('{"type":"session.event_ack","server_event_seq":0}')
        await trio.sleep(1)
        stolen = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await refusal(stolen))[0] == "invalid_resume_token"
        await again.socket.disconnect()
        await trio.sleep(1)
        stolen = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await refusal(stolen))[0] == "invalid_resume_token"
        third = await here.ask(session_id(created), resumed["resume_token"], again.seq)
        assert (await third.next())["attachment_generation"] == 3


async def test_only_a_hash_of_a_token_is_kept(deployment: Any, autojump_clock: MockClock) -> None:
    """Neither of the one in force nor of the one that recovers."""
    async with deployment() as here:
        client, created = await here.open()
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        tokens = (created["resume_token"], (await again.next())["resume_token"])
        (record,) = here.app.deployment.service.endpoint.attachments._records.values()
        kept = attrs.astuple(record)
        assert {sha256(token.encode()).digest() for token in tokens} <= set(kept)
        assert not {*tokens, *(token.encode() for token in tokens)} & set(kept)
        assert all(token not in repr(record) for token in (*tokens, *map(repr, kept[:1])))


@pytest.mark.parametrize("gone", [True, False], ids=["noticed", "unnoticed"])
@pytest.mark.parametrize("written", [True, False], ids=["written", "stuck"])
async def test_a_token_recovers_from_an_answer_that_was_lost(
    deployment: Any, autojump_clock: MockClock, gone: bool, written: bool
) -> None:
    """The new token was never heard. The old one opens the session again, as often as that happens, also while
    the server takes the lost socket for a healthy one, and whether or not it could write to it."""
    async with deployment() as here:
        client, created = await here.open()
        await client.say(*GO)
        await client.until("response.done")
        await client.socket.disconnect()
        await trio.sleep(1)
        for _ in range(3):
            cut = await here.socket()
            if not written:
                cut.socket.stop_reading()
            await cut.say(
                f'{{"type":"session.resume","session_id":"{session_id(created)}",'
                f'"resume_token":"{created["resume_token"]}"}}'
            )
            await trio.sleep(1)
            if gone:
                await cut.socket.disconnect(1006)
                await trio.sleep(1)
            cut.socket.read_again()
        again = await here.ask(session_id(created), created["resume_token"])
        assert (await again.next())["attachment_generation"] == 5
        while again.seq < client.seq:
            await again.next()
        assert again.events[1:] == client.events[1:]


async def test_two_who_ask_at_once(deployment: Any, autojump_clock: MockClock) -> None:
    """The later one has the session, and the other is told so: its answer might have been lost."""
    async with deployment() as here:
        client, created = await here.open()
        await client.socket.disconnect()
        both = [await here.socket() for _ in range(2)]
        for asked in both:
            await asked.say(
                f'{{"type":"session.resume","session_id":"{session_id(created)}",'
                f'"resume_token":"{created["resume_token"]}"}}'
            )
        await trio.sleep(1)
        ends = [await asked.next() for asked in both]
        assert sorted(event["type"] for event in ends) == ["session.replaced", "session.resumed"]


async def test_an_attempt_that_comes_late_changes_nothing(deployment: Any, autojump_clock: MockClock) -> None:
    """The client gave it up and is back with its next one, whose answer may not have arrived yet."""
    async with deployment() as here:
        client, created = await here.open()
        await client.socket.disconnect()
        again = await here.ask(session_id(created), created["resume_token"], client.seq, attempt=2)
        await again.until("session.resumed")
        late = await here.ask(session_id(created), created["resume_token"], client.seq, attempt=1)
        assert await refusal(late) == ("invalid_resume_token", "resume_token", "ask")
        third = await here.ask(session_id(created), created["resume_token"], client.seq, attempt=3)
        await third.until("session.resumed")


async def test_what_was_taken_of_the_client_is_counted(deployment: Any, autojump_clock: MockClock) -> None:
    """Whoever comes back learns what is to be sent again: refused messages arrived, those about a connection do
    not matter, and those of a socket that was replaced were never taken."""
    async with deployment() as here:
        client, created = await here.open()
        await client.say(
            '{"type":"input_audio_buffer.clear","event_id":"one"}',
            '{"type":"response.cancel","event_id":"refused"}',
            '{"type":"input_audio_buffer.append","audio":"@","event_id":"unreadable"}',
            '{"type":"session.event_ack","server_event_seq":1,"event_id":"about the connection"}',
            '{"type":"session.event_ack","server_event_seq":-1}',
            '{"type":"session.event_ack","server_event_seq":99}',
            '{"type":"session.resume","session_id":"s","resume_token":"t"}',
            '{"type":"session.heartbeat","event_id":"too"}',
        )
        assert (await client.until("session.heartbeat_ack"))["client_event_count"] == 3
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        resumed = await again.next()
        assert (resumed["client_event_count"], resumed["last_client_event_id"]) == (3, "unreadable")
        await client.say('{"type":"input_audio_buffer.clear","event_id":"late"}')
        await again.say('{"type":"input_audio_buffer.clear"}', "no json")
        await again.until("error")
        third = await here.ask(session_id(created), resumed["resume_token"], again.seq)
        resumed = await third.next()
        assert (resumed["client_event_count"], resumed["last_client_event_id"]) == (5, None)


async def test_the_message_that_opens_a_session_is_not_counted_unless_it_is_a_command(
    deployment: Any, autojump_clock: MockClock
) -> None:
    async with deployment() as here:
        for first, count in (('{"type":"session.update","session":{}}', 0), (GO[0], 1), ('{"type":"no"}', 1)):
            client = await here.socket("/v1/duplex")
            await client.say(first, HEARTBEAT)
            assert (await client.until("session.heartbeat_ack"))["client_event_count"] == count


class _Forgetful(ScriptedPipeline):
    def build_plugin(self) -> Any:
        plugin = super().build_plugin()
        able = plugin.capabilities

        def capabilities(max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(able(max_sessions), supports_session_resume=False)

        plugin.capabilities = capabilities  # type: ignore[method-assign]
        return plugin


async def test_a_model_that_cannot_be_resumed(deployment: Any, autojump_clock: MockClock) -> None:
    """Nothing is promised, a resume is refused as such, and a lost connection ends its session.

    Its events have numbers all the same, which may be acknowledged.
    """
    async with deployment(pipeline=_Forgetful()) as here:
        client, created = await here.open()
        assert not {"resume_token", "attachment_generation", "server_event_seq"} & set(created)
        await client.say(*GO)
        await client.until("response.done")
        assert all("server_event_seq" in event for event in client.events if event is not created)
        assert client.seq == len(client.events) - 1
        await client.say(f'{{"type":"session.event_ack","server_event_seq":{client.seq}}}')
        await client.say('{"type":"session.event_ack","server_event_seq":99999,"event_id":"a"}')
        error = (await client.until("error"))["error"]
        assert (error["code"], error["param"], error["event_id"]) == (
            "invalid_event_ack",
            "server_event_seq",
            "a",
        )
        assert created["session"]["capabilities"]["supports_session_resume"] is False
        asked = await here.ask(session_id(created), "token")
        assert await refusal(asked) == ("unsupported_session_resume", "type", "ask")
        await client.socket.disconnect()
        await trio.sleep(1)
        assert here.omni.statistics().sessions == 0


@pytest.mark.parametrize("target", ["/v1/realtime", "/v1/realtime?model=m"])
async def test_stock_clients_are_promised_nothing(
    deployment: Any, autojump_clock: MockClock, target: str
) -> None:
    """A session of OpenAI's dialect ends with its connection, as stock clients expect."""
    async with deployment() as here:
        client = await here.socket(target)
        created = await client.next()
        assert created["type"] == "session.created"
        assert not {"resume_token", "attachment_generation", "server_event_seq"} & set(created)
        await client.say('{"type":"session.event_ack","server_event_seq":1}')
        assert (await client.until("error"))["error"]["code"] == "invalid_event_ack"
        await client.say('{"type":"session.resume","session_id":"s","resume_token":"t"}')
        assert (await client.until("error"))["error"]["code"] == "unsupported_session_resume"
        await client.socket.disconnect()
        await trio.sleep(1)
        assert here.omni.statistics().sessions == 0


async def test_a_stranger_learns_nothing_from_the_time_an_answer_takes(
    deployment: Any, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same comparisons are made, of hashes, whether a session is there, has ended, or never was."""
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    async with deployment() as here:
        client, created = await here.open()
        ended, other = await here.open()
        await ended.say('{"type":"session.close"}')
        await ended.until("session.closed")
        for name in (session_id(created), session_id(other), "duplex-" + "0" * 32):
            compared.clear()
            await refusal(await here.ask(name, "a wrong token"))
            assert compared == [(32, 32)] * 2
        assert created["resume_token"] != other["resume_token"]
        await client.say(HEARTBEAT)


async def test_a_refused_resume_does_not_prolong_the_grace(
    deployment: Any, autojump_clock: MockClock
) -> None:
    """Nor use it up: the session is there for its client until it ends."""
    async with deployment() as here:
        clients = [await here.open() for _ in range(2)]
        for client, _ in clients:
            await client.socket.disconnect()
        await trio.sleep(0.1)
        for client, created in clients:
            await trio.sleep(10)
            await refusal(await here.ask(session_id(created), "a wrong token"))
            await refusal(await here.ask(session_id(created), created["resume_token"], client.seq + 9))
        await trio.sleep(9)
        client, created = clients[0]
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await again.next())["type"] == "session.resumed"
        await trio.sleep(2)
        assert here.omni.statistics().sessions == 1


async def test_sound_goes_on_in_the_same_buffer(deployment: Any, autojump_clock: MockClock) -> None:
    """In the format that the session declared; what came before the loss and after it is one utterance."""
    declared = '{"turn_detection":null,"input_audio_format":"pcm16","sample_rate_hz":8000}'
    async with deployment() as here:
        client, created = await here.open(declared)
        loud = b64encode(b"\0\x40\0\xc0" * 1000).decode()  # a quarter of a second at 8 kHz
        await client.say(f'{{"type":"input_audio_buffer.append","audio":"{loud}"}}', HEARTBEAT)
        await client.until("session.heartbeat_ack")
        await client.socket.disconnect()
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        resumed = await again.until("session.resumed")
        unlike = {name for name, value in resumed["session"].items() if created["session"][name] != value}
        assert unlike == {"turn_state"}
        await again.say(f'{{"type":"input_audio_buffer.append","audio":"{loud}"}}')
        await again.say('{"type":"input_audio_buffer.commit"}')
        heard = await again.until("conversation.item.input_audio_transcription.completed")
        assert heard["transcript"] == "sound of 0.5 seconds"


@pytest.mark.parametrize("seq", ["-1", '"1"', "1.5", "true", "null"])
async def test_an_acknowledgement_of_no_number(deployment: Any, autojump_clock: MockClock, seq: str) -> None:
    async with deployment() as here:
        client, _ = await here.open()
        await client.say(f'{{"type":"session.event_ack","server_event_seq":{seq},"event_id":"a"}}')
        error = (await client.until("error"))["error"]
        assert (error["code"], error["param"], error["event_id"]) == (
            "invalid_event_ack",
            "server_event_seq",
            "a",
        )


# ------------------------------------------------------------------ clients that say or read nothing


@pytest.mark.parametrize("target", ["/v1/realtime?model=m", "/v1/duplex?model=m"])
async def test_a_silent_client_counts_as_gone(
    deployment: Any, autojump_clock: MockClock, target: str
) -> None:
    """After 300 s without a message, or as long as its session allows; each message begins the time anew."""
    async with deployment(limits=SessionLimits(idle_ttl_s=None)) as here:
        client = await here.socket(target)
        for _ in range(3):
            await trio.sleep(299)
            await client.say('{"type":"input_audio_buffer.clear"}')
        said_s = trio.current_time()
        assert await client.closed() == (1000, "idle_timeout")
        assert trio.current_time() - said_s == pytest.approx(300, abs=0.1)
        await trio.sleep(0.1)
        waits = "duplex?" in target
        assert here.omni.statistics().sessions == int(waits)
        await trio.sleep(31)
        assert here.omni.statistics().sessions == 0


async def test_a_session_has_its_own_patience(deployment: Any, autojump_clock: MockClock) -> None:
    """The session waits for a client that was too silent, and that may come back."""
    async with deployment() as here:
        client, created = await here.open('{"idle_timeout_s":5}')
        opened_s = trio.current_time()
        assert await client.closed() == (1000, "idle_timeout")
        assert trio.current_time() - opened_s == pytest.approx(5, abs=0.1)
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await again.next())["type"] == "session.resumed"


@pytest.mark.parametrize("target", ["/v1/realtime?model=m", "/v1/duplex?model=m"])
@pytest.mark.parametrize(("before_s", "after_s"), [(300, 5), (5, 60)])
async def test_a_session_learns_another_patience(
    deployment: Any, autojump_clock: MockClock, target: str, before_s: int, after_s: int
) -> None:
    """An update counts from the message that brought it, whether it makes the session more patient or less."""
    async with deployment() as here:
        client = await here.socket(target)
        for seconds in (before_s, after_s):
            await trio.sleep(1)
            said_s = trio.current_time()
            await client.say(f'{{"type":"session.update","session":{{"idle_timeout_s":{seconds}}}}}')
        assert await client.closed() == (1000, "idle_timeout")
        assert trio.current_time() - said_s == pytest.approx(after_s, abs=0.1)


async def test_a_client_that_does_not_read_is_let_go_and_comes_back(
    deployment: Any, autojump_clock: MockClock
) -> None:
    """Its socket is closed after 5 s, and the connection's task ends though nothing could be written."""
    async with deployment() as here:
        client, created = await here.open()
        client.socket.stop_reading()
        await client.say(*GO)
        await trio.sleep(11)
        assert not here.omni.get_session(session_id(created)).attached
        client.socket.read_again()
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        await again.until("response.done")


async def test_the_server_drains_while_a_session_waits(deployment: Any, autojump_clock: MockClock) -> None:
    """A detached session is given the stated time like any other, and can be resumed until then."""
    async with deployment() as here:
        client, created = await here.open()
        await client.socket.disconnect()
        await trio.sleep(1)
        here.nursery.start_soon(here.omni.drain, 10.0)
        await trio.sleep(1)
        again = await here.ask(session_id(created), created["resume_token"], client.seq)
        assert (await again.next())["type"] == "session.resumed"
        await again.until("session.closed")
        assert await again.closed() == (1001, "server_shutdown")


# ------------------------------------------------------------------ at any step


async def cut_at(here: Deployment, step: int, *, how: str) -> bool:
    """Resume over a socket that is cut at one step; then come back for good. Returns whether it was cut in time."""
    client, created = await here.open()
    await client.say(*GO)
    await client.until("response.output_audio.delta")
    await client.socket.disconnect(1006)
    await trio.sleep(0.5)
    cut = await here.socket()
    token, known = created["resume_token"], client.seq

    def act() -> None:
        if how == "disconnect":
            cut.socket.to_app.send_nowait({"type": "websocket.disconnect", "code": 1006})
        else:
            cut.socket.task_scope.cancel()

    with acting_at(step, act) as instrument:
        await cut.say(
            f'{{"type":"session.resume","session_id":"{session_id(created)}","resume_token":"{token}",'
            f'"last_received_server_event_seq":{known}}}'
        )
        await trio.sleep(0.3)
    if instrument.steps < step:
        return False
    cut.seq = known
    for message in cut.socket.arrived():
        if message["type"] == "websocket.send":
            event = orjson.loads(message["text"])
            token = event.get("resume_token", token)
            if "server_event_seq" in event:
                assert event["server_event_seq"] == cut.seq + 1
                cut.seq += 1
    again = await here.ask(session_id(created), token, cut.seq)
    assert (await again.next())["type"] == "session.resumed"
    await again.until("response.done")
    await again.say('{"type":"session.close"}')
    await again.until("session.closed")
    return True


@pytest.mark.parametrize("how", ["disconnect", "cancel"])
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
async def test_a_resume_is_cut_at_any_step(
    deployment: Any, autojump_clock: MockClock, how: str, stride: int
) -> None:
    """Its client comes back with what it heard: the new token or, if that never came, the old one."""
    async with deployment() as here:
        step = 1
        while await cut_at(here, step, how=how):
            step += stride
        assert step > 30


# ------------------------------------------------------------------ what it costs


async def test_an_event_is_rendered_once(
    deployment: Any, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the socket, for the journal and for its replay; a session without a journal renders for its socket."""
    rendered: dict[str, list[str]] = {"journal": [], "socket": []}
    for place, module in (("journal", delivery), ("socket", socket_attachment)):

        def counting(event: Any, *arguments: Any, place: str = place, **named: Any) -> bytes | None:
            rendered[place].append(event.type)
            return render(event, *arguments, **named)

        monkeypatch.setattr(module, "render", counting)
    async with deployment() as here:
        client, created = await here.open()
        await client.say(*GO)
        await client.until("response.done")
        await trio.sleep(1)
        count = len(rendered["journal"])
        again = await here.ask(session_id(created), created["resume_token"], 0)
        while again.seq < client.seq:
            await again.next()
        assert len(rendered["journal"]) == count
        assert sorted(rendered["socket"]) == ["session.created", "session.replaced", "session.resumed"]
        stock = await here.socket("/v1/realtime")
        await stock.until("conversation.created")
        assert len(rendered["journal"]) == count


async def test_what_is_said_can_be_logged(deployment: Any, autojump_clock: MockClock) -> None:
    """Of sessions with a journal and of those without one, if the operator asks for it."""
    for target, wanted in (("/v1/duplex", True), ("/v1/realtime", True), ("/v1/duplex", False)):
        with capture_logs() as lines:
            async with deployment(log_transcripts=wanted) as here:
                client = await here.socket(target)
                await client.say(*GO)
                await client.until("response.done")
        said = [line["text"] for line in lines if line["event"] == "assistant.said"]
        assert said == [LONG] * wanted


# ------------------------------------------------------------------ secrets


async def test_no_token_is_logged(deployment: Any, autojump_clock: MockClock) -> None:
    """Neither one that was given nor one that was tried, at any level."""
    with capture_logs() as lines:
        async with deployment() as here:
            client, created = await here.open()
            again = await here.ask(session_id(created), created["resume_token"], client.seq)
            resumed = await again.next()
            wrong = await here.ask(session_id(created), "a-wrong-token")
            await refusal(wrong)
    text = repr(lines)
    assert "client.resumed" in text
    assert "client.refused" in text
    for token in (created["resume_token"], resumed["resume_token"], "a-wrong-token"):
        assert token not in text
    registry = here.app.deployment.service.endpoint.attachments
    for token in (created["resume_token"], resumed["resume_token"]):
        assert token not in repr(registry.__dict__)


@pytest.mark.slow
async def test_ended_sessions_are_forgotten_in_the_end(deployment: Any, autojump_clock: MockClock) -> None:
    """What is remembered to answer latecomers is bounded by the number of sessions."""
    async with deployment(max_sessions=1) as here:
        for _ in range(300):
            client, _ = await here.open()
            await client.say('{"type":"session.close"}')
            await client.closed()
            await trio.sleep(1)
        assert len(here.app.deployment.service.endpoint.attachments._records) <= 256
