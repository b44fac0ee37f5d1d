"""Whatever JSON an update holds, it is adopted whole or refused with a path, and the session can always be shown."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duplex_trio.protocol.duplex.session import (
    DialectName,
    SessionDefaults,
    SessionState,
    apply_patch,
    default_config,
    render_session,
)
from duplex_trio.protocol.realtime.errors import RealtimeError

DIALECTS: tuple[DialectName, ...] = ("ga", "beta", "duplex")
WORDS = [
    "type",
    "audio",
    "input",
    "output",
    "format",
    "rate",
    "voice",
    "id",
    "speed",
    "turn_detection",
    "server_vad",
    "semantic_vad",
    "threshold",
    "eagerness",
    "low",
    "silence_duration_ms",
    "idle_timeout_ms",
    "audio/pcm",
    "audio/pcmu",
    "g711_alaw",
    "pcm_f32le",
    "wav",
    "text",
    "modalities",
    "output_modalities",
    "transcription",
    "model",
    "language",
    "noise_reduction",
    "near_field",
    "tools",
    "function",
    "name",
    "parameters",
    "tool_choice",
    "auto",
    "none",
    "max_output_tokens",
    "inf",
    "tracing",
    "include",
    "prompt",
    "metadata",
    "truncation",
    "retention_ratio",
    "overlap_policy",
    "listen_only",
    "barge_in_on_speech",
    "extra_body",
    "auto_response",
    "sample_rate_hz",
    "input_audio_format",
    "idle_timeout_s",
    "x_unknown",
    "�",
]

word = st.sampled_from(WORDS)
scalar = (
    st.none()
    | st.booleans()
    | st.integers(-1, 30000)
    | st.floats(0, 2)
    | st.integers()
    | word
    | st.text(max_size=3)
)
json_value = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(word | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
patch = st.dictionaries(word, json_value, max_size=6)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patches=st.lists(patch, min_size=1, max_size=3), dialect=st.sampled_from(DIALECTS))
def test_any_update_is_adopted_or_refused(patches: list[dict[str, Any]], dialect: DialectName) -> None:
    config = default_config(SessionDefaults(model="served"), dialect)
    state = SessionState(session_id="duplex-1")
    for update in patches:
        refused: RealtimeError | None = None
        try:
            config = apply_patch(config, update, dialect=dialect)
        except RealtimeError as error:
            refused = error
        if refused is not None:
            assert refused.param is not None
            assert refused.param.split(".")[0] == "session"
            assert len(refused.message) < 1000
        session = render_session(config, dialect=dialect, state=state)
        assert orjson.loads(orjson.dumps(session)) == session
        again = apply_patch(config, session, dialect=dialect)
        assert render_session(again, dialect=dialect, state=state).keys() == session.keys()
        assert again.turn_detection == config.turn_detection
        assert (again.voice, again.tools, again.unknown) == (config.voice, config.tools, config.unknown)
