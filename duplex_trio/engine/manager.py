"""All sessions of an engine: who is let in, and who is still here."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import structlog
import trio
from attrs import define

from duplex_trio.deploy import SessionLimits
from duplex_trio.engine.tally import SessionTally
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.duplex.session import DialectName, SessionDefaults, apply_patch, default_config
from duplex_trio.protocol.sampling import Sampling
from duplex_trio.session.attachment import Attachment, ResumableAttachment
from duplex_trio.session.core import SessionEnd
from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.handle import DuplexSessionHandle
from duplex_trio.session.model_config import new_model_state, opened_runtime_config
from duplex_trio.session.port import DuplexStagePort
from duplex_trio.session.run import DuplexSessionRunner
from duplex_trio.session.state.egress_queue import EgressWaiting
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.session.state.lease import DuplexLeaseState
from duplex_trio.tracing import NO_TRACER, SessionEnding, SessionOpening, SessionTrace, Tracer

log = structlog.get_logger("duplex_trio.engine")


OPEN_ABANDONED = "open_abandoned"
"""Why a session ends that was closed before it was open."""
CANCELLED = SessionEnd("cancelled", code=1001)
"""How a session ends that its engine took with it."""


def new_id(prefix: str) -> str:
    """A fresh id that nobody can guess: the prefix and 32 hex digits."""
    return prefix + secrets.token_hex(16)


@define(eq=False)
class _Admission:
    """A session on its way in; `abandoned` once it was closed before it was there."""

    session_id: str
    abandoned: bool = False


class DuplexSessionManager:
    """Admission and the table of sessions.

    Args:
        plugin: the model.
        port: the stages.
        max_sessions: sessions at once; one that is closing keeps its slot until its stage requests are
        released.
        limits: limits of each session.
        model_name: the served model.
        instructions: default instructions of a session.
        tally: where sessions are counted.
        noun: what a session of this manager is called in the log.
        id_prefix: what their ids begin with.

    Attributes:
        tracer: who traces the sessions that are opened from here on.
    """

    def __init__(
        self,
        plugin: DuplexModelPlugin,
        port: DuplexStagePort,
        *,
        max_sessions: int,
        limits: SessionLimits,
        model_name: str,
        instructions: str | None,
        tally: SessionTally,
        noun: str = "session",
        id_prefix: str = "duplex-",
    ) -> None:
        self._plugin = plugin
        self._port = port
        self._max_sessions = max_sessions
        self._limits = limits
        self._model_name = model_name
        self._instructions = instructions
        self._tally = tally
        self._noun = noun
        self._id_prefix = id_prefix
        self.tracer: Tracer = NO_TRACER
        self._sessions: dict[str, DuplexSessionHandle] = {}
        self._admitting: dict[str, _Admission] = {}
        self._draining = False
        self._nursery: trio.Nursery | None = None
        self._gone = trio.lowlevel.ParkingLot()

    @property
    def count(self) -> int:
        """Sessions that hold a slot, those that are still being opened included."""
        return len(self._sessions.keys() | self._admitting.keys())

    def live_counters(self) -> list[SessionCounters]:
        """The counters of the sessions that hold a slot."""
        return [handle.counters for handle in self._sessions.values()]

    def waiting(self) -> list[EgressWaiting]:
        """What waits for the clients of these sessions."""
        return [handle.waiting() for handle in self._sessions.values()]

    def use_nursery(self, nursery: trio.Nursery | None) -> None:
        """Let sessions live in this nursery; without one no session is let in."""
        self._nursery = nursery

    async def open_session(
        self,
        *,
        dialect: DialectName,
        attachment: Attachment,
        model: str | None = None,
        patch: Mapping[str, Any] | None = None,
        sampling: Sampling | None = None,
        trace_headers: Mapping[str, str] | None = None,
    ) -> DuplexSessionHandle:
        """Open a session and attach its consumer.

        A session that is closed while it opens opens nevertheless, and closes at once as `open_abandoned`.

        Args:
            dialect: how events are written for the consumer.
            attachment: the consumer. A `ResumableAttachment` may be replaced later, where the model can.
            model: the model as the client names it; any name is taken and echoed.
            patch: the client's session object.
            sampling: how the model chooses the words of its answers.
            trace_headers: `traceparent` and `tracestate` of a client that traces too.

        Raises:
            RealtimeError: `resource_exhausted`, `timeout` when the model took too long to prepare for it, or
                what is wrong with `patch`.
        """
        with self._admission() as admission:
            # The slot is held from here on, also while the model prepares.
            state = await self._new_state(admission.session_id, dialect, model, patch or {}, sampling)
            nursery = self._running_nursery()
            trace = self.tracer.session(
                SessionOpening(
                    kind=self._noun,
                    session_id=state.session_id,
                    model=self._model_name,
                    dialect=dialect,
                    at_s=trio.current_time(),
                    headers=trace_headers or {},
                )
            )
            with _ended_if_it_fails(trace):
                runner = DuplexSessionRunner(
                    state,
                    plugin=self._plugin,
                    port=self._port,
                    limits=self._limits,
                    attachment=attachment,
                    trace=trace,
                )
                handle: DuplexSessionHandle = await nursery.start(self._carry, runner)
            if admission.abandoned:
                handle.close(OPEN_ABANDONED, code=1001)
        return handle

    def get_session(self, session_id: str) -> DuplexSessionHandle:
        """Find a session.

        Raises:
            RealtimeError: `unknown_session`.
        """
        handle = self._sessions.get(session_id)
        if handle is None:
            raise RealtimeError("unknown_session", f"there is no session {session_id!r}")
        return handle

    def resume_session(
        self,
        session_id: str,
        *,
        attachment: ResumableAttachment,
        expected_generation: int,
        control_id: str,
        last_seq: int,
    ) -> int:
        """Attach another consumer to a session; see `DuplexSessionHandle.resume`.

        Raises:
            RealtimeError: `unknown_session`, `session_closed`, `unsupported_session_resume`, or
                `session_resume_conflict`.
            JournalGapError: events behind `last_seq` are no longer kept.
        """
        return self.get_session(session_id).resume(
            attachment, expected_generation=expected_generation, control_id=control_id, last_seq=last_seq
        )

    def detach_session(self, session_id: str, expected_generation: int | None = None) -> None:
        """Leave a session to itself for a while; see `DuplexSessionHandle.detach`.

        Raises:
            RealtimeError: `unknown_session`, `session_closed`, `unsupported_session_resume`, or
                `session_resume_conflict`.
        """
        self.get_session(session_id).detach(expected_generation)

    def touch_session(self, session_id: str) -> None:
        """Keep a session alive.

        Raises:
            RealtimeError: `unknown_session`.
        """
        self.get_session(session_id).touch()

    def close_session(self, session_id: str, reason: str = "closed", *, code: int = 1000) -> None:
        """End a session, also one that is still opening. Closing again changes nothing.

        Raises:
            RealtimeError: `unknown_session`.
        """
        admission = self._admitting.get(session_id)
        if admission is not None:
            admission.abandoned = True
        else:
            self.get_session(session_id).close(reason, code=code)

    def close_all_sessions(self, reason: str, *, code: int = 1000) -> None:
        """End every session that holds a slot."""
        for session_id in {*self._sessions, *self._admitting}:
            self.close_session(session_id, reason, code=code)

    def admit_nobody(self) -> None:
        """Refuse every further session."""
        self._draining = True

    async def drain(self, timeout_s: float, reason: str = "server_shutdown") -> None:
        """Admit nobody any more; after `timeout_s` close who is left, and wait until all are gone."""
        self.admit_nobody()
        with trio.move_on_after(timeout_s):
            await self._wait_empty()
        self.close_all_sessions(reason, code=1001)
        await self._wait_empty()

    @contextmanager
    def _admission(self) -> Iterator[_Admission]:
        """A slot for a session that opens, given back if it does not."""
        if self._nursery is None or self._draining:
            self._tally.session_refused()
            raise RealtimeError(
                "resource_exhausted", f"the server takes no new {self._noun}s", retryable=True
            )
        if self.count >= self._max_sessions:
            self._tally.session_refused()
            raise RealtimeError(
                "resource_exhausted", f"all {self._max_sessions} {self._noun}s are in use", retryable=True
            )
        admission = _Admission(new_id(self._id_prefix))
        self._admitting[admission.session_id] = admission
        try:
            yield admission
        finally:
            del self._admitting[admission.session_id]
            self._gone.unpark_all()

    async def _carry(
        self, runner: DuplexSessionRunner, *, task_status: trio.TaskStatus[DuplexSessionHandle]
    ) -> None:
        handle = runner.handle
        self._sessions[handle.session_id] = handle
        self._tally.session_opened()
        log.info(
            f"{self._noun}.opened",
            session_id=handle.session_id,
            dialect=handle.dialect,
            sessions=len(self._sessions),
            **handle.trace.log_fields,
        )
        try:
            await runner.run(task_status=task_status)
        finally:
            del self._sessions[handle.session_id]
            self._tally.session_ended(handle.counters)
            end = runner.core.end or CANCELLED
            counts = handle.counters.told()
            handle.trace.ended(SessionEnding(end.reason, end.code, trio.current_time(), counts))
            log.info(
                f"{self._noun}.closed",
                session_id=handle.session_id,
                reason=end.reason,
                sessions=len(self._sessions),
                **handle.trace.log_fields,
                **counts,
            )
            self._gone.unpark_all()

    async def _wait_empty(self) -> None:
        await trio.lowlevel.checkpoint()
        while self.count:
            await self._gone.park()

    def _running_nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise RealtimeError(
                "resource_exhausted", f"the server takes no new {self._noun}s", retryable=True
            )
        return self._nursery

    async def _new_state(
        self,
        session_id: str,
        dialect: DialectName,
        model: str | None,
        patch: Mapping[str, Any],
        sampling: Sampling | None,
    ) -> DuplexEngineSession:
        plugin, limits = self._plugin, self._limits
        capabilities = plugin.capabilities(self._max_sessions)
        defaults = SessionDefaults(
            model=model or self._model_name,
            voice=plugin.default_voice,
            instructions=self._instructions,
            silence_duration_ms=plugin.default_silence_duration_ms,
            owns_turns=capabilities.supports_model_native_turn_policy,
            private_extra_body_keys=plugin.private_runtime_config_keys,
        )
        config = apply_patch(default_config(defaults, dialect), patch, dialect=dialect)
        if not capabilities.supports_playback_ack:
            config = attrs.evolve(config, playback_commit_policy="commit_all_on_done")
        try:
            with trio.fail_after(limits.unit_timeout_s):
                runtime_config = await opened_runtime_config(plugin, config, self._model_name)
        except trio.TooSlowError:
            raise RealtimeError(
                "timeout", "the model took too long to prepare for the session", retryable=True
            ) from None
        return DuplexEngineSession(
            session_id=session_id,
            dialect=dialect,
            config=config,
            capabilities=capabilities,
            lease=DuplexLeaseState(limits.idle_ttl_s, limits.disconnect_grace_s, trio.current_time()),
            timeline=InputTimeline(plugin.input_sample_rate_hz, limits.pending_input_bytes_max),
            output_sample_rate_hz=plugin.output_sample_rate_hz,
            stretches_speech=not plugin.speaks_at_speed and not isinstance(plugin, ResumableModelPlugin),
            limits=limits,
            new_id=new_id,
            conversation_id=new_id("conv_"),
            model_name=self._model_name,
            default_voice=plugin.default_voice,
            runtime_config=runtime_config,
            model_state=new_model_state(plugin),
            sampling=sampling or Sampling(),
        )


@contextmanager
def _ended_if_it_fails(trace: SessionTrace) -> Iterator[None]:
    """A session that does not get as far as to end by itself has been traced all the same."""
    try:
        yield
    except BaseException:
        trace.ended(SessionEnding(OPEN_ABANDONED, CANCELLED.code, trio.current_time()))
        raise
