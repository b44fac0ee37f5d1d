"""Voice activity for all sessions: what waits in any of them is scored together.

One request on the voice-activity stage carries every session, with one job in flight. A session that says it
is `ready` while nothing is being scored is scored at once; everybody who becomes ready meanwhile goes into
the next job. One job is one command to the stage's thread and one output back, however many sessions it
holds, and the scores are handed to the sessions right where they arrive, without waking a task.

Two jobs begin at least `JOB_SPACING_S` apart. A session by itself never notices, for its frames are further
apart than that. With many sessions a frame waits at most so long, and both the crossing between the threads
and the network, which scores 32 sessions for the price of ten, are paid once for all that came in between.

Each session gives at most `FRAMES_PER_JOB_MAX` frames to a job, and fewer when many wait, so one that is far
behind delays the others by no more than anybody else does.

A stage that dies is made anew by whoever carries it. Until then the sessions wait: what was being scored they
give back, and hand out again. Those that have waited for `job_timeout_s` are told that they are on their own for now,
and told again when it is back. A stage that fails at a job, or keeps it longer than that, loses every session that is
there; sessions that come later try anew.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio

from duplex_trio.session.port import VoiceLine, VoiceListener
from duplex_trio.stages.errors import StageDeadError
from duplex_trio.stages.port import OutputSink, Stage, StageFailed, StageOutput, StageRequest, StageStream
from duplex_trio.stages.units import VAD_FRAME_SAMPLES, Pcm, VadBatch, VadScores

log = structlog.get_logger("duplex_trio.engine")

FRAMES_PER_JOB_MAX = 32
"""Of one session: about one second of sound, which is 5 ms of work."""
FRAMES_PER_TICK_MAX = 512
"""Of all sessions together: some 25 ms of work."""
JOB_SPACING_S = 0.004
"""An eighth of a frame: at 100 sessions a dozen frames in a job instead of one or two."""

RETRY_S = 0.1
"""How often it is looked whether a stage that died is back: three frames."""


class _Line(VoiceLine):
    def __init__(self, hub: VoiceActivity, number: int, listener: VoiceListener) -> None:
        self.number = number
        self.listener = listener
        self.open = True
        self._hub = hub

    def ready(self) -> None:
        self._hub.ready(self)

    def close(self) -> None:
        self._hub.leave(self)


class VoiceActivity(OutputSink):
    """The sessions of one engine at its voice-activity stage.

    Args:
        stage: the stage; None if the deployment has none.
        job_timeout_s: how long the stage may take for one job, or be away before the sessions are told.
    """

    def __init__(self, stage: Stage | None, *, job_timeout_s: float) -> None:
        self._stage = stage
        self._job_timeout_s = job_timeout_s
        self._stream: StageStream | None = None
        self._lines: dict[int, _Line] = {}
        self._ready: dict[_Line, None] = {}
        self._job: list[_Line] | None = None
        self._job_began_s = float("-inf")
        self._gone: list[int] = []
        self._serial = self._requests = 0
        self._away_since_s: float | None = None
        self._suspended = False
        self._waits = False
        self._early = trio.Event()
        self._busy = trio.Event()
        self._away = trio.Event()

    # ------------------------------------------------------------------ sessions

    def open(self, listener: VoiceListener) -> VoiceLine | None:
        """Let a session in, also while the stage is away; None if the deployment has none."""
        if self._stage is None:
            return None
        self._serial += 1
        line = self._lines[self._serial] = _Line(self, self._serial, listener)
        if self._suspended:
            self._tell(line, listener.suspended)
        elif self._stream is None and not self._open_request():
            self._note_away()
        return line

    def ready(self, line: _Line) -> None:
        """Whole frames of a session wait."""
        if line.open:
            self._ready[line] = None
            self._next_job()

    def leave(self, line: _Line) -> None:
        """A session has no more use for scores. The last one to leave takes the stage's request along."""
        if not line.open:
            return
        line.open = False
        del self._lines[line.number]
        self._ready.pop(line, None)
        self._gone.append(line.number)
        if not self._lines:
            self._end_request()

    # ------------------------------------------------------------------ jobs

    def _next_job(self) -> None:
        if self._job is not None or not self._ready or self._waits:
            return
        if self._stream is None and not self._open_request():
            self._note_away()
            return
        if trio.current_time() >= self._job_began_s + JOB_SPACING_S:
            self._begin_job()
        else:
            self._waits = True
            self._early.set()

    def _begin_job(self) -> None:
        lines: list[_Line] = []
        frames: dict[int, Pcm] = {}
        share = min(FRAMES_PER_JOB_MAX, max(1, FRAMES_PER_TICK_MAX // len(self._ready)))
        # Whoever finds no room stays in front of those who become ready later.
        for line in list(self._ready)[:FRAMES_PER_TICK_MAX]:
            del self._ready[line]
            pcm = self._frames_of(line, share)
            if pcm is not None:
                frames[line.number] = pcm
                lines.append(line)
        # One that crashed may have been the last, and the request has gone with it.
        if not lines or self._stream is None:
            return
        self._job = lines
        try:
            self._stream.submit_nowait(VadBatch(frames, self._gone))
        except StageDeadError as error:
            self._interrupt(str(error))
            return
        except trio.BrokenResourceError as error:
            self._lose(str(error))
            return
        self._gone = []
        self._job_began_s = trio.current_time()
        self._busy.set()

    def _frames_of(self, line: _Line, share: int) -> Pcm | None:
        try:
            pcm = line.listener.next_frames(share)
            if pcm.ndim != 1 or len(pcm) % VAD_FRAME_SAMPLES:
                raise ValueError(f"not whole frames of {VAD_FRAME_SAMPLES} samples: shape {pcm.shape}")
        except Exception as error:
            # Another session is the caller.
            self._crash(line, error)
            return None
        return pcm if len(pcm) else None

    def deliver(self, output: StageOutput | StageFailed) -> None:
        """Hand the scores of a job to its sessions, and begin the next one."""
        if isinstance(output, StageFailed):
            end = self._interrupt if output.code == "engine_dead" else self._lose
            end(output.message)
            return
        self._away_since_s = None
        lines, scores = self._job, output.data
        assert lines is not None
        assert isinstance(scores, VadScores)
        for line, probabilities in zip(lines, scores.probabilities, strict=True):
            if line.open:
                try:
                    line.listener.judge(probabilities.tolist())
                except Exception as error:
                    self._crash(line, error)
        self._job = None
        self._next_job()

    def _crash(self, line: _Line, error: Exception) -> None:
        self.leave(line)
        line.listener.crashed(error)

    def _tell(self, line: _Line, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            self._crash(line, error)

    def _lose(self, why: str) -> None:
        log.warning("voice_activity.lost", why=why, sessions=len(self._lines))
        lost = list(self._lines.values())
        for line in lost:
            line.open = False
        self._lines.clear()
        self._ready.clear()
        self._end_request()
        for line in lost:
            try:
                line.listener.unavailable()
            except Exception as error:
                line.listener.crashed(error)

    # ------------------------------------------------------------------ a stage that dies

    def _interrupt(self, why: str) -> None:
        """The stage has died: what was being scored is handed out again when it is back."""
        log.warning("voice_activity.interrupted", why=why, sessions=len(self._lines))
        job, self._job, self._stream, self._gone = self._job, None, None, []
        self._note_away()
        for line in job or ():
            if line.open:
                self._tell(line, line.listener.give_back)
            if line.open:
                self._ready[line] = None

    def _note_away(self) -> None:
        if self._away_since_s is None:
            self._away_since_s = trio.current_time()
        self._busy.set()
        self._away.set()

    def _look_for_stage(self) -> None:
        """Go on if the stage is back; if it stays away too long, say so."""
        assert self._away_since_s is not None
        if self._open_request():
            # Whether it stays is known with the first scores; until then it counts as away.
            if self._suspended:
                self._suspended, self._away_since_s = False, None
                log.info("voice_activity.back", sessions=len(self._lines))
                self._tell_all(lambda listener: listener.resumed)
            self._next_job()
        elif not self._suspended and trio.current_time() >= self._away_since_s + self._job_timeout_s:
            self._suspended = True
            log.warning("voice_activity.suspended", sessions=len(self._lines))
            self._tell_all(lambda listener: listener.suspended)

    def _tell_all(self, what: Callable[[VoiceListener], Callable[[], None]]) -> None:
        for line in list(self._lines.values()):
            if line.open:
                self._tell(line, what(line.listener))

    def _open_request(self) -> bool:
        assert self._stage is not None
        self._requests += 1
        request = StageRequest(request_id=f"voice-activity-{self._requests}")
        try:
            self._stream = self._stage.open(request, self)
        except trio.BrokenResourceError:
            return False
        return True

    def _end_request(self) -> None:
        if self._stream is not None:
            self._stream.abort()
        self._stream = self._job = self._away_since_s = None
        self._suspended = False
        self._gone = []

    # ------------------------------------------------------------------ tasks

    async def pace(self) -> None:
        """Begin the jobs that were wanted too early, until cancelled."""
        while True:
            await self._early.wait()
            self._early = trio.Event()
            await trio.sleep_until(self._job_began_s + JOB_SPACING_S)
            self._waits = False
            self._next_job()

    async def watch(self) -> None:
        """Lose the stage when it keeps a job, and look for it while it is away, until cancelled.

        Wakes once in a timeout, not for each job.
        """
        while True:
            if self._away_since_s is not None and self._stream is None:
                self._look_for_stage()
                await trio.sleep(RETRY_S)
                continue
            if self._job is None:
                self._busy = trio.Event()
                await self._busy.wait()
                continue
            due_s = self._job_began_s + self._job_timeout_s
            if trio.current_time() >= due_s:
                self._lose(f"a job took longer than {self._job_timeout_s:g} s")
            else:
                self._away = trio.Event()
                with trio.move_on_at(due_s):
                    await self._away.wait()
