"""What a scrape shows of sessions that live and of those that have ended."""

from __future__ import annotations

import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import CloseSession, ResponseDone
from duplex_trio.testing import open_talker, scripted_omni


def _figures(omni: DuplexOmni) -> dict[str, float]:
    lines = omni.render_metrics().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


async def test_counts_are_there_while_a_session_lives_and_stay_when_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A spoken turn shows in every figure at once, and its end takes nothing away."""
    async with scripted_omni(Script(heard=["hello"])) as omni:
        talker = await open_talker(omni)
        await talker.turn()
        await talker.heard.wait_for(ResponseDone)
        living = _figures(omni)
        talker.handle.submit(CloseSession())
        await talker.handle.wait_closed()
        ended = _figures(omni)
    assert living["duplex_sessions"] == 1
    assert living['duplex_responses_total{status="completed"}'] == 1
    assert living['duplex_speculations_total{fate="adopted"}'] == 1
    assert living["duplex_speech_end_to_first_audio_seconds_count"] == 1
    assert living['duplex_stage_alive{stage="llm"}'] == 1
    assert ended["duplex_sessions"] == 0
    assert ended["duplex_live_requests"] == 0
    for name, value in living.items():
        if name.endswith(("_total", "_count")) or "_total{" in name:
            assert ended[name] >= value, name
