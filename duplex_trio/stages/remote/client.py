"""One engine's API over httpx: which models it has, and one streamed answer.

Proxies and other settings of the environment are not looked at: what a deployment says is all that counts, and a key
goes nowhere else. For the same reason no redirect is followed.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import trio
from attrs import frozen

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.stages.remote.faults import RemoteFault, of_status

KEEP_ALIVE_S = 4.0
"""How long an idle connection is kept: vLLM closes its end after five seconds, and a request that meets that has to be
sent again."""
BODY_BYTES_MAX = 1024 * 1024
"""Most that is read of an answer that is no stream: a list of models, or an error."""
CLOSE_S = 1.0
"""How long closing a connection may take; it says no farewell."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@frozen
class ServedModel:
    """A model of an engine; `context_tokens` is None where the engine does not tell."""

    name: str
    context_tokens: int | None


class RemoteClient:
    """Asks one engine. `opened` first.

    Args:
        remote: the engine.
        environment: where its key is.
        transport: carries requests instead of httpx's own.

    Raises:
        ValueError: the address, a header or the file of certificates is faulty, or the key is not there.
    """

    def __init__(
        self,
        remote: RemoteDeploy,
        *,
        environment: Mapping[str, str] = os.environ,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._remote = remote
        self._base_url = _checked_url(remote.base_url)
        self.key = _key(remote, environment)
        self.address = urlsplit(self._base_url).netloc
        self._headers = _headers(remote, self.key)
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=_trust(remote.ca_file) if self._base_url.startswith("https:") else False,
            trust_env=False,
            limits=httpx.Limits(
                max_connections=None,  # the stage bounds answers; its own questions must not wait behind them
                max_keepalive_connections=remote.max_connections,
                keepalive_expiry=KEEP_ALIVE_S,
            ),
        )
        timeouts = httpx.Timeout(None, connect=remote.connect_timeout_s)
        self._client = httpx.AsyncClient(
            headers=self._headers, timeout=timeouts, transport=self._transport, trust_env=False
        )

    async def __aenter__(self) -> RemoteClient:
        """Ready to ask."""
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        with trio.move_on_after(CLOSE_S, shield=True):
            await self._client.__aexit__()

    async def models(self) -> list[ServedModel]:
        """The models that the engine has.

        Raises:
            RemoteFault: it did not answer in `connect_timeout_s`, or not with a list of models.
        """
        with trio.move_on_after(self._remote.connect_timeout_s):
            async with self._answer("GET", "/models", None) as response:
                return _models(await _read(response))
        raise RemoteFault(
            "engine_dead",
            f"the remote engine at {self.address} does not answer within {self._remote.connect_timeout_s:g} s",
            again=True,
            unreachable=True,
        )

    @asynccontextmanager
    async def chat(self, body: Mapping[str, Any]) -> AsyncIterator[httpx.Response]:
        """Ask for an answer: a stream of events. Leaving the block ends the connection if more would come.

        Raises:
            RemoteFault: there is no such stream.
        """
        async with self._answer("POST", "/chat/completions", orjson.dumps(body)) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in ("", "text/event-stream"):
                raise RemoteFault(
                    "engine_error", f"the remote engine answers with {kind[:64]} instead of a stream"
                )
            yield response

    @asynccontextmanager
    async def _answer(self, method: str, path: str, body: bytes | None) -> AsyncIterator[httpx.Response]:
        headers = {"content-type": "application/json"} if body is not None else {}
        request = self._client.build_request(method, self._base_url + path, content=body, headers=headers)
        request.stream = _Body(body or b"")
        with as_faults(self.address):
            response = await self._client.send(request, stream=True)
        try:
            if response.status_code != 200:
                with as_faults(self.address):
                    said = await _read(response)
                raise of_status(response.status_code, response.headers, said, self.key)
            yield response
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await response.aclose()


class _Body(httpx.AsyncByteStream):
    """The bytes of a request, without the generator of httpx's own that a cancellation would leave unfinished."""

    def __init__(self, body: bytes) -> None:
        self._rest = [body] if body else []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()


@contextmanager
def as_faults(address: str) -> Iterator[None]:
    """Turn what httpx raises within the block into a `RemoteFault`."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise RemoteFault(
            "engine_dead",
            f"the remote engine at {address} cannot be reached: {_reason(error)}",
            again=True,
            unreachable=True,
        ) from error
    except httpx.HTTPError as error:
        raise RemoteFault(
            "engine_error",
            f"the connection to the remote engine at {address} broke off: {_reason(error)}",
            again=True,
            unreachable=True,
        ) from error


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def _read(response: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size <= BODY_BYTES_MAX:  # what is behind is read and dropped: breaking off leaves httpx unfinished
            parts.append(part)
    return b"".join(parts)[:BODY_BYTES_MAX]


def _models(body: bytes) -> list[ServedModel]:
    try:
        listed = orjson.loads(body)["data"]
        models = [ServedModel(entry["id"], _size(entry.get("max_model_len"))) for entry in listed]
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise RemoteFault(
            "engine_error", "the remote engine answers /models with no list of models"
        ) from error
    return [model for model in models if isinstance(model.name, str)]


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _checked_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"base_url must be http://HOST[:PORT]/PATH or https://..., not {base_url!r}")
    if "@" in parts.netloc:
        raise ValueError("base_url must hold no user or password; name a variable with api_key_env instead")
    if parts.query or parts.fragment:
        raise ValueError(f"base_url must have no query and no fragment, but is {base_url!r}")
    return base_url.rstrip("/")


def _key(remote: RemoteDeploy, environment: Mapping[str, str]) -> str | None:
    if remote.api_key_env is None:
        return None
    key = environment.get(remote.api_key_env, "").strip()
    if not key:
        raise ValueError(f"api_key_env names {remote.api_key_env}, which is not set in the environment")
    if not key.isascii() or not key.isprintable():
        raise ValueError(f"the key in {remote.api_key_env} has characters that no header can hold")
    return key


def _headers(remote: RemoteDeploy, key: str | None) -> dict[str, str]:
    headers = {
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",  # a compressed stream is gathered before it is sent
    }
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    for name, value in remote.headers.items():
        text = str(value)
        if not _HEADER_NAME.fullmatch(name) or not text.isascii() or not text.isprintable():
            raise ValueError(
                f"headers.{name}: a header has a name of letters, digits and dashes, and ASCII text"
            )
        headers[name.lower()] = text
    return headers


def _trust(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ValueError(f"ca_file {ca_file!r} cannot be read: {error}") from error
