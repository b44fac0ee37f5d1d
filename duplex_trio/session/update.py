"""`session.update` as a transaction, and the checks of one response's overrides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from duplex_trio.protocol.duplex import (
    DuplexEvent,
    RealtimeError,
    ResponseCreateOptions,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import (
    DuplexSessionConfig,
    SessionLocks,
    SessionState,
    apply_patch,
    render_session,
)
from duplex_trio.session.core import SessionCore
from duplex_trio.session.model_config import check_own_tools, check_ref_audio, updated_runtime_config
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.items import seed_user_text
from duplex_trio.session.state.response_start import output_format_of

MIN_SPEED, MAX_SPEED = 0.25, 1.5
"""OpenAI's range of `speed`."""


def session_object(state: DuplexEngineSession) -> dict[str, Any]:
    """The effective session object in the client's dialect, as plain JSON types."""
    active = state.active
    last = state.last_response
    shown = SessionState(
        session_id=state.session_id,
        state=state.state,
        turn_state=state.turn_state,
        epoch=state.epoch,
        turn_id=state.turn_id,
        active_response_id=active.response_id if active is not None else None,
        active_response_turn_id=active.turn_id if active is not None else None,
        capabilities=state.capabilities.render(),
    )
    if last is not None:
        shown = attrs.evolve(shown, playback=attrs.asdict(last.playback()))
    return render_session(state.config, dialect=state.dialect, state=shown)


class SessionUpdater:
    """Applies updates to a session's configuration, all or nothing.

    Args:
        core: the session.
        on_adopted: told of the configuration before and after an accepted update.
    """

    def __init__(
        self, core: SessionCore, on_adopted: Callable[[DuplexSessionConfig, DuplexSessionConfig], None]
    ) -> None:
        self._core = core
        self._on_adopted = on_adopted

    def update(self, command: UpdateSession) -> None:
        """Adopt an update and confirm it.

        Raises:
            RealtimeError: the code of the first fault; the session is unchanged.
        """
        state = self._core.state
        before = state.config
        config = apply_patch(before, command.patch, dialect=state.dialect, locked=self._locks())
        self.check_voice(config.voice, "session.audio.output.voice")
        runtime_config = updated_runtime_config(self._core.plugin, config, state.runtime_config, before)
        seeded: list[DuplexEvent] = []
        if config.initial_user_text != before.initial_user_text:
            seeded = seed_user_text(state, config.initial_user_text)
        state.config = config
        state.runtime_config = runtime_config
        state.config_generation += 2
        self._on_adopted(before, config)
        self._core.touch()
        updated = SessionUpdated(event_id=state.new_id("event_"), session=session_object(state))
        self._core.emit([updated, *seeded])

    def check_response_options(self, options: ResponseCreateOptions) -> None:
        """Refuse overrides that this model cannot honour.

        Raises:
            RealtimeError: `unsupported_native_response_options`, `invalid_value`, `ref_audio_required` or
            `unsupported_audio_format`.
        """
        core = self._core
        modalities = core.state.response_modalities(options)
        check_ref_audio(core.plugin, core.state.config, modalities, "response.output_modalities")
        self.check_voice(options.voice, "response.audio.output.voice")
        if options.speed is not None and not MIN_SPEED <= options.speed <= MAX_SPEED:
            raise RealtimeError(
                "invalid_value",
                f"speed must be between {MIN_SPEED} and {MAX_SPEED}",
                param="response.audio.output.speed",
            )
        if options.tools and not self._core.state.capabilities.supports_tools:
            raise RealtimeError(
                "unsupported_native_response_options", "the model takes no tools", param="response.tools"
            )
        check_own_tools(core.plugin, core.state.config, options)
        output_format_of(core.state.config, options, core.state.dialect)

    def check_voice(self, voice: str | None, param: str) -> None:
        """Any voice name is taken.

        A client built for other voices must work. An unknown one speaks in the default.
        """
        known = self._core.plugin.voices
        if voice is not None and known and voice not in known:
            self._core.log.info(
                "voice.unknown", voice=voice, param=param, speaks_as=self._core.plugin.default_voice
            )

    def _locks(self) -> SessionLocks:
        state = self._core.state
        return SessionLocks(
            voice_spoken=state.voice_spoken,
            context_locked=state.context_locked and state.capabilities.locks_context_after_input,
            ref_audio=True,
        )
