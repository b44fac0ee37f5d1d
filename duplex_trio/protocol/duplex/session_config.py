"""The duplex session's configuration as values: what the deployment brings, what is in force, what is locked.

Nothing here reads or writes the wire; `session.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from attrs import Factory, frozen

from duplex_trio.protocol.realtime.session import SessionConfig
from duplex_trio.protocol.realtime.turn_detection import DEFAULT_SILENCE_DURATION_MS

OverlapPolicy = Literal["listen_only", "barge_in_on_speech", "by_duration"]
PlaybackCommitPolicy = Literal["commit_all_on_done", "ack_only"]

DEFAULT_IDLE_TIMEOUT_S: Final = 300.0

_NO_EXTRA: Final[Mapping[str, Any]] = MappingProxyType({})


@frozen(kw_only=True)
class SessionDefaults:
    """What the deployment and the model bring to a session before the client says anything.

    `owns_turns` says that the model decides when to speak: a duplex session then starts without turn
    detection. `private_extra_body_keys` are the knobs of `extra_body` that only the server may set.
    """

    model: str
    voice: str | None = None
    instructions: str | None = None
    temperature: float | None = None
    silence_duration_ms: int = DEFAULT_SILENCE_DURATION_MS
    owns_turns: bool = False
    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S
    extra_body: Mapping[str, Any] = _NO_EXTRA
    private_extra_body_keys: frozenset[str] = frozenset()


@frozen(kw_only=True)
class DuplexSessionConfig(SessionConfig):
    """A session's configuration in effective form. Times are seconds or milliseconds as the names say.

    `overlap_policy` always agrees with `turn_detection`: `barge_in_on_speech`, speech over an answer cuts it,
    exactly when detection is on and interrupts; else `listen_only`. With detection off a client may choose
    `by_duration`: speech over an answer cuts it once there are `overlap_barge_in_ms` of it.
    `playback_commit_policy` is fixed at open. `extra_body` holds the model's knobs. `defaults` is where a
    field returns to when the client sends null.

    Attributes:
        defaults: what a field returns to with null.
        initial_user_text: a user's message that the conversation begins with.
        ref_audio: the voice reference, for models that speak with one.
        idle_timeout_s: seconds of silence of the client after which its connection is closed; 0 for the
            default.
        overlap_policy: what speech over an answer does: `barge_in_on_speech` cuts it, `listen_only` does not,
            `by_duration` does after a while.
        overlap_short_ack_ms: speech over an answer that is shorter is a word of assent.
        overlap_barge_in_ms: speech over an answer that is longer cuts it, by duration.
        overlap_silence_rms: loudness (RMS of full scale) from which on sound is speech, where nothing else
            says so.
        playback_commit_policy: what the history has of an answer: `ack_only` what was acknowledged,
            `commit_all_on_done` all of it. Set at open.
        extra_body: knobs of the model, merged key by key.
    """

    defaults: SessionDefaults
    initial_user_text: str | None = None
    ref_audio: str | None = None
    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S
    overlap_policy: OverlapPolicy = "barge_in_on_speech"
    overlap_short_ack_ms: float = 700.0
    overlap_barge_in_ms: float = 1200.0
    overlap_silence_rms: float = 0.003
    playback_commit_policy: PlaybackCommitPolicy = "ack_only"
    extra_body: Mapping[str, Any] = Factory(dict)

    @property
    def auto_response(self) -> bool:
        """Whether the model decides when to speak: `extra_body.auto_response`, or what is this model's way.

        Of another way than its own no model can be, so a session refuses it.
        """
        said = self.extra_body.get("auto_response")
        return self.defaults.owns_turns if said is None else said is True


@frozen(kw_only=True)
class SessionLocks:
    """What an update may no longer change; at open nothing is locked.

    `voice_spoken`: sound of the voice was produced. `context_locked`: the model has read its instructions and
    cannot take others. `ref_audio`: the voice reference is in use. The model is not among them: any name is
    taken for the served one at any time, because published clients name one in the address and another in
    their session object.
    """

    voice_spoken: bool = False
    context_locked: bool = False
    ref_audio: bool = False


@frozen(kw_only=True)
class SessionState:
    """What of the duplex session object changes by itself. `playback` holds four cursor values in ms."""

    session_id: str
    state: str = "open"
    turn_state: str = "idle"
    epoch: int = 0
    turn_id: int = 0
    active_request_id: str | None = None
    active_response_id: str | None = None
    active_response_turn_id: int | None = None
    playback: Mapping[str, int] = MappingProxyType(
        {"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0}
    )
    capabilities: Mapping[str, Any] = _NO_EXTRA


NO_LOCKS: Final = SessionLocks()
