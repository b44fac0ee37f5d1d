"""Speech without a pause: it ends as a turn before the input line is full."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStopped,
    ResponseDone,
)
from duplex_trio.testing import open_session

pytestmark = pytest.mark.slow


async def test_a_turn_ends_after_the_longest_speech(autojump_clock: MockClock) -> None:
    """Twelve seconds without a pause are two turns of five seconds and the rest; none of it is lost or refused."""
    limits = SessionLimits(speech_s_max=5.0)
    patch = {"turn_detection": {"type": "server_vad", "interrupt_response": False}}
    async with open_session(Script(), limits=limits, patch=patch) as talker:
        await talker.turn(12.0)
        await talker.heard.nth(InputAudioBufferCommitted, 3)
        ends_ms = [event.audio_end_ms for event in talker.heard.of(InputAudioBufferSpeechStopped)]
        assert len(ends_ms) == 3
        assert all(
            5000 <= later - earlier <= 6100
            for earlier, later in zip([0, *ends_ms], ends_ms[:2], strict=False)
        )
        await talker.heard.nth(ResponseDone, 2)
        assert talker.heard.of(ErrorEvent) == []


async def test_a_small_input_line_ends_the_turn_earlier(autojump_clock: MockClock) -> None:
    """Whatever the limit on speech is, it is committed before the line refuses sound."""
    limits = SessionLimits(pending_input_bytes_max=4 * 16_000 * 4)
    async with open_session(Script(), limits=limits) as talker:
        await talker.turn(10.0)
        await talker.heard.wait_for(ResponseDone)
        assert talker.heard.of(ErrorEvent) == []
        assert len(talker.heard.of(InputAudioBufferCommitted)) >= 3
