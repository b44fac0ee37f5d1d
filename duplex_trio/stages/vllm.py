"""The language-model stage: many requests batched in one in-process vLLM engine.

A request takes one `ChatPrompt` and answers with `TextDelta`s. A resumable one begins with a `ChatPrompt` or a
`PromptUpdate` and takes further `PromptUpdate`s, each of which makes the model generate one more segment on what it
has read and said; a segment's last delta is a `SegmentEnd`. The request ends with the segment of a unit that was
submitted as `final`, or when `None` is. Updates that arrive while a segment is generated wait, at most `UPDATES_MAX`;
the one too many fails the request, because a stage's thread takes every unit at once and cannot let its caller wait.

All requests advance together: one `step` is one step of the engine, and afterwards each request whose window is open
gets what it has. A segment is not started while its request's window is closed; if it runs already, its text gathers
here (at most one answer) and goes out as one delta when the window opens.

Everything is keyed by the request's own id. vLLM makes an internal id of its own for each request, which only
`vllm_resumable` uses.

Not here: how the engine is built (`vllm_engine`), prompts (`vllm_chat`), parameters (`vllm_params`), the course of a
request (`vllm_segments`), requests that stay in the engine (`vllm_resumable`), and trimming a history that does not
fit, which is the plugin's business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from attrs import define, field

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.units import (
    ChatMessage,
    ChatPrompt,
    GenerationParams,
    PromptUpdate,
    SegmentEnd,
    TextDelta,
)
from duplex_trio.stages.vllm_chat import ChatTokenizer
from duplex_trio.stages.vllm_engine import VllmConfig, adopt_thread, build_engine, shut_down
from duplex_trio.stages.vllm_params import plain, sampling_params
from duplex_trio.stages.vllm_resumable import ResumableRequests
from duplex_trio.stages.vllm_segments import UPDATES_MAX, Segments, update_tokens
from duplex_trio.stages.worker import StageWorker, UnitRefused, WorkerContext

__all__ = ["UPDATES_MAX", "ChatTokenizer", "VllmConfig", "VllmWorker"]

log = structlog.get_logger("duplex_trio.stages")

IDLE_STEP_S = 0.001
"""A step that is shorter than this and yields nothing did no work: the engine waits for a grammar to be compiled in
another thread. So does this one then."""

FINISH_REASONS: Mapping[str, str] = {"repetition": "stop"}
"""Reasons of vLLM that have another name here. `error` fails the request."""


@define(eq=False)
class _Generation:
    """One request: its course, and what the engine made in this segment and has not been emitted."""

    request: StageRequest
    segments: Segments
    submitted_s: float = 0.0
    text: str = ""
    finish_reason: str | None = None
    stopped_by_text: bool = False
    dropped_token_id: int | None = None
    prompt_tokens: int = 0
    held_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    token_s: float | None = None
    itls_ms: list[float] = field(factory=list)
    metrics: dict[str, Any] = field(factory=dict)

    @property
    def something_to_emit(self) -> bool:
        return bool(self.text) or self.finish_reason is not None or self.segments.over

    @property
    def ready(self) -> bool:
        return self.segments.ready and not self.something_to_emit


class VllmWorker(StageWorker):
    """A language model in vLLM; see the file.

    Failures of one request: `context_length_exceeded`, `invalid_value` (parameters, messages, units),
    `unsupported` (a second prompt), `input_backpressure` (too many updates wait), `engine_error`. Metrics of an
    output: `step_ms`, the engine step that made it; on the first of a segment `vllm_ttft_ms`, from the arrival of the
    unit to the first token; on others `vllm_itls_ms`, the times between its tokens and from the one before them, and
    `vllm_tpot_ms`, their mean.

    Args:
        config: the model and how it is loaded.
    """

    # Its groups of devices are globals of vLLM.
    once_per_process = True

    def __init__(self, config: VllmConfig) -> None:
        self.name = config.name
        self._config = config
        self._engine: Any = None
        self._chat: ChatTokenizer | None = None
        self._resumable: ResumableRequests | None = None
        self._context_tokens = config.max_model_len
        self._defaults: Mapping[str, Any] = {}
        self._generations: dict[str, _Generation] = {}
        self._totals = {"engine_steps": 0, "prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}

    def load(self) -> None:
        """Build the engine and generate once. When that is done already, only ready this thread to step it.

        Raises:
            EngineNotInstalledError: vLLM cannot be imported.
            ValueError: vLLM refuses the settings or the model, or there is no chat template.
            UnitRefused: the chat template refuses a plain greeting.
        """
        if self._engine is not None:
            adopt_thread()
            return
        started_s = time.perf_counter()
        engine = self._engine = build_engine(self._config)
        try:
            self._context_tokens = engine.model_config.max_model_len
            self._defaults = engine.model_config.get_diff_sampling_param()
            self._chat = ChatTokenizer(engine.get_tokenizer(), self._config.chat_template)
            self._resumable = ResumableRequests(engine)
            self._warm_up()
        except BaseException:
            self.close()
            raise
        seconds = round(time.perf_counter() - started_s, 1)
        log.info("stage.loaded", stage=self.name, model=self._config.model, seconds=seconds)

    def check_params(self, params: Any) -> None:
        """Make vLLM's parameters of them; see `StageWorker.check_params`."""
        sampling_params(params, self._defaults, self._context_tokens)

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Note a request."""
        segments = Segments(resumable=request.resumable)
        self._generations[request.request_id] = _Generation(request, segments)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Note a unit of a request."""
        generation = self._generations.get(request_id)
        if generation is None:
            return
        try:
            generation.segments.offer(unit, final, time.perf_counter())
        except UnitRefused as refusal:
            self._fail(request_id, refusal.code, str(refusal), context)

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests and take them out of the batch."""
        known = [request_id for request_id in request_ids if self._generations.pop(request_id, None)]
        if known:
            assert self._resumable is not None
            self._resumable.forget(known)
            self._engine.abort_request(known)

    def step(self, context: WorkerContext) -> bool:
        """Start what arrived, advance the whole batch by one step and emit what it made."""
        for generation in list(self._generations.values()):
            if generation.ready and context.window_open(generation.request.request_id):
                self._start(generation, context)
        if self._engine.has_unfinished_requests():
            self._advance(context)
        for generation in list(self._generations.values()):
            if generation.something_to_emit and context.window_open(generation.request.request_id):
                self._emit(generation, context)
        return self._engine.has_unfinished_requests() or any(
            generation.ready and context.window_open(generation.request.request_id)
            for generation in self._generations.values()
        )

    def close(self) -> None:
        """Shut the engine down."""
        engine, self._engine, self._chat, self._resumable = self._engine, None, None, None
        self._generations.clear()
        if engine is not None:
            shut_down(engine)

    def statistics(self) -> Mapping[str, float]:
        """Totals since loading, and how many requests generate."""
        running = sum(generation.segments.generating for generation in self._generations.values())
        return {**self._totals, "running_requests": running}

    def _start(self, generation: _Generation, context: WorkerContext) -> None:
        """Begin the segment of the unit that comes next."""
        waiting = generation.segments.take()
        generation.submitted_s = waiting.arrived_s
        request = generation.request
        try:
            tokens = generation.segments.begin(self._encode(waiting.unit))
            sampling = self._sampling(request.params, tokens)
            generation.held_tokens = self._add(request.request_id, request.resumable, tokens, sampling)
        except UnitRefused as refusal:
            self._fail(request.request_id, refusal.code, str(refusal), context)

    def _encode(self, unit: ChatPrompt | PromptUpdate) -> list[int]:
        """The tokens of a unit, or `UnitRefused`."""
        assert self._chat is not None
        try:
            if isinstance(unit, PromptUpdate):
                return update_tokens(unit, self._chat.encode_text, self._engine.model_config.get_vocab_size())
            return self._chat.encode(unit.messages, unit.tools)
        except UnitRefused:
            raise
        except Exception as error:  # a template is a program: it may raise anything
            raise UnitRefused("invalid_value", str(error)) from error

    def _sampling(self, params: Any, tokens: Sequence[int]) -> Any:
        """Parameters for vLLM whose answer fits behind the tokens, or `UnitRefused`."""
        room = self._context_tokens - len(tokens)
        if room < 1:
            raise UnitRefused(
                "context_length_exceeded",
                f"the prompt has {len(tokens)} tokens and an answer needs one; the model's context has "
                f"{self._context_tokens}",
            )
        return sampling_params(params, self._defaults, room)

    def _add(self, request_id: str, resumable: bool, tokens: list[int], sampling: Any) -> int:
        """Give a request or its next segment to the engine, or raise `UnitRefused`.

        Returns how many of the tokens the engine holds for this very request.
        """
        assert self._resumable is not None
        try:
            if resumable:
                return self._resumable.generate(request_id, tokens, sampling)
            self._resumable.make_room(1)
            self._engine.add_request(request_id, {"type": "token", "prompt_token_ids": tokens}, sampling)
        except (
            Exception
        ) as error:  # vLLM checks what only it can; its part of the request must not stay behind
            self._engine.abort_request([request_id])
            raise UnitRefused("invalid_value", f"the engine refuses the request: {plain(error)}") from error
        return 0

    def _advance(self, context: WorkerContext) -> None:
        started_s = time.perf_counter()
        outputs = self._engine.step()
        now_s = time.perf_counter()
        self._totals["engine_steps"] += 1
        if not outputs and now_s - started_s < IDLE_STEP_S:
            time.sleep(IDLE_STEP_S)
            # It may also be that those who wait for their users hold all the memory.
            assert self._resumable is not None
            self._resumable.park_one()
        for output in outputs:
            generation = self._generations.get(output.request_id)
            if generation is not None:
                self._gather(generation, output, now_s)
                generation.metrics["step_ms"] = (now_s - started_s) * 1000
                if generation.finish_reason == "error":
                    self._fail(output.request_id, "engine_error", "the engine gave the request up", context)

    def _gather(self, generation: _Generation, output: Any, now_s: float) -> None:
        """Add what the engine made in one step to what is to be emitted."""
        answer = output.outputs[0]
        if not generation.completion_tokens:
            generation.prompt_tokens = len(output.prompt_token_ids)
            generation.cached_tokens = generation.held_tokens or output.num_cached_tokens or 0
            generation.metrics["vllm_ttft_ms"] = (now_s - generation.submitted_s) * 1000
            self._totals["prompt_tokens"] += generation.prompt_tokens
            self._totals["cached_tokens"] += generation.cached_tokens
        elif answer.token_ids and generation.token_s is not None:
            generation.itls_ms.append((now_s - generation.token_s) * 1000)
        generation.token_s = now_s if answer.token_ids else generation.token_s
        generation.completion_tokens += len(answer.token_ids)
        self._totals["completion_tokens"] += len(answer.token_ids)
        generation.segments.made(answer.token_ids)
        generation.text += answer.text
        if output.finished:
            generation.finish_reason = FINISH_REASONS.get(answer.finish_reason, answer.finish_reason)
            generation.stopped_by_text = isinstance(answer.stop_reason, str)  # else a token's id, or nothing
            if generation.finish_reason != "error":
                self._end_segment(generation)

    def _end_segment(self, generation: _Generation) -> None:
        segments = generation.segments
        generation.dropped_token_id = segments.end()
        if segments.resumable and not segments.over:
            assert self._resumable is not None
            self._resumable.pause(generation.request.request_id, len(segments.context))

    def _emit(self, generation: _Generation, context: WorkerContext) -> None:
        request_id = generation.request.request_id
        delta = self._delta(generation)
        metrics, itls_ms = generation.metrics, tuple(generation.itls_ms)
        if itls_ms:
            metrics |= {"vllm_itls_ms": itls_ms, "vllm_tpot_ms": sum(itls_ms) / len(itls_ms)}
        generation.metrics, generation.itls_ms, generation.text = {}, [], ""
        finished = generation.segments.over
        if finished:
            self.abort([request_id])  # the engine may hold what is complete
        elif generation.finish_reason is not None:
            generation.finish_reason, generation.stopped_by_text = None, False
            generation.prompt_tokens = generation.cached_tokens = generation.completion_tokens = 0
        context.emit(StageOutput(request_id=request_id, data=delta, finished=finished, metrics=metrics))

    def _delta(self, generation: _Generation) -> TextDelta:
        over = generation.segments.over
        counts: dict[str, Any] = {
            "text": generation.text,
            "stopped_by_text": generation.stopped_by_text,
            "prompt_tokens": generation.prompt_tokens,
            "cached_tokens": generation.cached_tokens,
            "completion_tokens": generation.completion_tokens,
        }
        if generation.finish_reason is None or over:
            # Without a reason of the engine's it is the caller who says that the request is over.
            reason = generation.finish_reason or ("stop" if over else None)
            return TextDelta(finish_reason=reason, **counts)
        return SegmentEnd(
            finish_reason=generation.finish_reason,
            context_tokens=len(generation.segments.context),
            dropped_token_id=generation.dropped_token_id,
            **counts,
        )

    def _fail(self, request_id: str, code: str, message: str, context: WorkerContext) -> None:
        self.abort([request_id])
        context.emit(StageFailed(request_id=request_id, code=code, message=message))

    def _warm_up(self) -> None:
        """Generate a few tokens, so that what runs only once (kernels, templates, pools) has run."""
        tokens = self._encode(
            ChatPrompt(messages=[ChatMessage(role="user", content="Hello! How are you today?")])
        )
        params = GenerationParams(max_tokens=4, temperature=0.0, ignore_eos=True)
        self._add("warm-up", False, tokens, self._sampling(params, tokens))
        while self._engine.has_unfinished_requests():
            self._engine.step()
