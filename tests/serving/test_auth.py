"""Keys and origins."""

import pytest

from duplex_trio.serving.auth import AccessPolicy, Refusal, is_loopback

KEYED = AccessPolicy(api_keys=("sk-one", "sk-zwei-é"))


def check(
    policy: AccessPolicy,
    headers: dict[str, str] | None = None,
    subprotocols: tuple[str, ...] = (),
    path: str = "/v1/realtime",
) -> int:
    pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    refusal: Refusal | None = policy.check(path, pairs, subprotocols)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize(
    ("headers", "subprotocols", "status"),
    [
        ({}, (), 401),
        ({"authorization": "Bearer sk-one"}, (), 200),
        ({"authorization": "bearer  sk-one"}, (), 200),
        ({"authorization": "Bearer sk-zwei-é"}, (), 200),
        ({"authorization": "Bearer sk-on"}, (), 401),
        ({"authorization": "Bearer sk-one2"}, (), 401),
        ({"authorization": "Basic sk-one"}, (), 401),
        ({"authorization": "sk-one"}, (), 401),
        ({"authorization": "Bearer"}, (), 401),
        ({"authorization": ""}, (), 401),
        ({}, ("realtime", "openai-insecure-api-key.sk-one"), 200),
        ({}, ("openai-insecure-api-key.wrong", "realtime"), 401),
        ({}, ("openai-insecure-api-key.", "realtime"), 401),
        ({}, ("sk-one",), 401),
        ({"authorization": "Bearer wrong"}, ("openai-insecure-api-key.sk-one",), 200),
    ],
)
def test_a_key_comes_as_bearer_or_as_subprotocol(
    headers: dict[str, str], subprotocols: tuple[str, ...], status: int
) -> None:
    assert check(KEYED, headers, subprotocols) == status


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/realtime", "/anything"])
def test_every_path_but_health_needs_the_key(path: str) -> None:
    assert check(KEYED, path=path) == 401
    assert check(KEYED, path="/health") == 200


def test_without_keys_everybody_is_let_in() -> None:
    assert check(AccessPolicy()) == 200


def test_keys_are_not_shown() -> None:
    assert "sk-one" not in repr(KEYED)


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://localhost:3000", "127.0.0.1:8765", 200),
        ("http://127.0.0.1:8765", "127.0.0.1:8765", 200),
        ("http://[::1]:8765", "127.0.0.1:8765", 200),
        ("http://192.168.1.5:8765", "192.168.1.5:8765", 200),
        ("https://evil.example", "127.0.0.1:8765", 403),
        ("http://rebound.example:8765", "rebound.example:8765", 403),
        ("http://localhost.evil.example", "127.0.0.1:8765", 403),
        ("null", "127.0.0.1:8765", 403),
        ("nonsense", "127.0.0.1:8765", 403),
    ],
)
def test_without_a_list_only_pages_of_this_machine_are_let_in(origin: str, host: str, status: int) -> None:
    assert check(AccessPolicy(), {"origin": origin, "host": host}) == status


def test_with_a_key_a_page_of_the_server_itself_is_let_in_under_any_name() -> None:
    headers = {"origin": "http://voice.example", "host": "voice.example", "authorization": "Bearer sk-one"}
    assert check(KEYED, headers) == 200
    assert check(KEYED, headers | {"origin": "http://other.example"}) == 403


@pytest.mark.parametrize(
    ("allowed", "origin", "status"),
    [
        (("https://app.example",), "https://app.example", 200),
        (("https://app.example",), "http://app.example", 403),
        (("https://app.example",), "https://app.example:444", 403),
        (("https://app.example",), "http://localhost:3000", 403),
        (("*",), "https://anything.example", 200),
        (("null",), "null", 200),
    ],
)
def test_a_list_of_origins_is_exact(allowed: tuple[str, ...], origin: str, status: int) -> None:
    assert (
        check(AccessPolicy(allowed_origins=allowed), {"origin": origin, "host": "127.0.0.1:8765"}) == status
    )


def test_a_client_that_is_no_browser_sends_no_origin_and_is_let_in() -> None:
    assert check(AccessPolicy(allowed_origins=("https://app.example",)), {"host": "server.example"}) == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_this_machine_alone_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "10.0.0.1", "", "localhost.example.org"])
def test_everything_else_is_not(host: str) -> None:
    assert not is_loopback(host)
