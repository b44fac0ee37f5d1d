"""OpenAI's SDK and raw sockets at the chat route of a real server in its own process, with scripted models."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openai
import orjson
import pytest
import trio
from attrs import frozen
from openai import OpenAI

import duplex_trio
from duplex_trio.models.scripted.workers import tone
from duplex_trio.protocol.duplex.audio import pcm16_bytes, read_wav, resample, wav_bytes

pytestmark = pytest.mark.e2e

KEY = "sk-chat"
CHATS_MAX = 2
HELLO: list[Any] = [{"role": "user", "content": "hello there"}]
SPOKEN: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
MP3 = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
ENDLESS: list[Any] = [{"role": "user", "content": "a " * 7900}]
"""Said back, it is an answer that lasts for hours of sound."""


@frozen
class Server:
    port: int
    mode: str
    clients: ExitStack

    @property
    def client(self) -> OpenAI:
        """A new one, closed with the server."""
        client = OpenAI(api_key=KEY, base_url=f"http://127.0.0.1:{self.port}/v1", max_retries=0, timeout=120)
        return self.clients.enter_context(client)

    async def http(self, data: bytes) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        await stream.send_all(data)
        return stream

    async def figures(self) -> dict[str, float]:
        stream = await self.http(bare("GET", "/metrics"))
        body = (await read_all(stream)).partition(b"\r\n\r\n")[2].decode()
        samples = (line.rpartition(" ") for line in body.splitlines() if line[0] != "#")
        return {name: float(value) for name, _, value in samples}

    @property
    def _asked(self) -> str:
        return "duplex_chats" if self.mode == "duplex" else "duplex_requests_running"

    async def until_idle(self) -> None:
        """Wait until no request is in the engine any more."""
        with trio.fail_after(60):
            while (figures := await self.figures())["duplex_live_requests"] or figures[self._asked]:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert not any(
            value for name, value in figures.items() if name.startswith("duplex_stage_live_requests")
        )


async def read_all(stream: trio.SocketStream) -> bytes:
    async with stream:
        return b"".join([chunk async for chunk in stream])


def run_server(folder: Path, base: str, mode: str) -> Iterator[Server]:
    package = str(Path(duplex_trio.__file__).parent.parent)
    deploy = folder / "deploy.yaml"
    deploy.write_text(f"base_config: {base}\nsession_mode: {mode}\n")
    command = [
        sys.executable,
        "-m",
        "duplex_trio",
        "serve",
        "--deploy",
        str(deploy),
        "--port",
        "0",
        "--api-key",
        KEY,
    ]
    process = subprocess.Popen(
        [*command, "--max-chats", str(CHATS_MAX)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": package, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    seen = ""
    try:
        while "Ready." not in seen:
            line = process.stdout.readline()
            assert line, seen
            seen += line
        found = re.search(r"HTTP +http://127\.0\.0\.1:(\d+)", seen)
        assert found is not None, seen
        assert ("WebSocket" in seen) == (mode == "duplex")
        with ExitStack() as clients:
            yield Server(int(found[1]), mode, clients)
    finally:
        process.terminate()
        rest, _ = process.communicate(timeout=30)
        assert "Traceback" not in rest
        assert process.returncode == 0


@pytest.fixture(scope="module", params=["duplex", "turn"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same pipeline behind either stack: every test runs on both."""
    yield from run_server(tmp_path_factory.mktemp("deploy"), "scripted", request.param)


