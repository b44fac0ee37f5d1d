"""The chat route over ASGI: bodies, refusals, streams that are quiet, and clients that leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import orjson
import pytest
import trio
from attrs import Factory, define
from trio.testing import MockClock

from duplex_trio.entrypoints.chat_backend import ChatAnswer, ChatBackend
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.chat import ChatError, ChatPiece, ChatRequest, ChatUsage, FinishPiece, TextPiece
from duplex_trio.serving.chat import KEEP_ALIVE_S, ChatCompletions
from duplex_trio.serving.request_body import BODY_BYTES_MAX, BODY_SILENCE_S, BODY_TIMEOUT_S, BodyReader
from duplex_trio.serving.run import run_while_connected

PATH = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": "mine", "messages": [{"role": "user", "content": "hello"}]}
ANSWER = (TextPiece("Hi"), TextPiece("!"), FinishPiece("stop", ChatUsage(input_tokens=1, output_tokens=2)))


@define(eq=False)
class PlayedBackend(ChatBackend):
    """Plays one answer: pieces, errors, and numbers, which are seconds to wait."""

    played: Iterable[ChatPiece | ChatError | float] = ANSWER
    available: bool = True
    sound_rate_hz: int = 16_000
    asked: list[ChatRequest] = Factory(list)
    over: trio.Event = Factory(trio.Event)

    @asynccontextmanager
    async def answer(self, request: ChatRequest) -> AsyncIterator[ChatAnswer]:
        self.asked.append(request)
        try:
            yield _PlayedAnswer(iter(self.played))
        finally:
            self.over.set()


@define(eq=False)
class _PlayedAnswer(ChatAnswer):
    played: Iterator[Any]

    async def next_piece(self) -> ChatPiece:
        await trio.lowlevel.checkpoint()
        for one in self.played:
            if isinstance(one, ChatError):
                raise one
            if not isinstance(one, float):
                return one  # type: ignore[no-any-return]
            self.played = _later(one, self.played)
            await trio.sleep_until(next(self.played))
        raise AssertionError("the answer was over")


def _later(seconds: float, rest: Iterator[Any]) -> Iterator[Any]:
    """What is still to be played; one that is cancelled while it waits goes on waiting from where it was."""
    yield (until := trio.current_time() + seconds)
    while trio.current_time() < until:
        yield until - trio.current_time()
    yield from rest


@define(eq=False)
class Client:
    """One HTTP request over memory, and what came of it."""

    app: Any
    headers: dict[str, str] = Factory(dict)
    sent: list[Any] = Factory(list)
    to_app: Any = None
    reads: bool = True

    async def run(self, *messages: Any, method: str = "POST", path: str = PATH) -> None:
        self.to_app, receive = trio.open_memory_channel[Any](1000)
        for message in messages:
            self.to_app.send_nowait(message)

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            if not self.reads:
                await trio.sleep_forever()
            self.sent.append(message)

        scope = {
            "type": "http", "method": method, "path": path, "query_string": b"", "client": None,
            "headers": [(name.encode(), value.encode("latin1")) for name, value in self.headers.items()],
        }  # fmt: skip
        await self.app(scope, receive.receive, send)

    async def post(self, body: Any) -> None:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        await self.run({"type": "http.request", "body": data, "more_body": False})

    def leave(self) -> None:
        self.to_app.send_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def answer_headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def error(self) -> Any:
        return orjson.loads(self.body)["error"]


@pytest.fixture
def client_for(omni: Any, app_for: Any) -> Any:
    """Make a client of an application whose answers come from the given backend."""

    def make(backend: ChatBackend, *, bodies: BodyReader | None = None, **headers: str) -> Client:
        omni.capabilities = attrs.evolve(omni.capabilities, supports_chat_completions=True)
        app = app_for()
        chat = ChatCompletions(
            deployment=app.deployment,
            backend=backend,
            while_connected=run_while_connected,
            bodies=bodies or BodyReader(),
        )
        app.deployment.service.chat = chat
        return Client(app, headers)

    return make


def piece(text: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": text, "more_body": more}


async def test_a_whole_answer_echoes_the_model(client_for: Any, autojump_clock: MockClock) -> None:
    client = client_for(PlayedBackend(), **{"content-type": "application/json; charset=utf-8"})
    await client.post(HELLO)
    assert client.status == 200
    assert client.answer_headers[b"content-type"] == b"application/json"
    answer = orjson.loads(client.body)
    assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("mine", "Hi!")


async def test_without_a_model_it_is_the_served_one(client_for: Any, autojump_clock: MockClock) -> None:
    client = client_for(PlayedBackend())
    await client.post({"messages": HELLO["messages"]})
    assert orjson.loads(client.body)["model"] == "test-model"


@pytest.mark.parametrize(
    "kind", ["", "application/json", "application/x-www-form-urlencoded", "application/a+json"]
)
async def test_json_is_read_however_curl_calls_it(
    client_for: Any, autojump_clock: MockClock, kind: str
) -> None:
    client = client_for(PlayedBackend(), **({"content-type": kind} if kind else {}))
    await client.post(HELLO)
    assert client.status == 200


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "audio/wav"])
async def test_another_content_type_is_415(client_for: Any, autojump_clock: MockClock, kind: str) -> None:
    client = client_for(PlayedBackend(), **{"content-type": kind})
    await client.post(HELLO)
    assert (client.status, client.error["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"hello"])
async def test_bad_json_is_400(client_for: Any, autojump_clock: MockClock, body: bytes) -> None:
    client = client_for(PlayedBackend())
    await client.post(body)
    assert (client.status, client.error["code"]) == (400, "invalid_json")


async def test_a_body_in_pieces_is_one(client_for: Any, autojump_clock: MockClock) -> None:
    backend = PlayedBackend()
    client = client_for(backend)
    await client.run(*[piece(bytes([byte])) for byte in orjson.dumps(HELLO)], piece(b"", more=False))
    assert client.status == 200
    assert backend.asked[0].model == "mine"


async def test_a_large_body_is_read_beside_the_loop(client_for: Any) -> None:
    backend = PlayedBackend()
    client = client_for(backend)
    await client.post({"messages": [{"role": "user", "content": "x" * 100_000}]})
    assert client.status == 200
    assert len(backend.asked[0].items[0].item.content[0].text) == 100_000  # type: ignore[union-attr]


async def test_a_body_that_says_it_is_too_large_is_not_read(
    client_for: Any, autojump_clock: MockClock
) -> None:
    client = client_for(PlayedBackend(), **{"content-length": str(BODY_BYTES_MAX + 1)})
    await client.run(piece(b"x"), piece(b"", more=False))
    assert (client.status, client.error["code"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("name", "value", "status", "code"),
    [
        ("content-length", str(BODY_BYTES_MAX + 1), 413, "request_too_large"),
        ("content-length", "9" * 5000, 413, "request_too_large"),
        ("content-length", "-5", 400, "invalid_value"),
        ("content-length", "²", 400, "invalid_value"),
        ("content-length", "", 400, "invalid_value"),
        ("content-length", "5, 6", 400, "invalid_value"),
        ("content-encoding", "gzip", 415, "unsupported_media_type"),
        ("content-encoding", "identity, br", 415, "unsupported_media_type"),
        ("content-type", "text/plain", 415, "unsupported_media_type"),
    ],
)
async def test_what_the_headers_refuse_is_answered_before_the_body_comes(
    client_for: Any, nursery: trio.Nursery, name: str, value: str, status: int, code: str
) -> None:
    """The whole answer; the body is read behind it, so that the connection does not end over it."""
    client = client_for(PlayedBackend(), **{name: value})
    nursery.start_soon(client.run)
    await trio.testing.wait_all_tasks_blocked()
    assert (client.status, client.error["code"]) == (status, code)
    assert int(client.answer_headers[b"content-length"]) == len(client.body)
    assert client.sent[-1]["more_body"]
    client.to_app.send_nowait(piece(b"x"))
    client.to_app.send_nowait(piece(b"x", more=False))
    await trio.testing.wait_all_tasks_blocked()
    assert not client.sent[-1]["more_body"]
    if name == "content-encoding":
        assert value.rpartition(" ")[2] in client.error["message"]


@pytest.mark.parametrize("length", [len(orjson.dumps(HELLO)), f"{len(orjson.dumps(HELLO)):030}"])
async def test_a_body_as_it_is_may_be_declared(
    client_for: Any, autojump_clock: MockClock, length: Any
) -> None:
    client = client_for(PlayedBackend(), **{"content-encoding": "Identity", "content-length": str(length)})
    await client.post(HELLO)
    assert client.status == 200


async def test_a_body_that_grows_too_large_is_413(client_for: Any, autojump_clock: MockClock) -> None:
    client = client_for(PlayedBackend(), bodies=BodyReader(limit_bytes=1000))
    await client.run(*[piece(b"x" * 300)] * 5, piece(b"", more=False))
    assert client.status == 413


async def test_bodies_are_bounded_together(
    client_for: Any, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    bodies = BodyReader(limit_all_bytes=1000)
    slow, other = (client_for(PlayedBackend(), bodies=bodies) for _ in range(2))
    nursery.start_soon(slow.run, piece(b"x" * 800))
    await trio.sleep(1)
    await other.run(piece(b"x" * 300), piece(b"", more=False))
    assert (other.status, other.answer_headers[b"retry-after"]) == (429, b"1")
    slow.leave()
    await trio.sleep(1)
    assert bodies.held_bytes == 0
    assert slow.sent == []


async def test_a_body_that_stops_coming_is_408(client_for: Any, autojump_clock: MockClock) -> None:
    client = client_for(PlayedBackend())
    began_s = trio.current_time()
    await client.run(piece(b"{"))
    assert (client.status, client.error["code"]) == (408, "request_timeout")
    assert trio.current_time() - began_s == pytest.approx(BODY_SILENCE_S)


async def test_a_body_that_drips_is_408(
    client_for: Any, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    client = client_for(PlayedBackend())
    nursery.start_soon(client.run)
    await trio.lowlevel.checkpoint()
    for _ in range(int(BODY_TIMEOUT_S)):
        await trio.sleep(1)
        client.to_app.send_nowait(piece(b" "))
    await trio.sleep(1)
    assert client.status == 408


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "kind", "wait"),
    [
        (ChatError(400, "invalid_value", "no", param="messages[0]"), 400, "invalid_request_error", None),
        (ChatError(429, "resource_exhausted", "no"), 429, "rate_limit_error", b"1"),
        (ChatError(500, "engine_error", "no"), 500, "server_error", None),
        (ChatError(503, "engine_dead", "no"), 503, "server_error", b"1"),
    ],
)
async def test_what_fails_at_once_has_its_status(
    client_for: Any,
    autojump_clock: MockClock,
    stream: bool,
    error: ChatError,
    status: int,
    kind: str,
    wait: Any,
) -> None:
    client = client_for(PlayedBackend([error]))
    await client.post({**HELLO, "stream": stream})
    assert client.status == status
    assert client.answer_headers.get(b"retry-after") == wait
    assert client.error == {"message": "no", "type": kind, "param": error.param, "code": error.code}


async def test_what_fails_later_says_so_in_the_stream(client_for: Any, autojump_clock: MockClock) -> None:
    client = client_for(PlayedBackend([TextPiece("Hi"), ChatError(500, "engine_error", "broke")]))
    await client.post({**HELLO, "stream": True})
    assert client.status == 200
    *_, last, done = events(client)
    assert orjson.loads(last)["error"]["message"] == "broke"
    assert done == b"[DONE]"


def events(client: Client) -> list[bytes]:
    blocks = client.body.split(b"\n\n")
    assert blocks.pop() == b""
    return [block.removeprefix(b"data: ") for block in blocks if not block.startswith(b":")]


async def test_a_stream_ends_with_done(client_for: Any, autojump_clock: MockClock) -> None:
    client = client_for(PlayedBackend())
    await client.post({**HELLO, "stream": True, "stream_options": {"include_usage": True}})
    assert client.answer_headers[b"content-type"].startswith(b"text/event-stream")
    *chunks, usage, done = events(client)
    assert done == b"[DONE]"
    said = [orjson.loads(chunk)["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(said) == "Hi!"
    assert orjson.loads(usage)["usage"]["total_tokens"] == 3
    assert client.sent[-1].get("more_body") is False


async def test_a_stream_that_is_quiet_is_kept_alive(client_for: Any, autojump_clock: MockClock) -> None:
    wait = KEEP_ALIVE_S * 2.5
    client = client_for(PlayedBackend([wait, TextPiece("Hi"), wait, FinishPiece("stop")]))
    await client.post({**HELLO, "stream": True})
    assert client.body.count(b": keep-alive\n\n") == 4
    assert client.body.startswith(b": keep-alive\n\n: keep-alive\n\ndata: ")
    assert len(events(client)) == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_who_leaves_ends_the_answer(
    client_for: Any, autojump_clock: MockClock, nursery: trio.Nursery, stream: bool
) -> None:
    backend = PlayedBackend([TextPiece("Hi"), 3600.0])
    client = client_for(backend)
    nursery.start_soon(client.post, {**HELLO, "stream": stream})
    await trio.sleep(5)
    assert not backend.over.is_set()
    client.leave()
    with trio.fail_after(0.1):
        await backend.over.wait()


async def test_who_leaves_without_reading_ends_the_answer_too(
    client_for: Any, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    backend = PlayedBackend([TextPiece("Hi"), 3600.0])
    client = client_for(backend)
    client.reads = False
    nursery.start_soon(client.post, {**HELLO, "stream": True})
    await trio.sleep(5)
    client.leave()
    with trio.fail_after(0.1):
        await backend.over.wait()


async def test_a_server_on_its_way_out_answers_503(client_for: Any, autojump_clock: MockClock) -> None:
    backend = PlayedBackend()
    client = client_for(backend)
    client.app.deployment.draining = True
    await client.post(HELLO)
    assert (client.status, client.error["code"]) == (503, "shutting_down")
    assert client.answer_headers[b"retry-after"] == b"1"
    assert backend.asked == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH"])
async def test_another_method_is_405(client_for: Any, autojump_clock: MockClock, method: str) -> None:
    client = client_for(PlayedBackend())
    await client.run(piece(b"", more=False), method=method)
    assert (client.status, client.answer_headers[b"allow"]) == (405, b"POST, OPTIONS")


async def test_a_model_without_chat_has_no_such_route(
    client_for: Any, autojump_clock: MockClock, omni: Any
) -> None:
    backend = PlayedBackend(available=False)
    client = client_for(backend)
    omni.capabilities = DuplexCapabilities()
    await client.post(HELLO)
    assert (client.status, client.error["code"]) == (404, "not_available")
    assert backend.asked == []
