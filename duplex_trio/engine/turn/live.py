"""The life of one request: sound is transcribed, the turn is planned, and what the stages make of it goes to who asked.

One task carries it. A reader that is slow stops the task at its channel, which closes the request's window in the
stages and so pauses it, and nobody else. However it ends, the stages have let go of it when its task is over.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable, Sequence

import attrs
import structlog
import trio

from duplex_trio.engine.orchestrator import Orchestrator
from duplex_trio.engine.pipeline_request import PipelineRequest
from duplex_trio.engine.turn.messages import Spoken, closing_sound, pieces_of
from duplex_trio.engine.turn.outputs import EndOutput, OmniOutput, TranscriptOutput
from duplex_trio.engine.turn.reader import ResultReader
from duplex_trio.engine.turn.request import OmniRequest
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.requests import TurnInput, TurnPlan
from duplex_trio.pipelines.results import ListenResult, ModelFailure, ModelResult, UserTranscript
from duplex_trio.protocol.refusal import RequestError, RequestFailed
from duplex_trio.protocol.sound import TimeStretcher, resample
from duplex_trio.stages.errors import StageDeadError
from duplex_trio.stages.units import ChatMessage, Pcm

log = structlog.get_logger("duplex_trio.engine")

OUTPUTS_MAX = 4
"""Outputs that wait for a slow reader before the model waits too."""
RESAMPLE_HERE_SAMPLES_MAX = 160_000
"""A longer sound, which takes more than a few ms, is resampled in a thread."""
BLANK_TURN = TurnInput(pcm=None, conversation=())
RELEASE_TIMEOUT_S = 10.0
"""How long the stages may take to let go of a request before that is logged, and tried again."""


class LiveRequest:
    """One request from its admission to its release.

    Args:
        request: what is asked; it has been checked.
        request_id: its id.
        orchestrator: runs it over the stages.
        blank: what its turns have in common.
        read_timeout_s: how long an output may wait to be read before the request is given up.

    Attributes:
        outputs: what comes of it; when it ends, `ending` says how.
        ending: the last output, or the error that it ended with; None while it goes on.
        released: set once nothing of it is left.
        first_output_s: when its first output came, in seconds of Trio's clock.
    """

    def __init__(
        self,
        request: OmniRequest,
        *,
        request_id: str,
        orchestrator: Orchestrator,
        blank: TurnInput = BLANK_TURN,
        read_timeout_s: float = math.inf,
    ) -> None:
        processor = orchestrator.processor
        self.request = request
        self.request_id = request_id
        self.ending: EndOutput | RequestError | None = None
        self.released = trio.Event()
        self.first_output_s: float | None = None
        self._orchestrator = orchestrator
        self._processor: TurnProcessor = processor
        self._blank = blank
        self._read_timeout_s = read_timeout_s
        self._closing = closing_sound(request, processor)
        self._send, self.outputs = trio.open_memory_channel[OmniOutput](OUTPUTS_MAX)
        self._unreleased: list[PipelineRequest] = []
        self._scope = trio.CancelScope()
        self._ending_asked: Callable[[], EndOutput | RequestError] | None = None
        self._reader = ResultReader(
            lambda: f"call_{secrets.token_hex(12)}",
            place=self._closing.place if self._closing is not None else (0, 0),
            stretch=None
            if request.speed == 1.0 or processor.speaks_at_speed
            else TimeStretcher(processor.output_sample_rate_hz, request.speed),
        )

    def abort(self) -> None:
        """End it now, as `abort`. Idempotent, never blocks."""
        self._stop(lambda: self._reader.end("abort"))

    def fail(self, error: RequestError) -> None:
        """End it now with an error. Idempotent, never blocks."""
        self._stop(lambda: error)

    def abort_unbegun(self) -> None:
        """End it as `abort` before anything of it has begun."""
        self.ending = self._reader.end("abort")
        self._send.close()
        self.released.set()

    async def run(self) -> None:
        """Carry the request; nothing of it is left afterwards, and no error of its own gets out."""
        try:
            with self._scope:
                await self._answer()
        except RequestError as error:
            self.ending = self.ending or error
        except Exception as error:
            # A fault of one request must not end the others.
            log.exception("request.failed", request_id=self.request_id)
            self.ending = self.ending or RequestFailed("internal_error", f"{type(error).__name__}: {error}")
        finally:
            if self.ending is None:
                cut = self._ending_asked or _stopped
                self.ending = cut()
            self._send.close()
            try:
                await self._release_rest()  # noqa: ASYNC102  shields each of its attempts
            finally:
                self.released.set()

    def _stop(self, ending: Callable[[], EndOutput | RequestError]) -> None:
        if self.ending is None and self._ending_asked is None:
            self._ending_asked = ending
            self._scope.cancel()

    async def _answer(self) -> None:
        conversation, pcm = await self._conversation()
        if await self._take_turn(self._turn(conversation, pcm)):
            return
        # There were no words in the sound, and what was written before it still waits for its answer.
        await self._take_turn(self._turn(conversation, None))

    async def _take_turn(self, turn: TurnInput) -> bool:
        """Let the model answer a turn; false if it heard nothing and there is something else to be answered."""
        waits = turn.pcm is not None and bool(turn.conversation) and turn.conversation[-1].role == "user"
        heard_nothing = False

        async def take(result: ModelResult) -> bool:
            nonlocal heard_nothing
            if waits and isinstance(result, ListenResult) and not self._reader.heard:
                heard_nothing = True
                return True
            for output in self._reader.read(result):
                await self._deliver(output)
            return self.ending is not None

        if not await self._carry(self.request_id, turn, take):
            raise RequestFailed("engine_error", "the model gave no end to its answer")
        return not heard_nothing

    async def _deliver(self, output: OmniOutput) -> None:
        if self.first_output_s is None:
            self.first_output_s = trio.current_time()
        if isinstance(output, EndOutput):
            self.ending = output
        else:
            try:
                with trio.fail_after(self._read_timeout_s):
                    await self._send.send(output)
            except trio.TooSlowError:
                raise RequestFailed("slow_reader", "the answer was given up because nobody read it") from None

    # ------------------------------------------------------------------ the turn

    async def _conversation(self) -> tuple[list[ChatMessage], Pcm | None]:
        """The messages as the model is told of them, and the sound of the turn itself."""
        conversation: list[ChatMessage] = []
        pcm: Pcm | None = None
        for index, message in enumerate(self.request.messages):
            for piece in pieces_of(index, message):
                if not isinstance(piece, Spoken):
                    conversation.append(piece)
                    continue
                sound = await self._at_model_rate(piece)
                if piece == self._closing:
                    pcm = sound
                elif words := await self._transcribed(piece, sound):
                    conversation.append(ChatMessage(role="user", content=words))
        return conversation, pcm

    async def _at_model_rate(self, spoken: Spoken) -> Pcm:
        sound, rate_hz = spoken.sound, self._processor.input_sample_rate_hz
        pcm = sound.pcm.astype("float32", copy=False).clip(-1.0, 1.0)
        if len(pcm) <= RESAMPLE_HERE_SAMPLES_MAX or sound.sample_rate_hz == rate_hz:
            return resample(pcm, sound.sample_rate_hz, rate_hz)
        return await trio.to_thread.run_sync(resample, pcm, sound.sample_rate_hz, rate_hz)

    async def _transcribed(self, spoken: Spoken, pcm: Pcm) -> str:
        turn = attrs.evolve(self._blank, pcm=pcm, language=self.request.language, respond=False)
        words: str | None = None
        message, part = spoken.place

        async def take(result: ModelResult) -> bool:
            nonlocal words
            if isinstance(result, UserTranscript):
                words = result.text
                duration_s = result.audio_duration_s
                heard = TranscriptOutput(text=words, duration_s=duration_s, message=message, part=part)
                await self._deliver(heard)
            return False

        # Nobody can have chosen the same id for a request of theirs.
        await self._carry(f"{self.request_id}-sound-{secrets.token_hex(8)}", turn, take)
        if words is None:
            raise RequestFailed(
                "runtime_data_plane_stream_failed",
                "the model gave no transcript of the sound",
                param=f"messages[{message}].content[{part}]",
            )
        return words

    def _turn(self, conversation: Sequence[ChatMessage], pcm: Pcm | None) -> TurnInput:
        request = self.request
        return attrs.evolve(
            self._blank,
            pcm=pcm,
            conversation=conversation,
            instructions=request.instructions,
            modalities=frozenset(request.modalities),
            voice=request.voice,
            speed=request.speed,
            temperature=request.temperature,
            max_output_tokens=request.max_output_tokens,
            sampling=request.sampling,
            language=request.language,
            tools=() if request.tool_choice == "none" else request.tools,
            tool_choice=request.tool_choice,
            parallel_tool_calls=request.parallel_tool_calls,
        )

    # ------------------------------------------------------------------ the stages

    async def _carry(
        self, request_id: str, turn: TurnInput, take: Callable[[ModelResult], Awaitable[bool]]
    ) -> bool:
        """Take a turn through the stages, until `take` says that nothing more is wanted; whether it did."""
        plan = await self._processor.prepare_turn(turn)
        request = self._orchestrator.open_turn(request_id, plan, owner=self.request_id)
        self._unreleased.append(request)
        try:
            enough = await self._pump(request, plan, take)
        finally:
            request.abort()
        await self._orchestrator.release(request)
        self._unreleased.remove(request)
        return enough

    async def _pump(
        self, request: PipelineRequest, plan: TurnPlan, take: Callable[[ModelResult], Awaitable[bool]]
    ) -> bool:
        try:
            await request.submit(plan.entry)
            async for delivered in request.outputs:
                self._reader.metrics.add(delivered.snapshots)
                for result in delivered.results:
                    if isinstance(result, ModelFailure):
                        raise RequestFailed(result.code, result.message)
                    if await take(result):
                        return True
                request.consumed(delivered)
        except trio.BrokenResourceError as error:
            raise _not_taken(error, request) from error
        else:
            return False

    async def _release_rest(self) -> None:
        """Wait until the stages have let go of what was cut off; the end of the engine alone ends the wait."""
        for request in self._unreleased:
            while True:
                with trio.move_on_after(RELEASE_TIMEOUT_S, shield=True):
                    await self._orchestrator.release(request)
                    break
                log.warning("request.release_slow", request_id=request.request_id)
                await trio.lowlevel.checkpoint_if_cancelled()


def _not_taken(error: trio.BrokenResourceError, request: PipelineRequest) -> RequestFailed:
    """A stage did not take the input: it is dead, or the request was over, because it had failed."""
    if request.failure is not None:
        return RequestFailed(request.failure.code, request.failure.message)
    code = "engine_dead" if isinstance(error, StageDeadError) else "engine_error"
    return RequestFailed(code, f"the model did not take the input: {error}")


def _stopped() -> RequestError:
    return RequestFailed("server_shutdown", "the engine was stopped before the answer came to its end")
