"""A session's state without tasks: ids count up, times are given by the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import ResponseCreateOptions
from duplex_trio.protocol.duplex.session import DialectName, SessionDefaults, apply_patch, default_config
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.session.state.lease import DuplexLeaseState
from duplex_trio.session.state.response import Response

MakeSession = Callable[..., DuplexEngineSession]


def counting_ids() -> Callable[[str], str]:
    """Ids `event_1`, `event_2`, ..., one count for each prefix."""
    counts: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        counts[prefix] += 1
        return f"{prefix}{counts[prefix]}"

    return new_id


@pytest.fixture
def make_session() -> MakeSession:
    """Makes the state of a session: `make_session(dialect="ga", patch={...}, capabilities=...)`."""

    def make(
        *,
        dialect: DialectName = "duplex",
        patch: dict[str, Any] | None = None,
        capabilities: DuplexCapabilities | None = None,
        bytes_max: int = 1 << 20,
        **more: Any,
    ) -> DuplexEngineSession:
        config = default_config(SessionDefaults(model="scripted", voice="tone"), dialect)
        return DuplexEngineSession(
            session_id="duplex-1",
            dialect=dialect,
            config=apply_patch(config, patch or {}, dialect=dialect),
            capabilities=capabilities or DuplexCapabilities(),
            lease=DuplexLeaseState(300.0, 30.0, 0.0),
            timeline=InputTimeline(16_000, bytes_max),
            output_sample_rate_hz=24_000,
            new_id=counting_ids(),
            conversation_id="conv_1",
            model_name="scripted",
            default_voice="tone",
            **more,
        )

    return make


@pytest.fixture
def begin() -> Callable[..., Response]:
    """Begins a response: `begin(session, metadata=...)`, with the options of a `response.create`."""

    def begin(session: DuplexEngineSession, **options: Any) -> Response:
        return session.begin_response(session.next_turn(), ResponseCreateOptions(**options), 0.0)

    return begin


@pytest.fixture
def speak() -> Callable[..., None]:
    """Lets a response say `abcdefghij` in one second of sound, of which the first `sent` deltas of 100 ms leave."""

    def speak(session: DuplexEngineSession, made: Response, *, sent: int = 10, now_s: float = 0.0) -> None:
        for entry in made.speech(np.zeros(24_000, np.float32), 24_000, "abcdefghij"):
            if entry.duration_ms > 0 and sent <= 0:
                continue
            if entry.duration_ms > 0:
                session.note_sent(made, entry.duration_ms, now_s)
                sent -= 1
            made.note_sent(entry)

    return speak


@pytest.fixture
def told() -> Callable[[DuplexEngineSession], list[str]]:
    """What the model is told of a session's conversation."""
    return lambda session: [message.content for message in session.conversation.messages()]
