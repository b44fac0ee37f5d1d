"""The options of `serve`, and what they become."""

import argparse
import io
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from structlog.testing import capture_logs

from duplex_trio.cli import serve
from duplex_trio.cli.compose import make_omni, plan_serving, read_deploy
from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.log import configure_logging
from duplex_trio.deploy import load_deploy
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.serving.service_manager import NO_SERVICE_MANAGER, Systemd
from duplex_trio.tracing import NO_TRACER


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    return parser.parse_args(["serve", *arguments])


def options(*arguments: str) -> Any:
    return serve.serve_options(parse(*arguments), load_deploy("cascade_cpu"))


def test_the_defaults_listen_on_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUPLEX_TRIO_API_KEY", raising=False)
    default = options()
    assert (default.host, default.port) == ("127.0.0.1", 8765)
    assert default.api_keys == default.allowed_origins == ()
    assert (default.drain_timeout_s, default.handle_signals, default.tune_process) == (10.0, True, True)
    assert (default.model_name, default.max_model_len, default.log_transcripts) == (None, 2048, False)
    assert (default.ws, default.certfile, default.keyfile, default.tls) == ("native", None, None, False)


def test_the_websocket_path_and_tls_are_chosen() -> None:
    chosen = options("--ws", "asgi", "--certfile", "c.pem", "--keyfile", "k.pem")
    assert (chosen.ws, chosen.certfile, chosen.keyfile, chosen.tls) == ("asgi", "c.pem", "k.pem", True)


@pytest.mark.parametrize("half", ["--certfile", "--keyfile"])
def test_half_a_certificate_is_refused(half: str) -> None:
    with pytest.raises(CommandError, match="--certfile and --keyfile come together"):
        serve.run(parse("--deploy", "scripted", half, "c.pem"))
    with pytest.raises(ValueError, match="come together"):
        options(half, "c.pem")


def test_keys_come_from_options_and_the_environment_without_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DUPLEX_TRIO_API_KEY", "k2, k3")
    assert options("--api-key", "k1", "--api-key", "k2").api_keys == ("k1", "k2", "k3")


@pytest.mark.parametrize("value", [", ,", "\n"])
def test_a_variable_without_a_key_opens_no_server(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DUPLEX_TRIO_API_KEY", value)
    with pytest.raises(CommandError, match="holds no key"):
        options()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "65536"),
        ("--port", "-1"),
        ("--port", "http"),
        ("--max-sessions", "0"),
        ("--drain-timeout", "-1"),
        ("--drain-timeout", "nan"),
        ("--drain-timeout", "inf"),
        ("--api-key", ""),
        ("--api-key", " k"),
        ("--allow-origin", "app.example"),
        ("--allow-origin", "https://app.example/path"),
        ("--allow-origin", "https://app.example/"),
        ("--log-level", "loud"),
        ("--ws", "uvicorn"),
        ("--model-name", ""),
        ("--model-name", " "),
        ("--model-name", "a\nb"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_the_parser(
    arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(*arguments)
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize("origin", ["*", "null", "https://app.example", "http://localhost:3000"])
def test_origins_are_whole(origin: str) -> None:
    assert options("--allow-origin", origin).allowed_origins == (origin,)


def test_models_and_sessions_win_over_the_deployment() -> None:
    deploy = read_deploy(
        "cascade_cpu", models={"llm": "/m/llm", "asr": None, "tts": "/m/tts"}, max_sessions=3
    )
    assert [stage.model for stage in deploy.stages] == ["whisper-tiny.en", "/m/llm", "/m/tts"]
    assert deploy.duplex_session.max_sessions == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pipeline: nonsense\nsession_mode: duplex\n",
            "there is no pipeline 'nonsense'.*; there are cascade, ",
        ),
        ("pipeline: scripted\nsession_mode: duplex\nnonsense: 1\n", "unknown key 'nonsense' at top level"),
    ],
)
def test_a_deployment_that_cannot_be_served_is_a_command_error(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text(text)
    with pytest.raises(CommandError, match=message):
        read_deploy(str(path), models={})


def test_a_model_for_a_stage_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(
        CommandError, match="--video: pipeline scripted has no video stage, but asr, llm, tts"
    ):
        read_deploy("scripted", models={"video": "x"})


@pytest.mark.parametrize("name", ["scripted", "scripted_turns", "scripted_native"])
def test_a_model_for_a_pipeline_that_loads_none(name: str) -> None:
    """Taken silently, it would be thought to answer."""
    role = {"scripted": "llm", "scripted_turns": "tts", "scripted_native": "native"}[name]
    with pytest.raises(CommandError, match=f"--{role}: pipeline {name} loads no models"):
        read_deploy(name, models={role: "x"})


def test_the_limits_of_the_deployment_reach_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text(
        "base_config: scripted\nduplex_session:\n  max_sessions: 5\n  idle_ttl_s: null\n  disconnect_grace_s: 7\n"
        "  max_pending_input_bytes_per_session: 1000\n  max_pending_turns_per_session: 2\n"
    )
    deploy = read_deploy(str(path), models={})
    omni = make_omni(plan_serving(deploy), instructions="be kind")
    assert isinstance(omni, DuplexOmni)
    assert omni.statistics().max_sessions == 5
    limits = omni.duplex_engine.manager._limits
    assert (limits.idle_ttl_s, limits.disconnect_grace_s) == (None, 7.0)
    assert (limits.pending_input_bytes_max, limits.pending_turns_max) == (1000, 2)


@pytest.fixture
def stream() -> io.StringIO:
    """A place for the log."""
    return io.StringIO()


def test_the_log_is_key_value_where_no_terminal_is(stream: io.StringIO) -> None:
    configure_logging("info", stream=stream)
    log = structlog.get_logger("test")
    log.info("session.opened", session_id="s 1", nothing=None)
    log.debug("not.shown")
    line = stream.getvalue()
    assert line.startswith("timestamp=")
    assert line.endswith('Z level=info event=session.opened session_id="s 1"\n')


def test_the_log_is_json_on_request_and_takes_other_packages_in(stream: io.StringIO) -> None:
    configure_logging("info", as_json=True, stream=stream)
    structlog.get_logger("test").info("one", n=1)
    logging.getLogger("other").info("not shown")
    logging.getLogger("other").warning("two %s", "x")
    first, second = map(orjson.loads, stream.getvalue().splitlines())
    assert (first["event"], first["n"], first["level"]) == ("one", 1, "info")
    assert (second["event"], second["logger"], second["level"]) == ("two x", "other", "warning")
    assert first["timestamp"] <= second["timestamp"]


def test_an_exception_is_in_the_json_line(stream: io.StringIO) -> None:
    configure_logging("info", as_json=True, stream=stream)
    try:
        raise RuntimeError("why")
    except RuntimeError:
        structlog.get_logger("test").exception("failed")
    assert "RuntimeError: why" in orjson.loads(stream.getvalue())["exception"]


# ------------------------------------------------------------------ traces and the service manager


def test_traces_are_off_unless_somebody_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert options().tracer is NO_TRACER
    assert options().manager is NO_SERVICE_MANAGER


def test_traces_that_cannot_be_had_end_the_command_only_if_it_asked_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment may be that of every program of a machine."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(CommandError, match="--otel: OTLP over grpc is not there"):
        options("--otel")
    with capture_logs() as lines:
        assert options().tracer is NO_TRACER
    assert [line["event"] for line in lines] == ["tracing.unavailable"]
    assert options("--no-otel").tracer is NO_TRACER


def test_who_started_the_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    assert isinstance(options().manager, Systemd)
