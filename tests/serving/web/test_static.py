"""The files of the page: what is found, as what, how long a browser may keep it, and what it may do."""

import re
from importlib import resources
from typing import Any

import pytest

from duplex_trio.serving.web import page_response, section_of

ASSETS = resources.files("duplex_trio.serving.web") / "assets"
SECTIONS = ["talk", "video", "shared"]
NAMES = [f"{section}/{entry.name}" for section in SECTIONS for entry in (ASSETS / section).iterdir()]
PAGES = {"talk/talk.html": "/", "video/video.html": "/video"}
FILES = {PAGES.get(name, f"/{name}"): name for name in sorted(NAMES)}
PATHS = list(FILES)
TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}

ELSEWHERE = [
    "/video/",
    "/video/video.html",
    "/video//video.js",
    "/video/./video.js",
    "/video/video.js/",
    "/video/VIDEO.JS",
    "/video/assets/video.js",
    "/video/../static.py",
    "/video/../../static.py",
    "/video/%2e%2e/static.py",
    "/video/..\\static.py",
    "/video/../__init__.py",
    "/video/" + "../" * 12 + "etc/passwd",
    "/video//etc/passwd",
    "/video/video.js\x00.html",
    "/video/\udcff",
    "/video/none.js",
    "/videos",
    "/Video",
    "/talk",
    "/talk/",
    "/talk/talk.html",
    "/talk/../video/video.js",
    "/shared",
    "/shared/",
    "/shared/talk.js",
    "/talk.html",
    "//",
    "",
    "video.js",
    "video",
]


def test_the_page_and_its_parts_are_found() -> None:
    assert len(PATHS) > 20
    assert {path: section_of(path) for path in PATHS} == {
        path: name.partition("/")[0] for path, name in FILES.items()
    }


@pytest.mark.parametrize("path", ELSEWHERE)
def test_nothing_else_is(path: str) -> None:
    assert section_of(path) is None


@pytest.mark.parametrize("path", PATHS)
def test_a_file_comes_as_what_it_is(path: str) -> None:
    answer = page_response(path, ())
    headers = dict(answer.headers)
    name = FILES[path]
    assert (answer.status, answer.body) == (200, (ASSETS / name).read_bytes())
    assert headers[b"content-type"] == TYPES[name.rpartition(".")[2]]
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cache-control"] == b"no-cache"


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_a_file_that_the_browser_has_is_not_sent_again(form: str) -> None:
    first = dict(page_response("/video/video.js", ()).headers)
    asked = form.format(first[b"etag"].decode()).encode()
    answer = page_response("/video/video.js", [(b"if-none-match", asked)])
    again = dict(answer.headers)
    assert (answer.status, answer.body) == (304, b"")
    assert (again[b"etag"], again[b"content-security-policy"]) == (
        first[b"etag"],
        first[b"content-security-policy"],
    )


def test_another_file_is_sent() -> None:
    tags = {dict(page_response(path, ()).headers)[b"etag"] for path in PATHS}
    assert len(tags) == len(PATHS)
    for path in PATHS[1:]:
        tag = dict(page_response(PATHS[0], ()).headers)[b"etag"]
        assert page_response(path, [(b"if-none-match", tag)]).status == 200


@pytest.mark.parametrize("page", PAGES.values())
def test_a_page_may_reach_its_own_server_only(page: str) -> None:
    policy = dict(page_response(page, ()).headers)[b"content-security-policy"].decode()
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed["default-src"] == allowed["frame-ancestors"] == allowed["base-uri"] == "'none'"
    assert allowed["script-src"] == allowed["style-src"] == allowed["connect-src"] == "'self'"
    assert "unsafe" not in policy


def test_only_the_page_for_talking_may_ask_for_a_microphone() -> None:
    allowed = {path: dict(page_response(path, ()).headers)[b"permissions-policy"] for path in PATHS}
    assert all((b"microphone=(self)" in allowed[path]) == (section_of(path) == "talk") for path in PATHS)
    assert all(b"camera=()" in policy for policy in allowed.values())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_page_is_from_elsewhere_or_inline(name: str) -> None:
    text = (ASSETS / name).read_text()
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\binnerHTML\b|\beval\(|\bnew Function\b|localStorage\.", text)
    if name.endswith(".html"):
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_every_part_of_the_pages_is_used() -> None:
    def parts(name: str) -> set[str]:
        text = (ASSETS / name).read_text()
        folder = name.partition("/")[0]
        beside = re.findall(r"[\"'](?:\./)?([\w-]+\.(?:js|css|svg))[\"']", text)
        named = re.findall(r"[\"'](?:\.\./)?((?:talk|video|shared)/[\w-]+\.\w+)[\"']", text)
        return {*(f"{folder}/{one}" for one in beside), *named}

    found: set[str] = set()
    waiting = list(PAGES)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += sorted(parts(name)) if name.endswith((".html", ".js")) else []
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_small_enough_to_do_one_thing(name: str) -> None:
    assert len((ASSETS / name).read_text().splitlines()) <= 400


@pytest.mark.parametrize("page", PAGES)
def test_every_control_has_a_name(page: str) -> None:
    text = (ASSETS / page).read_text()
    labelled: Any = set(re.findall(r'for="(\w[\w-]*)"', text))
    for tag in re.findall(r"<(?:input|select|textarea)\b[^>]*>", text):
        name = re.search(r'id="([\w-]+)"', tag)
        assert name is not None
        before = text[: text.index(tag)]
        within = before.rfind("<label") > before.rfind("</label>")
        assert within or name[1] in labelled, tag
