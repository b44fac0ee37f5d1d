from __future__ import annotations

import pytest

from duplex_trio.clients import build_realtime_url, build_video_url
from duplex_trio.clients.transport import Address

BARE = "duplex=1&autostart=0"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://h:1", f"ws://h:1/v1/realtime?{BARE}"),
        ("ws://h:1/", f"ws://h:1/v1/realtime?{BARE}"),
        ("h:1", f"ws://h:1/v1/realtime?{BARE}"),
        ("http://h", f"ws://h/v1/realtime?{BARE}"),
        ("https://h", f"wss://h/v1/realtime?{BARE}"),
        ("HTTPS://h", f"wss://h/v1/realtime?{BARE}"),
        ("ws://h/v1/duplex", f"ws://h/v1/duplex?{BARE}"),
        ("ws://h/v1?a=b&duplex=0&autostart=1", "ws://h/v1?a=b&duplex=1&autostart=0"),
        ("ws://h/#part", f"ws://h/v1/realtime?{BARE}"),
        ("ws://[::1]:8000", f"ws://[::1]:8000/v1/realtime?{BARE}"),
    ],
)
def test_a_server_url_is_completed(url: str, expected: str) -> None:
    assert build_realtime_url(url) == expected


def test_model_and_extra_query_are_added_and_encoded() -> None:
    url = build_realtime_url("ws://h", model="a b&c", extra_query={"resume": "1"})
    assert url == "ws://h/v1/realtime?resume=1&duplex=1&model=a+b%26c&autostart=0"
    assert "autostart" not in build_realtime_url("ws://h/?autostart=0", autostart=True)


@pytest.mark.parametrize("url", ["ftp://h", "ws://", "ws://h:99999", "ws://h:0", "ws://:80", ""])
def test_what_is_no_server_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|port|host"):
        build_realtime_url(url)


@pytest.mark.parametrize(
    ("url", "address", "host_header"),
    [
        ("ws://h/p?q=1", Address("h", 80, False, "/p?q=1"), "h"),
        ("wss://h/p", Address("h", 443, True, "/p"), "h"),
        ("wss://h:80/p", Address("h", 80, True, "/p"), "h:80"),
        ("ws://[::1]:8000/p", Address("::1", 8000, False, "/p"), "[::1]:8000"),
    ],
)
def test_an_address_says_where_to_connect(url: str, address: Address, host_header: str) -> None:
    assert Address.of(url) == address
    assert address.host_header == host_header


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("h:1", "ws://h:1/v1/realtime/video"),
        ("http://h:1/", "ws://h:1/v1/realtime/video"),
        ("https://h/v1", "wss://h/v1/realtime/video"),
        ("ws://h/v1/realtime", "ws://h/v1/realtime/video"),
        ("ws://h/v1/realtime/video?a=b", "ws://h/v1/realtime/video?a=b"),
        ("ws://h/behind/a/proxy", "ws://h/behind/a/proxy"),
        ("ws://[::1]:8000", "ws://[::1]:8000/v1/realtime/video"),
    ],
)
def test_a_server_url_is_completed_for_video(url: str, expected: str) -> None:
    assert build_video_url(url) == expected


@pytest.mark.parametrize("url", ["", "ftp://h", "ws://", "ws://h:0", "ws://h:99999"])
def test_what_is_no_url_of_a_video(url: str) -> None:
    with pytest.raises(ValueError):
        build_video_url(url)
