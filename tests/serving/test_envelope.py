"""The handshake as a function: dialects, who speaks first, refusals and close codes."""

import orjson
import pytest

from duplex_trio.entrypoints.client_messages import refusal_close_code
from duplex_trio.protocol.dialects import Dialect
from duplex_trio.protocol.duplex import Heartbeat, RealtimeError, SessionResume
from duplex_trio.serving.envelope import (
    Handshake,
    OpenSession,
    RefuseSession,
    ResumeSession,
    Unavailable,
    close_reason,
    config_timeout,
    read_first_message,
    read_handshake,
)

BETA = [(b"openai-beta", b"realtime=v1")]


def handshake(target: str, headers: object = (), subprotocols: object = ()) -> Handshake:
    path, _, query = target.partition("?")
    asked = read_handshake(path, query.encode(), headers, subprotocols)  # type: ignore[arg-type]
    assert isinstance(asked, Handshake), asked
    return asked


@pytest.mark.parametrize(
    ("target", "headers", "dialect"),
    [
        ("/v1/realtime", [], Dialect.GA),
        ("/v1/realtime?model=m", [], Dialect.GA),
        ("/v1/realtime", BETA, Dialect.BETA),
        ("/v1/realtime", [(b"openai-beta", b"assistants=v2, realtime=v1")], Dialect.BETA),
        ("/v1/realtime", [(b"openai-beta", b"assistants=v2")], Dialect.GA),
        ("/v1/realtime?duplex=1", [], Dialect.DUPLEX),
        ("/v1/realtime?duplex=TRUE", [], Dialect.DUPLEX),
        ("/v1/realtime?duplex=On&model=m", [], Dialect.DUPLEX),
        ("/v1/realtime?duplex=1", BETA, Dialect.DUPLEX),
        ("/v1/duplex", [], Dialect.DUPLEX),
        ("/v1/duplex?duplex=0", [], Dialect.DUPLEX),
        ("/v1/duplex", BETA, Dialect.DUPLEX),
    ],
)
def test_the_dialect_follows_path_query_and_header(target: str, headers: object, dialect: Dialect) -> None:
    assert handshake(target, headers).dialect is dialect


def test_a_browser_asks_for_the_beta_with_a_subprotocol() -> None:
    asked = handshake("/v1/realtime", [], ["realtime", "openai-beta.realtime-v1"])
    assert asked.dialect is Dialect.BETA
    assert asked.subprotocol == "realtime"


@pytest.mark.parametrize("value", ["0", "yes", "false", "", "2"])
def test_any_other_value_of_duplex_asks_for_a_handler_that_is_not_there(value: str) -> None:
    asked = read_handshake("/v1/realtime", f"duplex={value}".encode(), [], ["realtime"])
    assert isinstance(asked, Unavailable)
    assert f"duplex={value} asks for" in asked.message
    assert asked.subprotocol == "realtime"


@pytest.mark.parametrize(
    "path", ["/", "/v1/realtime/video", "/v1/realtime/", "/v2/realtime", "/v1/audio/speech/stream"]
)
def test_other_paths_are_unavailable(path: str) -> None:
    assert isinstance(read_handshake(path, b"", []), Unavailable)


@pytest.mark.parametrize(
    ("target", "at_once", "required"),
    [
        ("/v1/realtime", True, False),
        ("/v1/realtime?model=m", True, False),
        ("/v1/realtime?model=m&autostart=0", True, False),
        ("/v1/duplex", False, False),
        ("/v1/duplex?model=m", True, False),
        ("/v1/duplex?model=", False, False),
        ("/v1/duplex?model=m&autostart=1", True, False),
        ("/v1/duplex?model=m&autostart=0", False, True),
        ("/v1/duplex?model=m&autostart=%20OFF%20", False, True),
        ("/v1/duplex?model=m&autostart=no", False, True),
        ("/v1/duplex?model=m&autostart=false", False, True),
        ("/v1/duplex?model=m&resume=yes", False, True),
        ("/v1/duplex?model=m&resume=1", False, True),
        ("/v1/duplex?model=m&resume=0", True, False),
        ("/v1/duplex?autostart=0", False, True),
    ],
)
def test_who_speaks_first(target: str, at_once: bool, required: bool) -> None:
    asked = handshake(target)
    assert (asked.opens_at_once, asked.opening_required) == (at_once, required)


def test_any_model_text_is_taken_as_it_is() -> None:
    assert handshake("/v1/realtime?model=gpt%20%C3%A9%2F9").model == "gpt é/9"


