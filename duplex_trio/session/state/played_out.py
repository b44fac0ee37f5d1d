"""Which responses the client has finished playing, and when it will have finished the next one.

Whether a response is still being played is the session's to say: by the client's acknowledgements where it
gives any, else by the estimate of a player that never pauses.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import DuplexEvent, OutputAudioBufferStopped
from duplex_trio.session.state.engine_session import ACK_SLACK_S, DuplexEngineSession
from duplex_trio.session.state.response import Response


def played_out(session: DuplexEngineSession, now_s: float) -> list[DuplexEvent]:
    """Say of each response that has ended and is played by now that it is, once; oldest first.

    A response whose sound was cleared was not played to its end, and one without sound has none to stop.
    """
    playing = {response.response_id for response in session.unplayed(now_s)}
    events: list[DuplexEvent] = []
    for response in _to_be_stopped(session):
        if response.response_id not in playing:
            response.stopped = True
            events.append(
                OutputAudioBufferStopped(event_id=session.new_id("event_"), response_id=response.response_id)
            )
    return events


def next_play_end_s(session: DuplexEngineSession) -> float:
    """When the next response will have been played at the latest, by the session's clock; infinite for none."""
    slack_s = ACK_SLACK_S if session.acks_playback else 0.0
    return min((response.play_end_s + slack_s for response in _to_be_stopped(session)), default=float("inf"))


def _to_be_stopped(session: DuplexEngineSession) -> list[Response]:
    return [
        response
        for response in reversed(session.responses_newest_first())
        if response.status is not None
        and response.cursor.sent_ms > 0
        and not (response.cleared or response.stopped)
    ]
