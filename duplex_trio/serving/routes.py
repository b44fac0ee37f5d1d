"""The HTTP routes: a table, and the bodies of the small ones. What is not in it gets the one body of D13."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from duplex_trio.serving.asgi import JSON, Headers
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.health import health_response
from duplex_trio.serving.paths import (
    CAPABILITIES_PATH,
    CHAT_PATH,
    DUPLEX_PATH,
    HEALTH_PATH,
    REALTIME_PATH,
    TALK_PAGE_PATH,
    VIDEO_PAGE_PATH,
    VIDEO_PATH,
)
from duplex_trio.serving.responses import Response, error_body, not_available, said_back, still_loading
from duplex_trio.serving.service import Service
from duplex_trio.serving.web import Section, page_response, section_of

_MODEL_PREFIX = "/v1/models/"
_READ = ("GET", "HEAD")


def respond_to(
    deployment: Deployment, method: str, path: str, headers: Headers = (), *, trusted: bool = True
) -> Response:
    """Answer a request whose body does not matter.

    Args:
        deployment: what is served.
        method: what is asked ...
        path: ... of what.
        headers: with which; files that the client already has are not sent again.
        trusted: the client has shown a key, or needs none.
    """
    if path == HEALTH_PATH:
        return _checked(method, path, _READ, lambda: health_response(deployment, detailed=trusted))
    # Also while the model is being loaded, which the pages tell.
    if (section := section_of(path)) is not None and _has(deployment, section):
        return _checked(method, path, _READ, lambda: page_response(path, headers))
    if path == TALK_PAGE_PATH and deployment.video_omni is not None:
        return _checked(method, path, _READ, _to_video)
    service = deployment.service
    if service is None:
        return still_loading()
    there = deployment.video is not None if path == VIDEO_PATH else service.has_sessions
    if path in (REALTIME_PATH, DUPLEX_PATH, VIDEO_PATH) and method == "GET" and there:
        message = f"{path} is a WebSocket; ask for an upgrade"
        body = orjson.dumps(error_body("invalid_request_error", "upgrade_required", message))
        return Response(426, body, (JSON, (b"upgrade", b"websocket")))
    if path == CHAT_PATH and service.has_chats:
        return _checked(method, path, ("POST",), lambda: not_available(path))
    if path.startswith(_MODEL_PREFIX):
        return _checked(method, path, _READ, lambda: _model(deployment, path.removeprefix(_MODEL_PREFIX)))
    answer = _GET.get(path)
    if answer is None or (path == CAPABILITIES_PATH and service.capabilities() is None):
        return not_available(path)
    return _checked(method, path, _READ, lambda: answer(deployment, service))


def _has(deployment: Deployment, section: Section) -> bool:
    """Whether something is served that a file is of use for. As long as nobody knows, people may talk."""
    speech = deployment.omni is None or deployment.omni.session_mode == "duplex"
    video = deployment.video_omni is not None
    match section:
        case "talk":
            return speech
        case "video":
            return video
        case "shared":
            return speech or video


def _to_video() -> Response:
    """The way to the one page that there is."""
    return Response(307, b"", ((b"location", VIDEO_PAGE_PATH[1:].encode()), (b"cache-control", b"no-store")))


def _checked(method: str, path: str, allowed: tuple[str, ...], answer: Callable[[], Response]) -> Response:
    """The answer, if that may be done there."""
    allow = (b"allow", ", ".join([*allowed, "OPTIONS"]).encode())
    if method == "OPTIONS":
        return Response(204, b"", (allow,))
    if method not in allowed:
        message = f"{said_back(path)} has no {method[:16]}"
        body = orjson.dumps(error_body("invalid_request_error", "method_not_allowed", message))
        return Response(405, body, (JSON, allow))
    return answer()


def _models(deployment: Deployment, service: Service) -> Response:
    data = [_described(deployment, name) for name in deployment.model_names]
    return Response(200, orjson.dumps({"object": "list", "data": data}))


def _model(deployment: Deployment, name: str) -> Response:
    if name in deployment.model_names:
        return Response(200, orjson.dumps(_described(deployment, name)))
    served = " and ".join(map(repr, deployment.model_names))
    message = f"there is no model {said_back(name)!r}; this deployment serves {served}"
    return Response(404, orjson.dumps(error_body("not_found_error", "model_not_found", message)))


def _described(deployment: Deployment, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": deployment.created_s,
        "owned_by": "duplex_trio",
        "root": name,
        "parent": None,
        "max_model_len": deployment.max_model_len if name == deployment.model_name else None,
        "permission": [],
    }


def _capabilities(deployment: Deployment, service: Service) -> Response:
    return Response(200, orjson.dumps(service.capabilities()))


def _metrics(deployment: Deployment, service: Service) -> Response:
    content_type = (b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode())
    figures = service.omni.render_metrics()
    if deployment.video is not None and deployment.video.omni is not service.omni:
        # All of its names are others, so that both together are one exposition.
        figures += deployment.video.omni.render_metrics()
    return Response(200, figures, (content_type,))


_GET: Mapping[str, Callable[[Deployment, Service], Response]] = {
    "/v1/models": _models,
    CAPABILITIES_PATH: _capabilities,
    "/metrics": _metrics,
}
