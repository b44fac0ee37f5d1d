"""The page among the other routes: where there is one, and who may have it."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app

PATHS = ["/video", "/video/video.js", "/video/video.css"]


@pytest.fixture
def app_of_video(omni: Any) -> Any:
    """Make the application of a server that has a video beside its sessions."""

    def make(**options: Any) -> Any:
        video: Any = SimpleNamespace(model_name="clips", session_mode="video")
        return make_app(omni, ServeOptions(**options), video=video)

    return make


@pytest.mark.parametrize("path", PATHS)
async def test_there_is_a_page_where_a_video_is_served(app_of_video: Any, http: Any, path: str) -> None:
    status, headers, body = await http(app_of_video(), "GET", path)
    assert (status, int(headers[b"content-length"])) == (200, len(body))
    assert b"default-src 'none'" in headers[b"content-security-policy"]


@pytest.mark.parametrize("path", PATHS)
async def test_there_is_none_where_no_video_is(app_for: Any, http: Any, path: str) -> None:
    status, _, body = await http(app_for(), "GET", path)
    assert (status, orjson.loads(body)["error"]["code"]) == (404, "not_available")


@pytest.mark.parametrize(
    "path", ["/video/", "/video/none.js", "/video/../static.py", "/video/video.html", "/videos"]
)
async def test_nothing_is_there_beside_its_files(app_of_video: Any, http: Any, path: str) -> None:
    status, _, body = await http(app_of_video(), "GET", path)
    assert (status, orjson.loads(body)["error"]["code"]) == (404, "not_available")


async def test_the_page_needs_no_key_but_says_nothing_that_does(app_of_video: Any, http: Any) -> None:
    app = app_of_video(api_keys=("sk-1",))
    for path in PATHS:
        assert (await http(app, "GET", path))[0] == 200
    for path in ("/v1/models", "/v1/realtime/video", "/videos", "/metrics"):
        assert (await http(app, "GET", path))[0] == 401
    assert b"sk-1" not in b"".join([(await http(app, "GET", path))[2] for path in PATHS])


@pytest.mark.parametrize("path", PATHS)
async def test_it_can_only_be_read(app_of_video: Any, http: Any, path: str) -> None:
    app = app_of_video()
    status, headers, body = await http(app, "POST", path, body=[b"x" * 1000])
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD, OPTIONS")
    assert orjson.loads(body)["error"]["code"] == "method_not_allowed"
    assert (await http(app, "HEAD", path))[0] == 200
    assert (await http(app, "OPTIONS", path))[0] == 204


async def test_what_a_browser_has_is_not_sent_again(app_of_video: Any, http: Any) -> None:
    app = app_of_video()
    _, headers, _ = await http(app, "GET", "/video/video.js")
    tag = headers[b"etag"].decode()
    status, headers, body = await http(app, "GET", "/video/video.js", {"if-none-match": tag})
    assert (status, body) == (304, b"")
    assert b"content-length" not in headers
