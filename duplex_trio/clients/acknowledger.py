"""Acknowledging by itself what a listener has heard: the loop between a `PlaybackCursor` and a client.

The server keeps of a cut answer what was acknowledged when it was cut, so the listener's position is told
while the sound is heard, and at once when it stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import trio

from duplex_trio.clients.commands import DuplexCommands
from duplex_trio.clients.errors import DuplexBufferFullError, DuplexClientError
from duplex_trio.clients.events import (
    OWN_ACKNOWLEDGMENT,
    AudioDelta,
    OutputAudioCleared,
    ResponseDone,
    ServerEvent,
    SessionEvent,
)
from duplex_trio.clients.playback import PlaybackAck, PlaybackCursor
from duplex_trio.protocol import duplex as wire

LOOK_EVERY_S = 0.05
"""How often to look what has been heard while something is heard: a quarter of what is acknowledged at a time."""


class PlaybackAcknowledger:
    """Watches the sound of a session and acknowledges it as it is heard.

    Args:
        cursor: how it is played.
    """

    def __init__(self, cursor: PlaybackCursor) -> None:
        self.cursor = cursor
        self._moved = trio.Event()
        self._wanted = True

    def observe(self, event: ServerEvent) -> None:
        """Account for one event of the session. Never blocks."""
        self.cursor.observe(event)
        match event:
            case SessionEvent():
                able = event.session.get("capabilities")
                self._wanted = not isinstance(able, Mapping) or able.get("supports_playback_ack") is not False
            case AudioDelta() | ResponseDone() | OutputAudioCleared():
                self._moved.set()

    async def run(self, client: DuplexCommands) -> None:
        """Acknowledge until the session is over."""
        while True:
            self._moved = trio.Event()
            for ack in list(self.cursor.acknowledgments(trio.current_time())):
                if self._wanted and not await self._tell(client, ack):
                    return
            patience_s = LOOK_EVERY_S if self.cursor.pending else float("inf")
            with trio.move_on_after(patience_s):
                await self._moved.wait()

    async def _tell(self, client: DuplexCommands, ack: PlaybackAck) -> bool:
        """Send one acknowledgment; false if the session is over, which its user learns elsewhere."""
        command = wire.AckPlayback(
            event_id=f"{OWN_ACKNOWLEDGMENT}{uuid4().hex}",
            played_ms=ack.played_ms,
            response_id=ack.response_id,
            item_id=ack.item_id,
        )
        while True:
            try:
                await client.send(wire.command_message(command))
            except DuplexBufferFullError:
                # The connection is down and full of what was said before; the server still has to know.
                await trio.sleep(LOOK_EVERY_S)
            except DuplexClientError:
                return False
            else:
                return True
