"""Whether a server that runs somewhere can be talked to from here."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import trio

from duplex_trio.cli.doctor.finding import Finding
from duplex_trio.clients import DuplexClient, DuplexClientError
from duplex_trio.clients.url import build_realtime_url

PATIENCE_S = 10.0
"""How long each step may take."""


async def check_server(url: str, api_key: str | None) -> AsyncIterator[Finding]:
    """Ask for its health, and open and close a session.

    Args:
        url: of the server, as `talk --url` takes it.
        api_key: to show, if any.

    Raises:
        ValueError: the URL is none to connect to.
    """
    parts = urlsplit(build_realtime_url(url))
    secure = parts.scheme == "wss"
    root = f"{'https' if secure else 'http'}://{parts.netloc}"
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    title = f"Server {root}"
    try:
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as client:
            answer = await client.get(f"{root}/health")
            yield _health(title, answer)
            yield _models(title, await client.get(f"{root}/v1/models"))
    except httpx.HTTPError as error:
        yield _unreachable(title, error)
        return
    yield await _session(url, api_key)


def _unreachable(title: str, error: httpx.HTTPError) -> Finding:
    """The reason may be in one of the causes alone: the HTTP client says nothing of TLS."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    tls = next((one for one in causes if isinstance(one, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        remedy = "use the name that the certificate is for; one of your own is trusted through SSL_CERT_FILE"
        return Finding(title, "problem", f"its certificate is refused: {tls.verify_message}", remedy)
    if tls is not None:
        said = f"does not speak TLS as we do: {tls}"
        return Finding(title, "problem", said, "ws:// or http:// where there is no TLS")
    reason = next((str(one) for one in causes if str(one)), type(error).__name__)
    return Finding(title, "problem", f"cannot be reached: {reason}", "is it running? duplex-trio serve")


def _health(title: str, answer: httpx.Response) -> Finding:
    try:
        health = answer.json()
        word = str(health["status"])
    except (ValueError, KeyError, TypeError):
        said = f"answers /health with {answer.status_code} and no health: not a server of ours"
        return Finding(title, "problem", said, "look at what listens there")
    model = f", model {health['model']}" if "model" in health else ""
    if answer.status_code == httpx.codes.OK:
        down = [stage["name"] for stage in health.get("stages", ()) if stage["state"] != "ready"]
        if word != "ready":
            return Finding(title, "warning", f"{word}{model}: {', '.join(down)}", f"GET {answer.url}")
        return Finding(title, "ok", f"{word}{model}")
    return Finding(title, "warning", f"{word}{model}", "wait until it is ready")


def _models(title: str, answer: httpx.Response) -> Finding:
    title = f"{title}, key"
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return Finding(title, "problem", "it wants a key, or another one", "--api-key KEY")
    if answer.is_success:
        return Finding(title, "ok", "lets us in")
    return Finding(title, "warning", f"/v1/models answers {answer.status_code}")


async def _session(url: str, api_key: str | None) -> Finding:
    title, begin_s = "Session", trio.current_time()
    try:
        async with DuplexClient(url, api_key=api_key, handshake_timeout_s=PATIENCE_S) as client:
            opened_s = trio.current_time() - begin_s
            kind = client.session_info.get("model")
    except DuplexClientError as error:
        return Finding(title, "problem", f"cannot be opened: {error}", "see the server's log")
    return Finding(title, "ok", f"opened in {opened_s * 1000:.0f} ms with {kind}, and closed")
