"""A real server with the scripted model of video, and clients that watch, steer, misbehave and leave."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import orjson
import pytest
import trio
import trio_websocket
import trustme
from prometheus_client.parser import text_string_to_metric_families
from trio_websocket import ConnectionClosed, WebSocketConnection

from duplex_trio.clients import RealtimeVideoClient
from duplex_trio.clients.video import VideoRefusedError
from duplex_trio.deploy import VideoSessionDeploy
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.serving.address import ServerAddress
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.raw_websocket import BINARY, CLOSE, FIN, TEXT, RawWebSocket, frame, upgrade_request
from duplex_trio.testing.video_frames import decode_frames

pytestmark = pytest.mark.e2e

Serve = Callable[..., Awaitable[ServerAddress]]
PATH = "/v1/realtime/video"
GUARD_S = 60.0


def make_video(max_sessions: int = 2, **limits: Any) -> VideoOmni:
    return VideoOmni(
        ScriptedVideoPipeline(), limits=VideoSessionDeploy(max_sessions=max_sessions, **limits), warm_up=False
    )


@pytest.fixture(params=["native", "asgi"])
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def serve(nursery: trio.Nursery, transport: str) -> Serve:
    """Start a server of video alone; every test runs on both WebSocket paths."""

    async def start(*, limits: Mapping[str, Any] | None = None, **options: Any) -> ServerAddress:
        settings = ServeOptions(port=0, ws=transport, **options)  # type: ignore[arg-type]
        factory = partial(make_video, **(limits or {}))
        address: ServerAddress = await nursery.start(partial(run_server, factory, settings))
        return address

    return start


class Watcher:
    """One client: what it was told, and each pair as it came."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self.socket = socket
        self.started: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.pairs: list[tuple[dict[str, Any], bytes]] = []

    async def say(self, **message: Any) -> None:
        await self.socket.send_message(orjson.dumps(message).decode())

    async def start(self, prompt: str = "red", **fields: Any) -> Watcher:
        await self.say(type="session.start", prompt=prompt, **fields)
        self.started = await self.until("video.start")
        return self

    async def interact(self, prompt: str, event_id: str, **fields: Any) -> None:
        await self.say(
            type="session.interaction",
            interaction={"event_id": event_id, "event": {"prompt": prompt}, **fields},
        )

    async def next(self) -> dict[str, Any]:
        """The next event; a pair is told as its metadata, once it is whole."""
        with trio.fail_after(GUARD_S):
            event: dict[str, Any] = orjson.loads(await self.socket.get_message())
            if event["type"] == "video.chunk_metadata":
                payload = await self.socket.get_message()
                assert isinstance(payload, bytes), "something came between the halves of a pair"
                assert len(payload) == event["byte_length"]
                self.pairs.append((event, payload))
        self.events.append(event)
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        while (event := await self.next())["type"] != kind:
            pass
        return event

    async def until_closed(self) -> tuple[int, str]:
        with pytest.raises(ConnectionClosed) as ended:
            await self.until("no such event")
        reason = ended.value.reason
        assert reason is not None
        return reason.code, reason.reason or ""

    def decoded(self) -> int:
        return len(decode_frames(b"".join(payload for _, payload in self.pairs)))


@asynccontextmanager
async def watching(address: ServerAddress, **options: Any) -> AsyncIterator[Watcher]:
    async with trio_websocket.open_websocket_url(address.video_ws_url, **options) as socket:
        try:
            yield Watcher(socket)
        finally:
            with trio.move_on_after(5, shield=True):
                await socket.aclose()
            # A client of this library that was closed by its server may be left before TCP has ended.
            await trio.aclose_forcefully(socket._stream)


