"""The HTTP routes: a table, and the bodies of the small ones. What is not in it gets the one body of D13."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson
import trio
from attrs import define, field, frozen
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from duplex_trio.serving.asgi import JSON
from duplex_trio.serving.auth import Refusal
from duplex_trio.serving.channel import Header
from duplex_trio.serving.envelope import DUPLEX_PATH, REALTIME_PATH

if TYPE_CHECKING:
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni


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
    handler = _GET.get(path)
    if handler is None:
        message = f"{path} is not available in this deployment"
        return Response(404, orjson.dumps(error_body("not_found_error", "not_available", message)))
    if method not in ("GET", "HEAD"):
        message = f"{path} has no {method}"
        body = orjson.dumps(error_body("invalid_request_error", "method_not_allowed", message))
        return Response(405, body, (JSON, (b"allow", b"GET, HEAD")))
    return handler(deployment)


def _health(deployment: Deployment) -> Response:
    if deployment.healthy:
        return Response(200, orjson.dumps({"status": "healthy"}))
    return Response(503, orjson.dumps({"status": "unhealthy"}))


def _models(deployment: Deployment) -> Response:
    name = deployment.model_name
    model = {
        "id": name,
        "object": "model",
        "created": deployment.created_s,
        "owned_by": "duplex_trio",
        "root": name,
        "parent": None,
        "max_model_len": deployment.max_model_len,
        "permission": [],
    }
    return Response(200, orjson.dumps({"object": "list", "data": [model]}))


def _metrics(deployment: Deployment) -> Response:
    content_type = (b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode())
    return Response(200, deployment.omni.render_metrics(), (content_type,))


_GET: Mapping[str, Callable[[Deployment], Response]] = {
    "/health": _health,
    "/v1/models": _models,
    "/metrics": _metrics,
}