@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        ([], None),
        (["realtime"], "realtime"),
        (["openai-insecure-api-key.sk-1", "realtime"], "realtime"),
        (["openai-insecure-api-key.sk-1"], None),
        (["graphql-ws"], None),
    ],
)
def test_only_realtime_is_ever_selected(offered: list[str], selected: str | None) -> None:
    assert handshake("/v1/realtime", [], offered).subprotocol == selected


WAITING = handshake("/v1/duplex")
HELD_BACK = handshake("/v1/duplex?autostart=0")


def first(message: object, asked: Handshake = WAITING) -> OpenSession | RefuseSession:
    raw = message if isinstance(message, str) else orjson.dumps(message).decode()
    return read_first_message(asked, raw)


@pytest.mark.parametrize("asked", [WAITING, HELD_BACK])
def test_a_session_update_opens_with_its_session(asked: Handshake) -> None:
    assert first({"type": "session.update", "session": {"voice": "v"}}, asked) == OpenSession(
        patch={"voice": "v"}
    )
    assert first({"type": "session.update", "event_id": "e", "voice": "v"}, asked) == OpenSession(
        patch={"voice": "v"}, event_id="e"
    )


def test_another_command_opens_the_default_session_and_is_then_run() -> None:
    opening = first({"type": "session.heartbeat", "event_id": "e"})
    assert opening == OpenSession(command=Heartbeat(event_id="e"))


@pytest.mark.parametrize(
    "message", [{"type": 3}, {}, {"type": "nonsense"}, {"type": "conversation.item.create"}]
)
def test_a_faulty_object_opens_the_default_session_which_reports_it(message: object) -> None:
    opening = first(message)
    assert isinstance(opening, OpenSession)
    assert opening.complaint is not None
    assert opening.patch is None


def refused(opening: OpenSession | RefuseSession) -> RealtimeError:
    assert isinstance(opening, RefuseSession)
    return opening.error


@pytest.mark.parametrize("asked", [WAITING, HELD_BACK])
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("no json", "invalid_json"),
        ("[1]", "bad_event"),
        ('"text"', "bad_event"),
        ("x" * (15 * 1024 * 1024 + 1), "event_too_large"),
        ('{"type":"session.resume","session_id":"s"}', "invalid_session_resume"),
        ('{"type":"session.resume","session_id":"s","resume_token":1}', "invalid_session_resume"),
        (
            '{"type":"session.resume","session_id":"s","resume_token":"t","last_received_server_event_seq":-1}',
            "invalid_session_resume",
        ),
    ],
)
def test_what_is_no_message_at_all_is_refused(asked: Handshake, raw: str, code: str) -> None:
    assert refused(first(raw, asked)).code == code


@pytest.mark.parametrize("asked", [WAITING, HELD_BACK])
def test_a_session_may_be_resumed_first(asked: Handshake) -> None:
    message = {"type": "session.resume", "session_id": "s", "resume_token": "t"}
    seen = {**message, "last_received_server_event_seq": 7}
    assert first(message, asked) == ResumeSession(SessionResume(session_id="s", resume_token="t"))
    assert first(seen, asked) == ResumeSession(
        SessionResume(session_id="s", resume_token="t", last_received_server_event_seq=7)
    )


def test_with_autostart_off_only_an_opening_may_come_first() -> None:
    error = refused(first({"type": "session.heartbeat", "event_id": "e"}, HELD_BACK))
    assert (error.code, error.param, error.event_id) == ("bad_event", "type", "e")
    assert refused(first({"type": "nonsense"}, HELD_BACK)).code == "unknown_event"


def test_silence_is_a_config_timeout() -> None:
    error = config_timeout(10.0).error
    assert (error.code, error.message) == ("config_timeout", "no session.update within 10 s")


@pytest.mark.parametrize(
    ("code", "expected"), [("resource_exhausted", 1013), ("engine_error", 1011), ("config_timeout", 1008)]
)
def test_the_close_code_says_whose_doing_it_was(code: str, expected: int) -> None:
    assert refusal_close_code(RealtimeError(code, "why")) == expected


def test_a_reason_is_cut_to_a_close_frame_without_splitting_a_character() -> None:
    assert close_reason("short") == "short"
    assert close_reason("a" * 200) == "a" * 123
    assert close_reason("a" + "é" * 100) == "a" + "é" * 61
    assert len(close_reason("😀" * 100).encode()) == 120
