"""Whether an append holds speech: what the client states, then how loud it is. And what only acknowledges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_trio.protocol.duplex import AppendHints
from duplex_trio.session.state.speech_verdict import acknowledges, holds_speech, loudness

QUIET = np.full(320, 0.002, np.float32)
LOUD = np.full(320, 0.004, np.float32)


@pytest.mark.parametrize(
    ("hints", "speech"),
    [
        ({"is_speech": True, "vad": {"is_speech": False}, "speech_probability": 0.0}, True),
        ({"is_speech": False, "vad": {"is_speech": True}, "speech_probability": 1.0}, False),
        ({"vad": {"is_speech": True, "probability": 0.0}, "speech_probability": 0.0}, True),
        ({"vad": {"is_speech": False, "probability": 1.0}}, False),
        ({"vad": {"speech_probability": 0.5, "probability": 0.0}}, True),
        ({"vad": {"probability": 0.4}, "speech_probability": 1.0}, False),
        ({"speech_probability": 0.5}, True),
        ({"speech_probability": 0.49}, False),
    ],
)
@pytest.mark.parametrize("pcm", [QUIET, LOUD])
def test_what_the_client_states_counts(hints: dict[str, Any], speech: bool, pcm: Any) -> None:
    """The most explicit statement decides, however loud the sound is."""
    assert holds_speech(AppendHints(**hints), pcm, silence_rms=0.003) is speech


@pytest.mark.parametrize("hints", [{}, {"vad": {}}, {"duration_ms": 900}, {"transcript": "yes"}])
def test_without_a_statement_loudness_counts(hints: dict[str, Any]) -> None:
    """From the given root mean square on it is speech; where the line is drawn is the session's."""
    made = AppendHints(**hints)
    assert not holds_speech(made, QUIET, silence_rms=0.003)
    assert holds_speech(made, LOUD, silence_rms=0.003)
    assert holds_speech(made, QUIET, silence_rms=0.001)
    assert holds_speech(made, np.zeros(320, np.float32), silence_rms=0.0)


def test_loudness() -> None:
    """The root mean square; no samples are no sound."""
    assert loudness(np.array([0.3, -0.4], np.float32)) == pytest.approx((0.125) ** 0.5)
    assert loudness(np.zeros(0, np.float32)) == 0.0


@pytest.mark.parametrize(
    "words",
    ["yes", "Yes!", " OK. ", "o k", "Uh-huh", "Go on...", "please, continue", "嗯", "好的。", "对的"],
)
def test_acknowledgements(words: str) -> None:
    """In either language, whatever the case, the spaces and the punctuation."""
    assert acknowledges(words)


@pytest.mark.parametrize("words", [None, "", "...", "yes but", "stop", "no", "okay then tell me", "好吃"])
def test_other_words(words: str | None) -> None:
    """A word more, another word, or none, is no acknowledgement."""
    assert not acknowledges(words)
