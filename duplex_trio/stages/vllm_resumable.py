"""Requests of one in-process vLLM engine that stay in it between their segments.

Theory of operation. vLLM's scheduler keeps a request that was added as resumable when it stops: its keys and values
stay in memory, and another request with the same id is the update that it goes on with. vLLM's output processor has a
counterpart, which is not used here: it decodes all segments as one text (so that a character which one segment cuts
spoils the next), does not act on stop strings, and counts a waiting request as unfinished, so that the engine would be
stepped for nothing. Instead each segment is a whole request to the output processor, and an update of a session to the
scheduler. `LLMEngine.add_request` draws a new id at each call, hence both are called directly.

A request that waits for its next unit is *paused*: it occupies memory and one of the engine's `max_num_seqs` places.
When others need these, the request that has been paused longest is *parked*: the engine forgets it, and its next
segment begins with the whole context, most of which the prefix cache still has. Nobody sees a difference but in the
counts, with one exception: a random answer with a seed starts the seed's row of dice anew. Requests whose parameters
the scheduler cannot carry over (structured outputs, logprobs of the prompt), and those that a stop string ended, are
always parked.

Not here: what a request's context is (`vllm_segments`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any


class ResumableRequests:
    """The requests of one engine that have more than one segment. Used in the engine's thread.

    Args:
        engine: a `vllm.v1.engine.llm_engine.LLMEngine` in this process.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._scheduler = engine.engine_core.engine_core.scheduler
        self._places = engine.vllm_config.scheduler_config.max_num_seqs
        self._engine_ids: dict[str, str] = {}
        self._paused: dict[str, int] = {}  # number of tokens that are held, longest paused first

    def generate(self, request_id: str, context: Sequence[int], sampling: Any) -> int:
        """Begin a segment.

        Args:
            request_id: the caller's; the outputs of the engine carry it.
            context: all tokens that the segment is generated from. After a pause it begins with that context.
            sampling: a `vllm.SamplingParams`.

        Returns:
            How many tokens of the context the engine holds for the request. 0 for one that is new to the engine: then
            the engine's output tells what the prefix cache had.

        Raises:
            Exception: whatever vLLM raises for what it refuses; `forget` the request then.
        """
        inputs = self._engine.input_processor
        held = self._paused.pop(request_id, 0)
        if not held:
            self.make_room(1)
        prompt = {"type": "token", "prompt_token_ids": list(context)}
        whole = inputs.process_inputs(
            self._engine_ids.get(request_id, request_id), prompt, sampling, self._engine.get_supported_tasks()
        )
        if held:
            whole.external_req_id = request_id
        else:
            inputs.assign_request_id(whole)
        self._engine_ids[request_id] = whole.request_id
        part = copy.copy(whole)
        # A list of its own: the scheduler extends the one that it was given.
        part.prompt_token_ids = list(context[held:])
        part.resumable = held > 0 or _can_be_held(sampling)
        self._engine.output_processor.add_request(whole, None)
        self._engine.engine_core.add_request(part)
        return held

    def pause(self, request_id: str, context_tokens: int) -> None:
        """The segment is complete and the request stays.

        Args:
            request_id: the request.
            context_tokens: how many tokens its next segment builds on, the update not counted.
        """
        session = self._scheduler.requests.get(self._engine_ids[request_id])
        # What the engine holds must be the context, token for token; where it is not, the context counts.
        if (
            session is not None
            and session.status.name == "WAITING_FOR_STREAMING_REQ"
            and session.num_computed_tokens == context_tokens
        ):
            self._paused[request_id] = context_tokens
        else:
            self.forget([request_id])
        self.make_room(0)

    def make_room(self, places: int) -> None:
        """Park paused requests until the engine has that many free places, or none is paused."""
        while self._paused and len(self._scheduler.requests) + places > self._places:
            self.park_one()

    def park_one(self) -> None:
        """Park the request that has been paused longest, if one is."""
        if self._paused:
            self.forget([next(iter(self._paused))])

    def forget(self, request_ids: Iterable[str]) -> None:
        """Take requests out of the engine, whatever they do; unknown ids are skipped."""
        for request_id in request_ids:
            self._paused.pop(request_id, None)
            engine_id = self._engine_ids.pop(request_id, None)
            if engine_id is not None:
                self._engine.output_processor.abort_requests([engine_id], internal=True)
                self._engine.engine_core.abort_requests([engine_id])


def _can_be_held(sampling: Any) -> bool:
    return sampling.structured_outputs is None and sampling.prompt_logprobs is None
