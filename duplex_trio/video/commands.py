"""What a client says while its video goes on, and how it is answered."""

from __future__ import annotations

from duplex_trio.protocol.video import (
    SessionInteraction,
    SessionPing,
    SessionPlayback,
    SessionStop,
    VideoRefused,
    decode_command,
)
from duplex_trio.video.session import VideoSession


async def obey(session: VideoSession, text: str | None) -> None:
    """Read one message and do what it says; one that is not taken is answered, and the video goes on.

    Waits while answers to earlier ones wait to be read.
    """
    await session.egress.control_room()
    if session.egress.closed:
        return
    try:
        if text is None:
            raise VideoRefused("invalid_message", "Binary messages are not expected.")
        match decode_command(text):
            case SessionInteraction() as interaction:
                await session.interact(interaction)
            case SessionPing():
                session.ping()
            case SessionStop():
                await session.stop("stopped")
            case SessionPlayback(position_seconds=position_s):
                session.playback(position_s)
    except VideoRefused as refusal:
        if refusal.code == "invalid_interaction":
            session.tally.unread += 1
        session.refused(refusal)
