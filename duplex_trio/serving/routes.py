"""The HTTP routes: a table, and the bodies of the small ones. What is not in it gets the one body of D13."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson
import trio
from attrs import define, field, frozen
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from duplex_trio.protocol.dialects import Dialect
from duplex_trio.serving.asgi import JSON
from duplex_trio.serving.auth import Refusal
from duplex_trio.serving.channel import Header
from duplex_trio.serving.envelope import DUPLEX_PATH, REALTIME_PATH

if TYPE_CHECKING:
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni
CHAT_PATH = "/v1/chat/completions"
PATH_CHARS_MAX = 200
"""How much of a path is said back."""
_MODEL_PREFIX = "/v1/models/"


@frozen
class Response:
    """A whole HTTP response."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)


@define(kw_only=True)
class Deployment:
    """What is served, for those who answer about it.

    Attributes:
        omni: the engine.
        model_name: the name under which it is served.
        created_s: when the server started, in seconds since 1970.
        max_model_len: tokens the language model takes; None when the deployment does not say.
        draining: the server is on its way out and takes no new sessions.
        undecided: around waits for clients that have not said yet what they want; cancelled by the drain.
    """

    omni: DuplexOmni
    model_name: str
    created_s: int
    max_model_len: int | None = None
    draining: bool = False
    undecided: set[trio.CancelScope] = field(factory=set)

    def begin_drain(self) -> None:
        """Take no new sessions from here on, and let nobody wait for one."""
        self.draining = True
        for scope in self.undecided:
            scope.cancel()

    @property
    def healthy(self) -> bool:
        """Whether new sessions are welcome."""
        return self.omni.healthy and not self.draining


def error_body(kind: str, code: str, message: str) -> dict[str, Any]:
    """The body of every HTTP error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def refusal_response(refusal: Refusal) -> Response:
    """Answer a request that may not come in."""
    body = orjson.dumps(error_body("invalid_request_error", refusal.code, refusal.message))
    authenticate = ((b"www-authenticate", b"Bearer"),) if refusal.status == 401 else ()
    return Response(refusal.status, body, (JSON, *authenticate))


def server_error(message: str) -> Response:
    """Answer a request that failed through no fault of its client."""
    return Response(500, orjson.dumps(error_body("server_error", "internal_error", message)))


def respond_to(deployment: Deployment, method: str, path: str) -> Response:
    """Answer a request whose body does not matter."""
    if path in (REALTIME_PATH, DUPLEX_PATH) and method == "GET":
        message = f"{path} is a WebSocket; ask for an upgrade"
        body = orjson.dumps(error_body("invalid_request_error", "upgrade_required", message))
        return Response(426, body, (JSON, (b"upgrade", b"websocket")))
    allowed = _methods(deployment, path)
    if allowed is None:
        message = f"{_said_back(path)} is not available in this deployment"
        return Response(404, orjson.dumps(error_body("not_found_error", "not_available", message)))
    allow = (b"allow", ", ".join([*allowed, "OPTIONS"]).encode())
    if method == "OPTIONS":
        return Response(204, b"", (allow,))
    if method not in allowed:
        message = f"{_said_back(path)} has no {method[:16]}"
        body = orjson.dumps(error_body("invalid_request_error", "method_not_allowed", message))
        return Response(405, body, (JSON, allow))
    if path.startswith(_MODEL_PREFIX):
        return _model(deployment, path.removeprefix(_MODEL_PREFIX))
    return _GET[path](deployment)


def _said_back(text: str) -> str:
    """A client's text in an answer: not too long, and Unicode, which a path need not be."""
    return text[:PATH_CHARS_MAX].encode(errors="replace").decode()


def _methods(deployment: Deployment, path: str) -> tuple[str, ...] | None:
    """What may be done at a path; None where there is nothing."""
    if path in _GET or path.startswith(_MODEL_PREFIX):
        return ("GET", "HEAD")
    if path == CHAT_PATH and deployment.omni.capabilities.supports_chat_completions:
        return ("POST",)
    return None


def _health(deployment: Deployment) -> Response:
    if deployment.healthy:
        return Response(200, orjson.dumps({"status": "healthy"}))
    return Response(503, orjson.dumps({"status": "unhealthy"}))


def _models(deployment: Deployment) -> Response:
    return Response(200, orjson.dumps({"object": "list", "data": [_described(deployment)]}))


def _model(deployment: Deployment, name: str) -> Response:
    if name == deployment.model_name:
        return Response(200, orjson.dumps(_described(deployment)))
    message = f"there is no model {_said_back(name)!r}; this deployment serves {deployment.model_name!r}"
    return Response(404, orjson.dumps(error_body("not_found_error", "model_not_found", message)))


def _described(deployment: Deployment) -> dict[str, Any]:
    name = deployment.model_name
    return {
        "id": name,
        "object": "model",
        "created": deployment.created_s,
        "owned_by": "duplex_trio",
        "root": name,
        "parent": None,
        "max_model_len": deployment.max_model_len,
        "permission": [],
    }


def _capabilities(deployment: Deployment) -> Response:
    omni = deployment.omni
    able = {
        "object": "realtime.capabilities",
        "model": deployment.model_name,
        "session_mode": "duplex",
        "dialects": [dialect.session_name for dialect in Dialect],
        "voices": list(omni.plugin.voices),
        "chat_completions": omni.capabilities.supports_chat_completions,
        "capabilities": omni.capabilities.render(),
    }
    return Response(200, orjson.dumps(able))


def _metrics(deployment: Deployment) -> Response:
    content_type = (b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode())
    return Response(200, deployment.omni.render_metrics(), (content_type,))


_GET: Mapping[str, Callable[[Deployment], Response]] = {
    "/health": _health,
    "/v1/models": _models,
    "/v1/realtime/capabilities": _capabilities,
    "/metrics": _metrics,
}