async def refused(address: ServerAddress, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """The status and the code with which a request for a WebSocket is refused."""
    raw = await RawWebSocket.open(address.port)
    await raw.send(upgrade_request(PATH, headers))
    with trio.fail_after(GUARD_S):
        status, found = await raw.response_head()
        body = await raw.read(int(found["content-length"]))
    assert body is not None
    await raw.aclose()
    code: str = orjson.loads(body)["error"]["code"]
    return status, code


async def http(
    address: ServerAddress, path: str, method: str = "GET", key: str | None = None
) -> tuple[int, bytes]:
    stream = await trio.open_tcp_stream("127.0.0.1", address.port)
    async with stream:
        authorization = "" if key is None else f"Authorization: Bearer {key}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}\r\n"
        await stream.send_all(head.encode())
        answer = b""
        while data := await stream.receive_some():
            answer += data
    top, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in top.lower():
        body = b"".join(body.split(b"\r\n")[1::2])
    return int(top.split(b" ")[1]), body


async def figures(address: ServerAddress) -> dict[str, float]:
    status, body = await http(address, "/metrics")
    assert status == 200
    names: list[str] = []
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(body.decode()):
        names.append(family.name)
        for sample in family.samples:
            found[sample.name + "".join(f"{{{k}={v}}}" for k, v in sample.labels.items())] = sample.value
    assert len(names) == len(set(names)), "a family is there twice"
    return found


async def until_figure(address: ServerAddress, name: str, value: float) -> None:
    with trio.fail_after(GUARD_S):
        while (await figures(address))[name] != value:  # noqa: ASYNC110  it is in another process, by rights
            await trio.sleep(0.02)


# ---------------------------------------------------------------------- a whole video


async def test_a_video_is_watched_steered_and_comes_to_its_end(serve: Serve) -> None:
    address = await serve()
    async with watching(address) as watcher:
        await watcher.start(
            num_frames=45, streaming_buffer_seconds=None, extra_params={"frame_delay_s": 0.01}
        )
        assert watcher.started["config"]["model"] == "scripted_video"
        await watcher.interact("blue", "a", transition_chunks=2)
        await watcher.say(type="session.ping")
        done = await watcher.until("session.done")
        assert await watcher.until_closed() == (1000, "done")
    media = [metadata for metadata, _ in watcher.pairs if metadata["kind"] == "media"]
    assert done["frames"] == sum(metadata["num_frames"] for metadata in media) == 45 == watcher.decoded()
    assert done["chunks"] == len(watcher.pairs)
    assert done["interactions"] == {"a": "completed"}
    assert [m["transport_chunk_index"] for m, _ in watcher.pairs] == list(range(len(watcher.pairs)))
    assert [m["started_event_ids"] for m in media].count(["a"]) == 1
    assert [m["completed_event_ids"] for m in media].count(["a"]) == 1
    kinds = [event["type"] for event in watcher.events]
    assert kinds.index("session.interaction.queued") < next(
        index for index, event in enumerate(watcher.events) if event.get("started_event_ids")
    )
    assert "session.pong" in kinds
    await until_figure(address, "duplex_videos_ended_total{outcome=done}", 1)
    told = await figures(address)
    assert told["duplex_video_frames_total"] == 45
    assert told["duplex_video_bytes_total"] == sum(len(payload) for _, payload in watcher.pairs)


async def test_two_watch_at_once_and_a_third_is_refused(serve: Serve) -> None:
    address = await serve()
    async with watching(address) as one, watching(address) as other:
        await one.start("red")
        await other.start("blue")
        assert one.started["request_id"] != other.started["request_id"]
        async with watching(address) as third:
            await third.say(type="session.start", prompt="green")
            error = await third.next()
            assert (error["type"], error["code"]) == ("error", "resource_exhausted")
            assert await third.until_closed() == (1013, "resource_exhausted")
        for watcher in (one, other):
            await watcher.until("video.chunk_metadata")
            await watcher.say(type="session.stop")
            done = await watcher.until("session.done")
            assert done["stopped"]
            assert await watcher.until_closed() == (1000, "stopped")
    await until_figure(address, "duplex_videos", 0)


async def test_who_leaves_without_a_word_frees_the_place(serve: Serve) -> None:
    address = await serve(limits={"max_sessions": 1})
    raw = await RawWebSocket.open(address.port)
    await raw.send(upgrade_request(PATH))
    assert (await raw.response_head())[0] == 101
    await raw.send_text('{"type": "session.start", "prompt": "red", "streaming_buffer_seconds": null}')
    assert await raw.receive() is not None
    assert (await figures(address))["duplex_videos"] == 1
    await trio.aclose_forcefully(raw.stream)
    await until_figure(address, "duplex_videos", 0)
    await until_figure(address, "duplex_videos_ended_total{outcome=aborted}", 1)
    async with watching(address) as watcher:
        await watcher.start(num_frames=9)
        await watcher.until("session.done")


@pytest.mark.slow
async def test_a_client_that_does_not_read_stops_its_generation(serve: Serve) -> None:
    """And is given up after a while; a slow one is only slow."""
    address = await serve(limits={"max_sessions": 1, "send_timeout_s": 1.0})
    raw = await RawWebSocket.open(address.port)
    await raw.send(upgrade_request(PATH))
    await raw.response_head()
    start = {"type": "session.start", "prompt": "red", "width": 512, "height": 512}
    await raw.send_text(orjson.dumps({**start, "streaming_buffer_seconds": None}).decode())
    await until_figure(address, "duplex_videos_started_total", 1)
    await until_figure(address, "duplex_videos", 0)
    told = await figures(address)
    ended = told["duplex_videos_ended_total{outcome=send_timeout}"]
    assert ended + told["duplex_videos_ended_total{outcome=aborted}"] == 1
    await raw.aclose()


# ---------------------------------------------------------------------- bad input


async def test_binary_and_long_messages_are_answered_and_too_long_ones_close(serve: Serve) -> None:
    address = await serve()
    async with watching(address) as watcher:
        await watcher.start()
        await watcher.socket.send_message(b"\x00\x01")
        assert (await watcher.until("error"))["code"] == "invalid_message"
        await watcher.say(type="session.interaction", interaction={"event": {"prompt": "x" * 200_000}})
        assert (await watcher.until("error"))["code"] == "message_too_large"
        await watcher.interact("blue", "a")
        assert (await watcher.until("session.interaction.queued"))["event_id"] == "a"
        await watcher.socket.send_message("x" * (1024 * 1024 + 1))
        assert (await watcher.until_closed())[0] == 1009
    await until_figure(address, "duplex_videos", 0)


async def test_the_first_message_starts_a_video_or_nothing(serve: Serve) -> None:
    address = await serve()
    for text, code in (
        ("{", "invalid_json"),
        ('{"type": "session.ping"}', "session_not_started"),
        ('{"type": "session.start", "prompt": " "}', "invalid_start"),
        ('{"type": "session.start", "prompt": "a", "width": 333}', "invalid_start"),
        ('{"type": "session.start", "prompt": "a", "model": "other"}', "model_not_found"),
    ):
        async with watching(address) as watcher:
            await watcher.socket.send_message(text)
            assert (await watcher.next())["code"] == code
            assert await watcher.until_closed() == (1008, code)
    async with watching(address) as watcher:
        await watcher.start(model="scripted_video", num_frames=1)
        await watcher.until("session.done")


async def test_a_silent_client_is_told_so(serve: Serve) -> None:
    address = await serve(limits={"start_timeout_s": 0.2})
    async with watching(address) as watcher:
        assert (await watcher.next())["code"] == "start_timeout"
        assert await watcher.until_closed() == (1008, "start_timeout")


# ---------------------------------------------------------------------- who may come in


async def test_a_key_is_asked_for_before_the_upgrade(serve: Serve) -> None:
    address = await serve(api_keys=("right",))
    assert await refused(address) == (401, "invalid_api_key")
    assert await refused(address, {"Authorization": "Bearer wrong"}) == (401, "invalid_api_key")
    offered = ["realtime", "openai-insecure-api-key.right"]
    for options in ({"subprotocols": offered}, {"extra_headers": [("Authorization", "Bearer right")]}):
        async with watching(address, **options) as watcher:
            assert watcher.socket.subprotocol == ("realtime" if "subprotocols" in options else None)
            await watcher.start(num_frames=1)
            await watcher.until("session.done")


async def test_pages_from_elsewhere_are_kept_out(serve: Serve) -> None:
    address = await serve()
    assert await refused(address, {"Origin": "https://elsewhere.example"}) == (403, "origin_not_allowed")


async def test_what_is_no_websocket_is_told_to_upgrade(serve: Serve) -> None:
    address = await serve()
    status, body = await http(address, PATH)
    assert (status, orjson.loads(body)["error"]["code"]) == (426, "upgrade_required")
    assert (await http(address, PATH, "POST"))[0] == 404


async def test_no_extension_is_agreed_to(serve: Serve) -> None:
    """What is sent is compressed already."""
    address = await serve()
    raw = await RawWebSocket.open(address.port)
    await raw.send(upgrade_request(PATH, {"Sec-WebSocket-Extensions": "permessage-deflate"}))
    status, headers = await raw.response_head()
    assert (status, headers.get("sec-websocket-extensions")) == (101, None)
    await raw.send_text('{"type": "session.start", "prompt": "red", "num_frames": 1}')
    kinds = []
    while (got := await raw.receive()) is not None and got.opcode != CLOSE:
        kinds.append(got.opcode)
    assert kinds == [TEXT, TEXT, BINARY, TEXT, BINARY, TEXT]
    await raw.send(frame(FIN | CLOSE, b""))
    await raw.aclose()


# ---------------------------------------------------------------------- what else there is


async def test_speech_leads_nowhere_where_video_is_served_alone(serve: Serve) -> None:
    address = await serve()
    raw = await RawWebSocket.open(address.port)
    await raw.send(upgrade_request("/v1/realtime"))
    assert (await raw.response_head())[0] == 101
    told = await raw.receive()
    assert told is not None
    assert orjson.loads(told.payload)["error"]["code"] == "unsupported"
    goodbye = await raw.receive()
    assert goodbye is not None
    assert goodbye.close_code == 1008
    await raw.aclose()
    for path, method in (("/v1/chat/completions", "POST"), ("/v1/realtime/capabilities", "GET")):
        assert (await http(address, path, method))[0] == 404
    status, body = await http(address, "/health")
    health = orjson.loads(body)
    assert (status, health["status"], health["session_mode"]) == (200, "ready", "video")
    assert (health["video"]["videos"], health["video"]["max_videos"]) == (0, 2)
    assert [stage["name"] for stage in health["video"]["stages"]] == ["text_encoder"]
    listed = orjson.loads((await http(address, "/v1/models"))[1])["data"]
    assert [model["id"] for model in listed] == ["scripted_video"]


async def test_the_model_is_served_under_another_name(serve: Serve) -> None:
    address = await serve(model_name="mine")
    listed = orjson.loads((await http(address, "/v1/models"))[1])["data"]
    assert [model["id"] for model in listed] == ["mine"]
    async with watching(address) as watcher:
        await watcher.start(model="mine", num_frames=1)
        assert watcher.started["config"]["model"] == "mine"
        await watcher.until("session.done")


async def test_a_video_is_watched_over_tls(
    nursery: trio.Nursery, transport: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where nothing can be written without waiting."""
    authority, folder = trustme.CA(), tmp_path_factory.mktemp("tls")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / "both.pem"))
    files = {"certfile": str(folder / "both.pem"), "keyfile": str(folder / "both.pem")}
    settings = ServeOptions(port=0, ws=transport, **files)  # type: ignore[arg-type]
    address: ServerAddress = await nursery.start(partial(run_server, make_video, settings))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with watching(address, ssl_context=context) as watcher:
        await watcher.start(width=512, height=512, num_frames=45)
        done = await watcher.until("session.done")
        assert done["frames"] == 45 == watcher.decoded()


@pytest.mark.parametrize("mode", ["duplex", "turn"])
async def test_both_engines_are_behind_one_port(nursery: trio.Nursery, transport: str, mode: str) -> None:
    def make_omni() -> AsyncOmni:
        pipeline = ScriptedPipeline()
        return (DuplexOmni if mode == "duplex" else AsyncOmni)(pipeline, warm_up=False)

    serving = partial(
        run_server,
        make_omni,
        ServeOptions(port=0, ws=transport),  # type: ignore[arg-type]
        video_factory=make_video,
    )
    address: ServerAddress = await nursery.start(serving)
    async with watching(address) as watcher:
        await watcher.start(num_frames=9)
        assert (await figures(address))["duplex_stage_alive{stage=llm}"] == 1
        await watcher.until("session.done")
    told = await figures(address)
    assert told["duplex_video_stage_alive{stage=text_encoder}"] == 1
    health = orjson.loads((await http(address, "/health"))[1])
    assert (health["status"], health["session_mode"], health["video"]["status"]) == ("ready", mode, "ready")
    listed = orjson.loads((await http(address, "/v1/models"))[1])["data"]
    assert [model["id"] for model in listed] == [health["model"], "scripted_video"]
    assert (await http(address, "/v1/models/scripted_video"))[0] == 200


async def test_where_no_video_is_served_its_websocket_says_so(nursery: trio.Nursery, transport: str) -> None:
    def make_omni() -> AsyncOmni:
        return AsyncOmni(ScriptedPipeline(), warm_up=False)

    settings = ServeOptions(port=0, ws=transport)  # type: ignore[arg-type]
    address: ServerAddress = await nursery.start(partial(run_server, make_omni, settings))
    async with watching(address) as watcher:
        told = await watcher.next()
        assert told["error"]["code"] == "unsupported"
        assert "serves no video" in told["error"]["message"]
        assert (await watcher.until_closed())[0] == 1008
    with pytest.raises(VideoRefusedError) as refused:
        async with RealtimeVideoClient(address.ws_url, prompt="red"):
            pytest.fail("there is no video")
    assert refused.value.code == "unsupported"
    assert (await http(address, PATH))[0] == 404


class Stuck(ScriptedVideoPipeline):
    """Is loading until its gate is opened."""

    def __init__(self, gate: trio.Event) -> None:
        super().__init__()
        self._gate = gate

    def build_video_plugin(self) -> Any:
        plugin = super().build_video_plugin()
        plugin.load = partial(trio.from_thread.run, self._gate.wait)
        return plugin


async def test_nothing_is_served_before_the_model_is_warm(nursery: trio.Nursery, transport: str) -> None:
    gate = trio.Event()
    ready = trio.Event()
    found: list[ServerAddress] = []

    class Status:
        def started(self, value: ServerAddress | None = None) -> None:
            assert value is not None
            found.append(value)
            ready.set()

    def make() -> VideoOmni:
        return VideoOmni(Stuck(gate), warm_up=False)

    port = await free_port()
    settings = ServeOptions(port=port, ws=transport)  # type: ignore[arg-type]
    nursery.start_soon(partial(run_server, make, settings, task_status=Status()))
    address = ServerAddress("127.0.0.1", port)
    with trio.fail_after(GUARD_S):
        while True:
            try:
                status, body = await http(address, "/health")
                break
            except OSError:
                await trio.sleep(0.02)
    assert (status, orjson.loads(body)["status"]) == (503, "loading")
    assert await refused(address) == (503, "loading")
    gate.set()
    with trio.fail_after(GUARD_S):
        await ready.wait()
    async with watching(attrs.evolve(found[0])) as watcher:
        await watcher.start(num_frames=1)
        await watcher.until("session.done")


async def free_port() -> int:
    listener = trio.socket.socket()
    with listener:
        await listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
