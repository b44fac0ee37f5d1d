"""A browser, and servers of the scripted models, for tests of the pages at `/` and `/video`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from duplex_trio.testing.browser import chromium_process, find_chromium
from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.talk_visitor import Visitor, visit_talk
from duplex_trio.testing.video_viewer import Viewer, visit

START_TIMEOUT_S = 120.0
DEPLOYMENT = """
pipeline: scripted_video
session_mode: video
stages:
  - stage_id: 0
    engine_args: {refused_word: impossible, failing_word: broken}
video_session: {max_sessions: 3}
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[str]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium: install one, or name it in CHROME")
    with chromium_process(program) as address:
        yield address


@pytest.fixture(scope="session")
def video_deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "video.yaml"
    path.write_text(DEPLOYMENT)
    return path


@pytest.fixture
def one_place(tmp_path: Path) -> Path:
    """A deployment for one video at a time."""
    path = tmp_path / "small.yaml"
    path.write_text(DEPLOYMENT.replace("max_sessions: 3", "max_sessions: 1"))
    return path


@pytest.fixture
def fixed_prompt(tmp_path: Path) -> Path:
    """A deployment of a model whose prompt cannot be changed."""
    path = tmp_path / "fixed.yaml"
    path.write_text(DEPLOYMENT.replace("{refused", "{supports_prompt_updates: false, refused"))
    return path


@pytest.fixture(scope="session")
def video_server(video_deployment: Path) -> Iterator[ServedPort]:
    with server_process("--deploy", str(video_deployment), start_timeout_s=START_TIMEOUT_S) as running:
        yield running


@pytest.fixture
async def viewer(browser: str, video_server: ServedPort, tmp_path: Path) -> AsyncIterator[Viewer]:
    async with visit(browser, video_server.port, downloads=tmp_path) as one:
        yield one


@pytest.fixture(scope="session")
def talk_server() -> Iterator[ServedPort]:
    with server_process("--deploy", "scripted", start_timeout_s=START_TIMEOUT_S) as running:
        yield running


@pytest.fixture
async def visitor(browser: str, talk_server: ServedPort, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with visit_talk(browser, talk_server.port, downloads=tmp_path) as one:
        yield one
