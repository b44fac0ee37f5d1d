"""The HTTP side of the application: routes, the uniform 404, keys."""

from typing import Any

import orjson
import pytest

UNAVAILABLE = [
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/chat/completions"),
    ("POST", "/v1/chat/completions/batch"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/speech/batch"),
    ("POST", "/v1/audio/generate"),
    ("GET", "/v1/audio/speech/stream"),
    ("GET", "/v1/video/chat/stream"),
    ("GET", "/v1/realtime/video"),
    ("GET", "/v1/realtime/robot/openpi"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/realtime/sessions"),
    ("GET", "/v1/realtime/sessions"),
    ("POST", "/v1/realtime/sessions/any"),
    ("POST", "/v1/realtime/client_secrets"),
    ("POST", "/v1/realtime/transcription_sessions"),
    ("POST", "/v1/realtime/calls"),
    ("OPTIONS", "/v1/responses"),
    ("GET", "/v1/" + "x" * 5000),
    ("GET", "/v1/\udcff\x00\n"),
    ("GET", "/index.html"),
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
    assert 0 < len(error.pop("message")) < 300
    assert error == {"type": "not_found_error", "param": None, "code": "not_available"}


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


async def test_a_model_is_found_by_its_name_alone(app_for: Any, http: Any) -> None:
    app = app_for(model_name="org/voice")
    status, _, body = await http(app, "GET", "/v1/models/org/voice")
    assert status == 200
    assert [orjson.loads(body)] == orjson.loads((await http(app, "GET", "/v1/models"))[2])["data"]
    for other in ("voice", "", "org"):
        status, _, body = await http(app, "GET", f"/v1/models/{other}")
        assert (status, orjson.loads(body)["error"]["code"]) == (404, "model_not_found")


async def test_capabilities_tell_what_sessions_can_do(omni: Any, app_for: Any, http: Any) -> None:
    status, _, body = await http(app_for(), "GET", "/v1/realtime/capabilities")
    assert status == 200
    assert orjson.loads(body) == {
        "object": "realtime.capabilities",
        "model": "test-model",
        "session_mode": "duplex",
        "dialects": ["ga", "beta", "duplex"],
        "voices": ["anna", "bert"],
        "chat_completions": False,
        "capabilities": orjson.loads(orjson.dumps(omni.capabilities.render())),
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
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD, OPTIONS")
    assert orjson.loads(body)["error"]["code"] == "method_not_allowed"
    assert (await http(app_for(), "HEAD", path))[0] == 200


async def test_options_tell_what_a_route_takes(app_for: Any, http: Any) -> None:
    status, headers, body = await http(app_for(), "OPTIONS", "/v1/models")
    assert (status, headers, body) == (204, {b"allow": b"GET, HEAD, OPTIONS"}, b"")


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


PAGE = "https://page.example"
PREFLIGHT = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization, x-stainless-lang",
    "host": "x",
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/nothing"])
async def test_a_browser_learns_what_its_page_may_send(app_for: Any, http: Any, path: str) -> None:
    """It asks without a key."""
    app = app_for(api_keys=("sk-test",), allowed_origins=(PAGE,))
    status, headers, body = await http(app, "OPTIONS", path, PREFLIGHT)
    assert (status, body) == (204, b"")
    assert b"content-length" not in headers
    assert headers[b"access-control-allow-origin"] == PAGE.encode()
    assert b"POST" in headers[b"access-control-allow-methods"]
    assert headers[b"access-control-allow-headers"] == b"authorization, x-stainless-lang"
    assert headers[b"vary"] == b"origin"


async def test_a_browser_may_ask_from_a_public_page(app_for: Any, http: Any) -> None:
    asks = {**PREFLIGHT, "access-control-request-private-network": "true"}
    _, headers, _ = await http(app_for(allowed_origins=("*",)), "OPTIONS", "/health", asks)
    assert headers[b"access-control-allow-private-network"] == b"true"


async def test_a_foreign_page_may_send_and_read_nothing(app_for: Any, http: Any) -> None:
    app = app_for(allowed_origins=("https://other.example",))
    for method, path in (("OPTIONS", "/v1/models"), ("GET", "/v1/models"), ("GET", "/health")):
        status, headers, _ = await http(app, method, path, PREFLIGHT)
        assert status == (200 if path == "/health" else 403)
        assert b"access-control-allow-origin" not in headers


@pytest.mark.parametrize(("key", "status"), [("sk-test", 200), ("sk-wrong", 401)])
async def test_an_allowed_page_reads_answers_and_errors(
    app_for: Any, http: Any, key: str, status: int
) -> None:
    app = app_for(api_keys=("sk-test",), allowed_origins=(PAGE,))
    found, headers, _ = await http(
        app, "GET", "/v1/models", {"origin": PAGE, "authorization": f"Bearer {key}"}
    )
    assert found == status
    assert headers[b"access-control-allow-origin"] == PAGE.encode()


async def test_a_body_without_end_is_not_read_for_ever(app_for: Any, http: Any) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b"x" * 1024 * 1024

    status, _, _ = await http(app_for(), "POST", "/v1/audio/speech", body=endless())
    assert status == 404
