"""The HTTP side of the application: routes, the uniform 404, keys."""

from typing import Any

import orjson
import pytest

UNAVAILABLE = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/realtime/capabilities"),
    ("POST", "/v1/chat/completions/batch"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/realtime/sessions"),
    ("GET", "/"),
    ("DELETE", "/v1/nothing"),
    ("GET", "/health/"),
]


@pytest.mark.parametrize(("method", "path"), UNAVAILABLE)
async def test_every_unavailable_route_has_the_one_body(
    app_for: Any, http: Any, method: str, path: str
) -> None:
    status, headers, body = await http(app_for(), method, path, body=[b"x" * 1000] * 3)
    assert status == 404
    assert headers[b"content-type"] == b"application/json"
    error = orjson.loads(body)["error"]
    assert error.pop("message")
    assert error == {"type": "not_found_error", "param": None, "code": "not_available"}


@pytest.mark.parametrize(("healthy", "draining", "status", "word"), [
    (True, False, 200, "healthy"), (False, False, 503, "unhealthy"), (True, True, 503, "unhealthy"),
])  # fmt: skip
async def test_health_follows_the_engine_and_the_drain(
    omni: Any, app_for: Any, http: Any, healthy: bool, draining: bool, status: int, word: str
) -> None:
    omni.healthy = healthy
    app = app_for()
    app.deployment.draining = draining
    assert (await http(app, "GET", "/health"))[::2] == (status, orjson.dumps({"status": word}))


async def test_models_lists_the_served_model(app_for: Any, http: Any) -> None:
    status, _, body = await http(app_for(max_model_len=2048), "GET", "/v1/models")
    assert status == 200
    listing = orjson.loads(body)
    assert listing["object"] == "list"
    (model,) = listing["data"]
    assert isinstance(model.pop("created"), int)
    assert model == {
        "id": "test-model",
        "object": "model",
        "owned_by": "duplex_trio",
        "root": "test-model",
        "parent": None,
        "max_model_len": 2048,
        "permission": [],
    }


async def test_a_served_name_replaces_the_models_own(app_for: Any, http: Any) -> None:
    _, _, body = await http(app_for(model_name="voice"), "GET", "/v1/models")
    assert orjson.loads(body)["data"][0]["id"] == "voice"


async def test_metrics_are_prometheus_text(app_for: Any, http: Any) -> None:
    status, headers, body = await http(app_for(), "GET", "/metrics")
    assert status == 200
    assert headers[b"content-type"].startswith(b"text/plain; version=0.0.4")
    assert body == b"duplex_sessions 0.0\n"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics"])
async def test_another_method_on_a_known_route_is_405(app_for: Any, http: Any, path: str) -> None:
    status, headers, body = await http(app_for(), "POST", path)
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")
    assert orjson.loads(body)["error"]["code"] == "method_not_allowed"
    assert (await http(app_for(), "HEAD", path))[0] == 200


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/duplex"])
async def test_a_websocket_route_without_an_upgrade_says_so(app_for: Any, http: Any, path: str) -> None:
    status, headers, body = await http(app_for(), "GET", path)
    assert (status, headers[b"upgrade"]) == (426, b"websocket")
    assert orjson.loads(body)["error"]["code"] == "upgrade_required"


async def test_a_key_is_needed_for_everything_but_health(app_for: Any, http: Any) -> None:
    app = app_for(api_keys=("sk-test",))
    assert (await http(app, "GET", "/health"))[0] == 200
    for path in ("/v1/models", "/metrics", "/v1/chat/completions"):
        status, headers, body = await http(app, "GET", path)
        assert (status, headers[b"www-authenticate"]) == (401, b"Bearer")
        error = orjson.loads(body)["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert (await http(app, "GET", path, {"authorization": "Bearer sk-test"}))[0] != 401


async def test_a_foreign_page_gets_403(app_for: Any, http: Any) -> None:
    status, _, body = await http(
        app_for(), "GET", "/v1/models", {"origin": "https://evil.example", "host": "x"}
    )
    assert status == 403
    assert orjson.loads(body)["error"]["code"] == "origin_not_allowed"


async def test_a_body_without_end_is_not_read_for_ever(app_for: Any, http: Any) -> None:
    def endless() -> Any:
        for _ in range(40):
            yield b"x" * 1024 * 1024

    status, _, _ = await http(app_for(), "POST", "/v1/audio/speech", body=endless())
    assert status == 404