@pytest.fixture(scope="module", params=["duplex", "turn"])
def turns_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The same with a model that calls functions."""
    yield from run_server(tmp_path_factory.mktemp("deploy"), "scripted_turns", request.param)


# ---------------------------------------------------------------------- the SDK


def test_create(server: Server) -> None:
    completion = server.client.chat.completions.create(model="gpt-4o", messages=HELLO, store=True, user="me")
    assert completion.model == "gpt-4o"
    choice = completion.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("You said: hello there", "stop")
    assert completion.usage is not None
    assert completion.usage.total_tokens == 6


def test_stream(server: Server) -> None:
    chunks = list(server.client.chat.completions.create(
        model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}
    ))  # fmt: skip
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "You said: hello there"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4


def test_the_sdks_own_accumulator_takes_the_stream(server: Server) -> None:
    with server.client.chat.completions.stream(model="m", messages=HELLO, **SPOKEN) as stream:
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert "chunk" in kinds
    audio = completion.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == "You said: hello there"
    assert len(read_wav(base64.b64decode(audio.data))[0]) == 4 * 7200


@pytest.mark.parametrize("form", ["wav", "pcm16"])
def test_a_spoken_answer_and_its_continuation(server: Server, form: Any) -> None:
    client = server.client
    spoken = client.chat.completions.create(
        model="m", messages=HELLO, modalities=["text", "audio"], audio={"voice": "alloy", "format": form}
    )
    message = spoken.choices[0].message
    assert message.content is None
    assert message.audio is not None
    assert message.audio.transcript == "You said: hello there"
    data = base64.b64decode(message.audio.data)
    assert len(data) == 2 * 4 * 7200 + (44 if form == "wav" else 0)
    assert message.audio.expires_at > spoken.created
    again = client.chat.completions.create(model="m", messages=[
        *HELLO, {"role": "assistant", "audio": {"id": message.audio.id}}, {"role": "user", "content": "and now?"},
    ])  # fmt: skip
    assert again.choices[0].message.content == "You said: and now?"
    assert again.usage is not None
    assert again.usage.prompt_tokens == 2 + 4 + 2
    dumped = client.chat.completions.create(
        model="m",
        messages=[*HELLO, message.to_dict(), *HELLO],  # type: ignore[list-item]
    )
    assert dumped.usage is not None
    assert dumped.usage.prompt_tokens == 2 + 4 + 2


@pytest.mark.parametrize("form", ["wav", "pcm16"])
def test_sound_is_heard(server: Server, form: str) -> None:
    pcm = tone(1500)
    data = (
        pcm16_bytes(pcm) if form == "pcm16" else wav_bytes(pcm16_bytes(resample(pcm, 24_000, 44_100)), 44_100)
    )
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": form}}
    completion = server.client.chat.completions.create(model="m", messages=[
        {"role": "user", "content": [{"type": "text", "text": "what is this?"}, part]},  # type: ignore[list-item]
    ])  # fmt: skip
    assert completion.choices[0].message.content == "You said: what is this? sound of 1.5 seconds"


def test_stop_and_length(server: Server) -> None:
    create = server.client.chat.completions.create
    choice = create(model="m", messages=HELLO, max_tokens=2).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("You said:", "length")
    choice = create(model="m", messages=HELLO, stop=["lo th"]).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("You said: hel", "stop")


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_turn(turns_server: Server, stream: bool) -> None:
    """The function is called by its name, its answer goes in, and the model goes on."""
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    asked: list[Any] = [{"role": "user", "content": "look"}]
    completions = turns_server.client.chat.completions
    if stream:
        with completions.stream(model="m", messages=asked, tools=tools) as events:
            completion: Any = events.get_final_completion()
    else:
        completion = completions.create(model="m", messages=asked, tools=tools)
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("look", "{}")
    asked += [choice.message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "a blue sky"}]
    final = completions.create(model="m", messages=asked, tools=tools)
    assert final.choices[0].finish_reason == "stop"
    assert "a blue sky" in (final.choices[0].message.content or "")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"n": 2}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"modalities": ["text", "audio"], "audio": {"voice": "v", "format": "mp3"}}, "audio.format"),
        ({"extra_body": {"best_of": 3}}, "best_of"),
        ({"messages": [{"role": "user", "content": [MP3]}]}, "messages[0].content[0].input_audio.format"),
        ({"messages": [{"role": "assistant", "audio": {"id": "audio-of-somebody"}}]}, "messages[0].audio.id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_a_bad_request(
    server: Server, fields: dict[str, Any], param: str, stream: bool
) -> None:
    asked: dict[str, Any] = {"model": "m", "messages": HELLO, "stream": stream, **fields}
    with pytest.raises(openai.BadRequestError) as caught:
        server.client.chat.completions.create(**asked)
    assert caught.value.param == param
    assert caught.value.code


def test_a_wrong_key_is_an_authentication_error(server: Server) -> None:
    with pytest.raises(openai.AuthenticationError):
        server.client.with_options(api_key="sk-wrong").chat.completions.create(model="m", messages=HELLO)


def test_no_room_is_a_rate_limit_and_room_again_afterwards(server: Server) -> None:
    client = server.client
    held = [
        client.chat.completions.create(model="m", messages=ENDLESS, stream=True, **SPOKEN)
        for _ in range(CHATS_MAX)
    ]
    for stream in held:
        next(iter(stream))
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="m", messages=HELLO)
    assert caught.value.response.headers["retry-after"] == "1"
    for stream in held:
        stream.close()
    patient = client.with_options(max_retries=5)
    assert patient.chat.completions.create(model="m", messages=HELLO).choices[0].message.content


def test_models(server: Server) -> None:
    client = server.client
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("scripted").id == "scripted"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


async def test_health_and_metrics_tell_of_chats(server: Server) -> None:
    """In both modes, of the same pipeline: its stages, what is asked of them, and that all is well."""
    before = await server.figures()
    chat = partial(server.client.chat.completions.create, model="m", messages=HELLO, **SPOKEN)
    await trio.to_thread.run_sync(chat)
    await server.until_idle()
    after = await server.figures()
    grown = {name for name, value in after.items() if value > before.get(name, 0)}
    assert {'duplex_stage_outputs_total{stage="llm"}', 'duplex_stage_outputs_total{stage="tts"}'} <= grown
    body = (await read_all(await server.http(bare("GET", "/health")))).partition(b"\r\n\r\n")[2]
    told = orjson.loads(body)
    assert (told["status"], told["session_mode"], told["model"]) == ("ready", server.mode, "scripted")
    stages = [(stage["name"], stage["state"]) for stage in told["stages"]]
    assert stages[:3] == [("asr", "ready"), ("llm", "ready"), ("tts", "ready")]


# ---------------------------------------------------------------------- bytes


def head(method: str, path: str, **headers: str) -> bytes:
    fields = {"Host": "x", "Authorization": f"Bearer {KEY}", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()


def post(body: Any, **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return head("POST", "/v1/chat/completions", Content_Length=str(len(data)), **headers) + data


def bare(method: str, path: str, **headers: str) -> bytes:
    return head(method, path, Connection="close", **headers)


async def live(server: Server) -> None:
    """A new request is answered."""
    answer = await read_all(await server.http(post({"messages": HELLO}, Connection="close")))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"You said: hello there" in answer


@asynccontextmanager
async def asking(server: Server, **fields: Any) -> AsyncIterator[trio.SocketStream]:
    """A request whose answer is being made."""
    await server.until_idle()
    stream = await server.http(
        # Without a word about its length it would be over in less time than it takes to look for it.
        post(
            {"messages": ENDLESS, "max_completion_tokens": 100_000, **fields},
            Content_Type="application/x-www-form-urlencoded",
        )
    )
    with trio.fail_after(60):
        while not (await server.figures())["duplex_live_requests"]:  # noqa: ASYNC110
            await trio.sleep(0.02)
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("fields", [{"stream": True, **SPOKEN}, SPOKEN], ids=["stream", "whole"])
@pytest.mark.parametrize("how", ["close", "half", "reset"])
async def test_who_leaves_frees_the_model(server: Server, fields: dict[str, Any], how: str) -> None:
    """B03, as curl sends it: whether the answer is streamed or not, and however the client goes."""
    async with asking(server, **fields) as stream:
        if how == "half":
            await stream.send_eof()
        else:
            if how == "reset":
                stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            await trio.aclose_forcefully(stream)
        await server.until_idle()
    await live(server)


async def test_who_stops_reading_and_leaves_frees_the_model(server: Server) -> None:
    async with asking(server, stream=True, **SPOKEN) as stream:
        await trio.sleep(0.5)  # for the buffers of the kernel to fill
        await trio.aclose_forcefully(stream)
        await server.until_idle()
    await live(server)


async def test_a_chatting_client_may_say_more_at_once(server: Server) -> None:
    """Two requests in one breath are answered one after the other on their connection."""
    two = post({"messages": HELLO}) + post({"messages": HELLO}, Connection="close")
    answer = await read_all(await server.http(two))
    assert answer.count(b"You said: hello there") == 2


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post(b"{", Connection="close"), 400),
        (post({"messages": HELLO}, Content_Type="text/plain", Connection="close"), 415),
        (post(b"x" * 26 * 2**20, Connection="close"), 413),
        (post({"messages": HELLO}, Authorization="Bearer no", Connection="close"), 401),
        (post({"messages": HELLO}, Origin="https://evil.example", Connection="close"), 403),
        (post({"messages": HELLO}, Expect="100-continue", Connection="close"), 200),
        (bare("GET", "/v1/chat/completions?stream=true"), 405),
        (bare("HEAD", "/v1/models?limit=3"), 200),
        (bare("OPTIONS", "/v1/chat/completions", Origin="http://localhost", Access_Control_Request_Method="POST"), 204),
        (bare("GET", "/v1/" + "x" * 9000), 404),
        (bare("GET", "/%ff%00"), 404),
    ],
    ids=[
        "bad json", "content type", "too large", "key", "origin", "expect", "method", "head", "preflight", "long",
        "no text",
    ],
)  # fmt: skip
async def test_raw_requests(server: Server, request_bytes: bytes, status: int) -> None:
    with trio.fail_after(60):
        answer = await read_all(await server.http(request_bytes))
    found = re.findall(rb"HTTP/1\.1 (\d+) ", answer)
    assert int(found[-1]) == status
    fields, _, body = answer.rpartition(b"\r\n\r\n")
    if b"HEAD " in request_bytes or status == 204:
        assert body == b""
        assert (b"content-length" in fields) == (status != 204)
    elif status >= 400:
        assert set(orjson.loads(body)["error"]) == {"message", "type", "param", "code"}
    await live(server)


async def test_chats_beside_a_session_leave_it_alone(server: Server) -> None:
    """A voice session goes through its turn while chats are asked and given up beside it."""
    if server.mode != "duplex":
        pytest.skip("it has no sessions")
    before = await server.figures()
    async with asking(server, stream=True, **SPOKEN):
        await trio.to_thread.run_sync(_hold_a_turn, server)
    await server.until_idle()
    after = await server.figures()
    assert after["duplex_sessions_opened_total"] == before["duplex_sessions_opened_total"] + 1
    cancelled = 'duplex_chat_completions_total{status="cancelled"}'
    assert after[cancelled] == before[cancelled] + 1
    assert after["duplex_leaked_requests_total"] == 0


def _hold_a_turn(server: Server) -> None:
    client = OpenAI(api_key=KEY, websocket_base_url=f"ws://127.0.0.1:{server.port}/v1")
    with client.realtime.connect(model="m") as connection:
        pcm = np.concatenate([tone(600), np.zeros(24_000, np.float32)])
        for start in range(0, len(pcm), 2400):
            data = pcm16_bytes(pcm[start : start + 2400])
            connection.input_audio_buffer.append(audio=base64.b64encode(data).decode())
        for event in connection:
            if event.type == "response.done":
                assert event.response.status == "completed"
                return
