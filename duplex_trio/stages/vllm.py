"""The language-model stage: many requests batched in one in-process vLLM engine.

A request takes one `ChatPrompt` and answers with `TextDelta`s. All requests advance together: one `step` is one
step of the engine, and afterwards each request whose window is open gets what it has. A request whose window is
closed is not started; if it runs already, its text gathers here (at most one answer) and goes out as one delta
when the window opens.

Everything is keyed by the request's own id. vLLM makes an internal id of its own for each request, which is
never used here.

Not here: how the engine is built (`vllm_engine`), prompts (`vllm_chat`), parameters (`vllm_params`), and
trimming a history that does not fit, which is the plugin's business.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from attrs import define, field

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.units import ChatMessage, ChatPrompt, GenerationParams, TextDelta
from duplex_trio.stages.vllm_chat import ChatTokenizer
from duplex_trio.stages.vllm_engine import VllmConfig, adopt_thread, build_engine, shut_down
from duplex_trio.stages.vllm_params import sampling_params
from duplex_trio.stages.worker import StageWorker, UnitRefused, WorkerContext

__all__ = ["ChatTokenizer", "VllmConfig", "VllmWorker"]

log = structlog.get_logger("duplex_trio.stages")

IDLE_STEP_S = 0.001
"""A step that is shorter than this and yields nothing did no work: the engine waits for a grammar to be compiled in
another thread. So does this one then."""

FINISH_REASONS: Mapping[str, str] = {"repetition": "stop"}
"""Reasons of vLLM that have another name here. `error` fails the request."""


@define(eq=False)
class _Generation:
    """One request: the prompt until the engine has it, then what the engine made and has not been emitted."""

    request: StageRequest
    prompt: ChatPrompt | None = None
    running: bool = False
    submitted_s: float = 0.0
    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    metrics: dict[str, float] = field(factory=dict)

    @property
    def something_to_emit(self) -> bool:
        return bool(self.text) or self.finish_reason is not None


class VllmWorker(StageWorker):
    """A language model in vLLM; see the file.

    Failures of one request: `context_length_exceeded`, `invalid_value` (parameters, messages, units),
    `unsupported` (resumable requests, a second prompt), `engine_error`. Metrics of an output: `step_ms`, the
    engine step that made it; on the first `ttft_ms`, from the arrival of the prompt to the first token; on
    the last `stage_gen_time_ms`, from the arrival of the prompt.

    Args:
        config: the model and how it is loaded.
    """

    def __init__(self, config: VllmConfig) -> None:
        self.name = config.name
        self._config = config
        self._engine: Any = None
        self._chat: ChatTokenizer | None = None
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
            self._warm_up()
        except BaseException:
            self.close()
            raise
        seconds = round(time.perf_counter() - started_s, 1)
        log.info("stage.loaded", stage=self.name, model=self._config.model, seconds=seconds)

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Note a request; resumable ones are refused."""
        if request.resumable:
            message = "this stage takes one prompt a request; resumable requests are not supported"
            context.emit(StageFailed(request_id=request.request_id, code="unsupported", message=message))
            return
        self._generations[request.request_id] = _Generation(request)

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        """Note the prompt of a request."""
        generation = self._generations.get(request_id)
        if generation is None:
            return
        if unit is None and final:
            if not generation.running and generation.prompt is None:
                generation.finish_reason = "stop"
        elif not isinstance(unit, ChatPrompt):
            self._fail(
                request_id, "invalid_value", f"expected a ChatPrompt, got {type(unit).__name__}", context
            )
        elif generation.running or generation.prompt is not None:
            self._fail(request_id, "unsupported", "this stage takes one prompt a request", context)
        else:
            generation.prompt = unit
            generation.submitted_s = time.perf_counter()

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests and take them out of the batch."""
        known = [request_id for request_id in request_ids if self._generations.pop(request_id, None)]
        if known:
            self._engine.abort_request(known)

    def step(self, context: WorkerContext) -> bool:
        """Start what arrived, advance the whole batch by one step and emit what it made."""
        for generation in list(self._generations.values()):
            if generation.prompt is not None and context.window_open(generation.request.request_id):
                self._start(generation, generation.prompt, context)
        if self._engine.has_unfinished_requests():
            self._advance(context)
        for generation in list(self._generations.values()):
            if generation.something_to_emit and context.window_open(generation.request.request_id):
                self._emit(generation, context)
        return bool(self._engine.has_unfinished_requests())

    def close(self) -> None:
        """Shut the engine down."""
        engine, self._engine, self._chat = self._engine, None, None
        self._generations.clear()
        if engine is not None:
            shut_down(engine)

    def statistics(self) -> Mapping[str, float]:
        """Totals since loading, and how many requests the engine holds."""
        running = sum(generation.running for generation in self._generations.values())
        return {**self._totals, "running_requests": running}

    def _start(self, generation: _Generation, prompt: ChatPrompt, context: WorkerContext) -> None:
        request = generation.request
        generation.prompt = None
        try:
            self._add(request.request_id, request.params, prompt)
        except UnitRefused as refusal:
            self._fail(request.request_id, refusal.code, str(refusal), context)
        else:
            generation.running = True

    def _add(self, request_id: str, params: Any, prompt: ChatPrompt) -> None:
        """Give a request to the engine, or raise `UnitRefused`."""
        assert self._chat is not None
        try:
            tokens = self._chat.encode(prompt.messages, prompt.tools)
        except Exception as error:  # a template is a program: it may raise anything
            raise UnitRefused("invalid_value", str(error)) from error
        room = self._context_tokens - len(tokens)
        if room < 1:
            raise UnitRefused(
                "context_length_exceeded",
                f"the prompt has {len(tokens)} tokens and an answer needs one; the model's context has "
                f"{self._context_tokens}",
            )
        sampling = sampling_params(params, self._defaults, room)
        try:
            self._engine.add_request(request_id, {"type": "token", "prompt_token_ids": tokens}, sampling)
        except (
            Exception
        ) as error:  # vLLM checks what only it can; its part of the request must not stay behind
            self._engine.abort_request([request_id])
            raise UnitRefused("invalid_value", f"the engine refuses the request: {error}") from error

    def _advance(self, context: WorkerContext) -> None:
        started_s = time.perf_counter()
        outputs = self._engine.step()
        now_s = time.perf_counter()
        self._totals["engine_steps"] += 1
        if not outputs and now_s - started_s < IDLE_STEP_S:
            time.sleep(IDLE_STEP_S)
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
            generation.cached_tokens = output.num_cached_tokens or 0
            generation.metrics["ttft_ms"] = (now_s - generation.submitted_s) * 1000
            self._totals["prompt_tokens"] += generation.prompt_tokens
            self._totals["cached_tokens"] += generation.cached_tokens
        generation.completion_tokens += len(answer.token_ids)
        self._totals["completion_tokens"] += len(answer.token_ids)
        generation.text += answer.text
        if output.finished:
            generation.running = False
            generation.finish_reason = FINISH_REASONS.get(answer.finish_reason, answer.finish_reason)
            generation.metrics["stage_gen_time_ms"] = (now_s - generation.submitted_s) * 1000

    def _emit(self, generation: _Generation, context: WorkerContext) -> None:
        finished = generation.finish_reason is not None
        delta = TextDelta(
            text=generation.text,
            finish_reason=generation.finish_reason,
            prompt_tokens=generation.prompt_tokens,
            cached_tokens=generation.cached_tokens,
            completion_tokens=generation.completion_tokens,
        )
        request_id = generation.request.request_id
        metrics, generation.metrics, generation.text = generation.metrics, {}, ""
        if finished:
            del self._generations[request_id]
        context.emit(StageOutput(request_id=request_id, data=delta, finished=finished, metrics=metrics))

    def _fail(self, request_id: str, code: str, message: str, context: WorkerContext) -> None:
        self.abort([request_id])
        context.emit(StageFailed(request_id=request_id, code=code, message=message))

    def _warm_up(self) -> None:
        """Generate a few tokens, so that what runs only once (kernels, templates, pools) has run."""
        hello = ChatPrompt(messages=[ChatMessage(role="user", content="Hello! How are you today?")])
        self._add("warm-up", GenerationParams(max_tokens=4, temperature=0.0, ignore_eos=True), hello)
        while self._engine.has_unfinished_requests():
            self._engine.step()
