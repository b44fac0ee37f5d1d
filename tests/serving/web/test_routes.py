"""The pages among the other routes: where there is one, and who may have it."""

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.routes import respond_to
from duplex_trio.serving.run import make_app

TALK = ["/", "/talk/talk.js", "/shared/base.css"]
VIDEO = ["/video", "/video/video.js", "/video/video.css"]
PATHS = [*TALK, *VIDEO]


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


@pytest.mark.parametrize("path", TALK)
async def test_there_is_a_page_to_talk_where_there_are_sessions(app_for: Any, http: Any, path: str) -> None:
    assert (await http(app_for(), "GET", path))[0] == 200


@pytest.mark.parametrize("path", VIDEO)
async def test_there_is_none_of_videos_where_no_video_is(app_for: Any, http: Any, path: str) -> None:
    status, _, body = await http(app_for(), "GET", path)
    assert (status, orjson.loads(body)["error"]["code"]) == (404, "not_available")


def deployed(mode: str | None, *, video: bool = False) -> Any:
    """What is known of a deployment that is being loaded."""
    engine = None if mode is None else SimpleNamespace(session_mode=mode, model_name="m")
    return Deployment(omni=cast(Any, engine), video_omni=cast(Any, engine) if video else None)


def test_where_only_video_is_served_the_first_page_is_that_of_videos() -> None:
    there = deployed("video", video=True)
    answer = respond_to(there, "GET", "/")
    assert (answer.status, dict(answer.headers)[b"location"]) == (307, b"video")
    assert respond_to(there, "POST", "/").status == 405
    assert respond_to(there, "GET", "/shared/base.css").status == 200
    assert (
        respond_to(there, "GET", "/talk/talk.js").status == 503
    )  # it is being loaded; nothing will be there


def test_a_server_of_requests_has_no_page() -> None:
    for path in PATHS:
        assert respond_to(deployed("turn"), "GET", path).status == 503


def test_the_page_to_talk_is_there_before_anybody_knows_what_will_be_served() -> None:
    assert [respond_to(deployed(None), "GET", path).status for path in PATHS] == [
        200,
        200,
        200,
        503,
        503,
        503,
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/video/",
        "/talk/none.js",
        "/talk/",
        "/video/none.js",
        "/video/../static.py",
        "/video/video.html",
        "/videos",
    ],
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
