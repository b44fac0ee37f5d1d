"""The Python entry to a model that is asked by requests, on a Trio loop of one's own.

    async with AsyncOmni.from_deploy("cascade_turn").running() as omni:
        async with omni.generate(OmniRequest("Tell me a story.", modalities=["text", "audio"])) as answer:
            async for output in answer:
                match output:
                    case SpeechOutput(pcm=pcm, sample_rate_hz=rate, text=text): ...
                    case EndOutput(finish_reason=reason): ...

Any number of tasks may ask at once. `max_requests` are answered at the same time; the others wait for their turn.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import trio

from duplex_trio.deploy import DeployConfig, SessionMode
from duplex_trio.engine.async_omni_engine import DEFAULT_MAX_REQUESTS, AsyncOmniEngine
from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.engine.stage_building import StageFactory
from duplex_trio.engine.turn.outputs import (
    CallOutput,
    EndOutput,
    OmniOutput,
    OmniResult,
    ResultBuilder,
    SpeechOutput,
    TextOutput,
    TranscriptOutput,
    Usage,
)
from duplex_trio.engine.turn.request import Message, OmniRequest, Part, Picture, Sound, Text, request_of
from duplex_trio.entrypoints.answer import OmniAnswer
from duplex_trio.entrypoints.omni_base import AsyncOmniBase, OmniStatistics, WarmUpError
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.protocol.refusal import RequestError, RequestFailed, RequestRefused
from duplex_trio.protocol.sampling import Sampling

__all__ = [
    "AsyncOmni",
    "CallOutput",
    "EndOutput",
    "Message",
    "OmniAnswer",
    "OmniOutput",
    "OmniRequest",
    "OmniResult",
    "OmniStatistics",
    "Picture",
    "RequestError",
    "RequestFailed",
    "RequestRefused",
    "Sampling",
    "Sound",
    "SpeechOutput",
    "Text",
    "TextOutput",
    "TranscriptOutput",
    "Usage",
    "WarmUpError",
]

RELEASE_WAIT_S = 5.0
"""How long who leaves an answer waits for the stages to let go of it; they do in any case."""
WARM_UP_TIMEOUT_S = 150.0
"""How long the first answer may take before it is given up."""
WARM_UP_TOKENS = 16
TONE_HZ, TONE_S = 220, 0.4


class AsyncOmni(AsyncOmniBase):
    """One model, asked by requests.

    Args:
        pipeline: the model.
        max_requests: requests at once; more wait for their turn.
        stage_commands_max: opened requests and units that may wait for one stage; two for each request by default.
        warm_up: let the model answer once before `run` reports that it is ready.
        stage_factory: what carries each runtime; a thread by default.

    Raises:
        ValueError: the pipeline is declared wrongly, or declares nothing that answers requests.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    session_mode: SessionMode = "turn"
    """How it is served."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        max_requests: int = DEFAULT_MAX_REQUESTS,
        stage_commands_max: int | None = None,
        warm_up: bool = True,
        stage_factory: StageFactory | None = None,
    ) -> None:
        self._max_requests = max_requests
        self._stage_commands_max = stage_commands_max
        self._stage_factory = stage_factory
        super().__init__(pipeline, warm_up=warm_up)

    def _create_engine(self) -> OmniEngineBase:
        self.turn_engine = AsyncOmniEngine(
            self.pipeline,
            max_requests=self._max_requests,
            stage_commands_max=self._stage_commands_max,
            stage_factory=self._stage_factory,
        )
        return self.turn_engine

    @property
    def processor(self) -> TurnProcessor:
        """What the model takes and gives."""
        return self.turn_engine.processor

    def statistics(self) -> OmniStatistics:
        """A look at the engine for health and metrics."""
        requests = self.turn_engine.requests
        return OmniStatistics(
            requests=requests.count,
            max_requests=requests.max_requests,
            live_requests=self.engine.live_requests,
            stages=tuple(self.stage_statistics()),
        )

    @asynccontextmanager
    async def generate(
        self, request: OmniRequest | str, *, wait: bool = True, read_timeout_s: float = math.inf
    ) -> AsyncIterator[OmniAnswer]:
        """Ask the model, for as long as the block goes on; leaving it ends all work on the answer.

        Args:
            request: what is asked; a text is a message of the user's.
            wait: whether to wait for a place while `max_requests` are being answered.
            read_timeout_s: how long an output may wait to be read before the answer is given up (`slow_reader`).

        Raises:
            RequestRefused: entering it, when the request is wrong (`invalid_value`, `unsupported`, ..., naming the
                field), or there is no place for it (`resource_exhausted`).
            TypeError: entering it, when it is neither a text nor an `OmniRequest`.
            RequestError: reading the answer, when it ends without having come to its end.
        """
        asked = request_of(request)
        live = await self.turn_engine.requests.open(asked, wait=wait, read_timeout_s=read_timeout_s)
        try:
            yield OmniAnswer(live)
        finally:
            live.abort()
            live.outputs.close()
            with trio.move_on_after(RELEASE_WAIT_S, shield=True):
                await live.released.wait()

    async def complete(self, request: OmniRequest | str, *, wait: bool = True) -> OmniResult:
        """Ask the model and wait for the whole answer.

        Raises:
            RequestError: as `generate`.
        """
        result = await self.attempt(request, wait=wait)
        if result.error is not None:
            raise result.error
        return result

    async def attempt(self, request: OmniRequest | str, *, wait: bool = True) -> OmniResult:
        """The same for who wants to see what had come of an answer that failed: its result has the `error`."""
        asked = request_of(request)
        builder = ResultBuilder(asked.request_id or "", last_message=len(asked.messages) - 1)
        try:
            async with self.generate(asked, wait=wait) as answer:
                builder.request_id = answer.request_id
                async for output in answer:
                    builder.take(output)
        except RequestError as error:
            return builder.result(error)
        return builder.result()

    def abort(self, request_id: str) -> bool:
        """End a request now; its answer ends with `abort`. False if none of that id is live. Never blocks."""
        return self.turn_engine.requests.abort(request_id)

    async def warm_up(self) -> None:
        """Ask the model one thing, so that the first who asks finds everything warm.

        Raises:
            WarmUpError: the model refused it, failed, or gave no sign of life.
        """
        gives = {spec.final_output for spec in self.pipeline.stages}
        said: Part = Text("Hello!") if self.processor.supports_text_input else Sound(_tone(), 16_000)
        request = OmniRequest(
            said,
            modalities=("text", "audio") if "audio" in gives else ("text",),
            max_output_tokens=WARM_UP_TOKENS,
        )
        try:
            with trio.fail_after(WARM_UP_TIMEOUT_S):
                await self.complete(request)
        except trio.TooSlowError as error:
            raise WarmUpError("the model did not answer the warm-up turn") from error
        except RequestError as error:
            raise WarmUpError(f"the warm-up turn failed: {error.message}") from error

    @classmethod
    def _options_of(cls, deploy: DeployConfig) -> dict[str, Any]:
        requests = {} if deploy.max_requests is None else {"max_requests": deploy.max_requests}
        return {**requests, "stage_commands_max": deploy.stage_commands_max}


def _tone() -> np.ndarray[Any, np.dtype[np.float32]]:
    time_s = np.arange(int(TONE_S * 16_000), dtype=np.float32) / 16_000
    return (0.3 * np.sin(2 * np.pi * TONE_HZ * time_s)).astype(np.float32)
