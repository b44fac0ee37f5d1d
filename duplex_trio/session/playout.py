"""Tells the client when the sound of a response has been played to its end."""

from __future__ import annotations

import trio

from duplex_trio.session.core import SessionCore
from duplex_trio.session.state.played_out import next_play_end_s, played_out


class PlayoutWatch:
    """Sends `output_audio_buffer.stopped`.

    Args:
        core: the session. Whoever changes what is being played wakes `core.playout_changed`.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    async def run(self) -> None:
        """Wait for the ends of responses, one after another, until cancelled."""
        core = self._core
        while True:
            core.emit(played_out(core.state, core.now_s))
            with trio.move_on_at(next_play_end_s(core.state)):
                await core.playout_changed.park()
