"""The files of the page as a real server sends them."""

import httpx
import pytest

from duplex_trio.testing.server_process import ServedPort

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_page_as_it_is_sent(video_server: ServedPort) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{video_server.port}") as client:
        page = client.get("/video")
        assert page.status_code == 200
        assert page.text.startswith("<!doctype html>")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        head = client.head("/video")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(page.content))
        again = client.get("/video", headers={"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == page.headers["etag"]
        refused = client.post("/video", content=b"x" * 100_000)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        for path in ("/video/", "/video/%2e%2e/static.py", "/video/..%2fstatic.py", "/video/none.js"):
            assert client.get(path).status_code == 404
        # One connection has lived through all of it.
        assert client.get("/video/video.js").headers["content-type"] == "text/javascript; charset=utf-8"
