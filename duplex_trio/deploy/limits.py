"""Every limit of a session, with its default. The reason for each number stands next to it.

They are declared here, below everything, because a deployment file sets them; what is done when one is
reached is the business of who keeps to it. `docs/limits.md` lists them for operators.
"""

from __future__ import annotations

from attrs import field, frozen

from duplex_trio.deploy.checks import at_least, positive
from duplex_trio.deploy.keys import called


@frozen(kw_only=True)
class SessionLimits:
    """Limits of one session; the same for all sessions of an engine.

    Sizes are bytes, times seconds unless the name says otherwise.
    """

    # ------------------------------------------------------------------ life

    idle_ttl_s: float | None = field(default=300.0, validator=positive)
    """A session without any activity is forgotten; None never."""
    disconnect_grace_s: float = field(default=30.0, validator=positive)
    """How long a resumable session waits for its client: a change of networks takes seconds."""
    journal_ttl_s: float = field(default=60.0, validator=positive, metadata=called("resume_replay_ttl_s"))
    """How long a sent event can be replayed: twice the time that a client has to come back in."""
    journal_bytes_max: int = field(
        default=8 * 1024 * 1024, validator=positive, metadata=called("resume_replay_max_bytes_per_session")
    )
    """Sent events kept for replay: two minutes of base64 pcm16 at 24 kHz."""

    # ------------------------------------------------------------------ input

    pending_input_bytes_max: int = field(
        default=16 * 1024 * 1024, validator=positive, metadata=called("max_pending_input_bytes_per_session")
    )
    """Uncommitted sound as float32: 262 s at 16 kHz."""
    speech_s_max: float = field(default=120.0, validator=positive)
    """Speech without a pause that is taken as one turn; what goes on after it begins the next one."""
    pending_turns_max: int = field(
        default=4, validator=positive, metadata=called("max_pending_turns_per_session")
    )
    """Commits that may wait for their answer: more is a client that does not listen."""
    pending_commands_max: int = field(default=64, validator=positive)
    """Other commands that may wait; a client that sends faster is told so."""
    conversation_items_max: int = field(default=10_000, validator=positive)
    """Items of the conversation: days of talk. The oldest go for those that the session makes itself."""
    conversation_chars_max: int = field(default=8_000_000, validator=positive)
    """Characters in the items that a client writes: far beyond what any model reads."""
    conversation_images_max: int = field(default=8, validator=positive)
    """Pictures of the conversation: what a model with a context of some thousand tokens can look at."""
    conversation_image_chars_max: int = field(default=4 * 1024 * 1024, validator=positive)
    """Characters of their URLs together: 3 MiB of pictures."""
    video_frames_max: int = field(default=2, validator=positive)
    """Newest video frames that wait for the next unit or turn: a base frame and a composite, as one append may hold."""
    history_messages_max: int = field(default=200, validator=positive)
    """Messages of the conversation that a model is told at most; a model may use fewer."""

    # ------------------------------------------------------------------ stages

    unit_timeout_s: float = field(default=10.0, validator=positive)
    """How long a stage may take to accept a unit, and the model to prepare for a session, a turn or a unit."""
    vad_timeout_s: float = field(default=5.0, validator=positive)
    """How long voice activity may take to score what waits in all sessions, some 25 ms of work at most; sessions
    that it fails go on without, and their clients commit by hand."""
    cleanup_timeout_s: float = field(default=5.0, validator=positive)
    """How long one attempt to release a stage request may take."""
    units_waiting_max: int = field(default=8, validator=positive)
    """Whole units that wait for a model that owns its turns; more sound waits in the buffer, which the input
    limit bounds."""
    units_unanswered_max: int = field(default=8, validator=positive)
    """Units that such a model took and has not answered, such as while its speech waits to be played: as long
    as it is behind, sound waits in the buffer."""
    unit_budget_ms: float = field(default=250.0, validator=at_least(0))
    """How late the answer to a unit may be before it counts as a miss: what a player usually buffers."""
    silence_units_max: int = field(default=64, validator=positive)
    """Silent units in a row that such a model is fed while it speaks.

    One that never ends its turn is stopped.
    """

    # ------------------------------------------------------------------ output

    media_lead_ms: float = field(default=300.0, validator=positive)
    """How far sound may run ahead of play-out: what is ahead cannot be taken back by a barge-in."""
    media_ms_max: float = field(default=2_000.0, validator=positive)
    """Sound that waits to be sent; the model waits too. Enough to hide a slow step of the model."""
    media_bytes_max: int = field(default=512 * 1024, validator=positive)
    """The same in bytes, for media that is not sound."""
    control_events_max: int = field(default=256, validator=positive)
    """Events that wait to be sent. One that finds them all there ends the session: the client does not read."""
    send_timeout_s: float = field(default=5.0, validator=positive)
    """How long one event may take to be written; the client is lost then."""
    goodbye_timeout_s: float = field(default=5.0, validator=positive)
    """How long the last events and the close frame may take."""
    ended_responses_max: int = field(default=32, validator=positive)
    """Ended responses whose playback may still be reported, cleared or truncated."""
