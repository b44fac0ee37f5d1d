"""Fixtures that many test folders share: the packaged models, one engine and one server for all tests, and a log left
alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from duplex_trio.stages.vllm import VllmConfig, VllmWorker
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import pytest_plugin
from duplex_trio.testing.keep_loaded import KeepLoaded
from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.vllm_server import VllmServer, missing_packages, vllm_server

REAL_START_TIMEOUT_S = 240.0
VLLM_START_TIMEOUT_S = 600.0
"""Two processes that import everything: a minute on an idle machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files are written on demand only."""
    parser.addoption("--renew-golden", action="store_true", help="write the golden transcripts anew")


def pytest_configure(config: pytest.Config) -> None:
    """The package's own plugin, also where an environment was made before it had one."""
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin, "duplex_trio")


@pytest.fixture(autouse=True)
def logging_put_back() -> Iterator[None]:
    """Commands set up the log of their process, which here is that of all tests."""
    root = logging.getLogger()
    before = structlog.get_config(), root.handlers[:], root.level
    structlog.configure(**before[0])  # set up, so that no model quiets it
    yield
    config, root.handlers[:], root.level = before
    structlog.configure(**config)


@pytest.fixture(scope="session")
def llm_folder() -> Path:
    """The packaged language model as a Hugging Face folder; for tests marked `models`."""
    from duplex_trio.models.references import resolve_reference

    path = resolve_reference("smollm2-135m", "llm").path
    assert path is not None
    return path


@pytest.fixture(scope="session")
def llm_worker(llm_folder: Path) -> Iterator[StageWorker]:
    """The packaged language model in a real engine, for one `ThreadStage` at a time.

    The first stage that uses it loads it, in that stage's thread.
    """
    worker = VllmWorker(VllmConfig(model=str(llm_folder)))
    yield KeepLoaded(worker)
    worker.close()


@pytest.fixture(scope="session")
def real_server() -> Iterator[ServedPort]:
    """One server with the real models for all tests that want it: it is started as a user starts it."""
    with server_process("--max-sessions", "6", start_timeout_s=REAL_START_TIMEOUT_S) as server:
        yield server


@pytest.fixture(scope="session")
def vllm(llm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """vLLM's own server with the packaged language model and the key `k-secret`, for all tests that want it."""
    if missing := missing_packages():
        pytest.skip(f"vLLM's server needs {', '.join(missing)}")
    arguments = ("--max-model-len", "1024", "--api-key", "k-secret")
    log = tmp_path_factory.mktemp("vllm") / "log"
    with vllm_server(
        llm_folder, "smollm2-135m", *arguments, log=log, start_timeout_s=VLLM_START_TIMEOUT_S
    ) as server:
        yield server
