"""The scripted model with runtimes that can be told to flood a session or to get stuck.

What a user writes decides: `TALK` is answered at length, `BURST` by many pieces of sound at once, and `STICK`
holds the language model's thread.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

import numpy as np
import trio

from duplex_trio.models.cascade.plugin import LLM, TTS
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script, echo
from duplex_trio.models.scripted.workers import TTS_RATE_HZ, ScriptedLlm, ScriptedTts
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import ChatPrompt, Clause, SpeechChunk
from duplex_trio.stages.worker import StageWorker, WorkerContext

TALK, BURST, STICK = "talk", "burst", "stick"
_BURST_ANSWER = "Burst."
_BURST_CHUNK_MS = 20
_RING_MAX_S = 30.0
_TALK_ANSWER = " ".join("So it went on and on and on and on." for _ in range(5))


def answer(text: str) -> str:
    """The model's answer: 45 words (13.5 s) to `TALK`, else a few."""
    return {TALK: _TALK_ANSWER, BURST: _BURST_ANSWER}.get(_last_word(text)) or echo(text)


def _last_word(text: str) -> str:
    """What was said last: words to which no answer was heard stand before it in the same message."""
    return text.rpartition("\n")[2].rpartition(" ")[2]


class Doorbell:
    """A bell that a thread rings and a task waits for, through a pipe, as a message on a socket comes."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)

    def ring(self) -> None:
        """Ring from any thread."""
        os.write(self._write, struct.pack("q", perf_counter_ns()))

    async def wait(self) -> int:
        """Wait until it rings; when it did, in nanoseconds of the performance counter.

        Raises:
            trio.TooSlowError: it does not ring.
        """
        with trio.fail_after(_RING_MAX_S):
            await trio.lowlevel.wait_readable(self._read)
        (rung_ns,) = struct.unpack("q", os.read(self._read, 8))
        return int(rung_ns)

    def close(self) -> None:
        """Give the pipe back; nobody may ring any more."""
        os.close(self._read)
        os.close(self._write)


class BurstTts(ScriptedTts):
    """Speaks as the script says, except that the answer to `BURST` comes in many outputs of 20 ms at once.

    Args:
        script: what is said.
        outputs: how many.
        flooded: rung when all of them were put out.
    """

    def __init__(self, script: Script, outputs: int, flooded: Doorbell) -> None:
        super().__init__(script)
        self._outputs = outputs
        self._flooded = flooded

    def process(self, request: StageRequest, state: Any, unit: Clause) -> Iterable[SpeechChunk]:
        """Speak one clause."""
        if unit.text != _BURST_ANSWER:
            yield from super().process(request, state, unit)
            return
        pcm = np.zeros(_BURST_CHUNK_MS * TTS_RATE_HZ // 1000, np.float32)
        for _ in range(self._outputs):
            yield SpeechChunk(pcm=pcm, sample_rate_hz=TTS_RATE_HZ, text="")
        self._flooded.ring()


class StickyLlm(ScriptedLlm):
    """Writes as the script says, but at `STICK` takes nothing more until it is let go.

    Args:
        script: what is said.
        stuck_s: how long at most.
        stuck: rung when it takes nothing more.
        let_go: set to let it go on.
    """

    def __init__(self, script: Script, stuck_s: float, stuck: Doorbell, let_go: threading.Event) -> None:
        super().__init__(script)
        self._let_go = let_go
        self._stuck_s = stuck_s
        self._stuck = stuck

    def submit(self, request_id: str, unit: ChatPrompt, final: bool, context: WorkerContext) -> None:
        """Note the prompt, and get stuck if that is what it says."""
        super().submit(request_id, unit, final, context)
        if _last_word(unit.messages[-1].content) == STICK:
            self._let_go.clear()
            self._stuck.ring()
            self._let_go.wait(self._stuck_s)


class BenchPipeline(ScriptedPipeline):
    """The scripted model for benchmarks.

    Args:
        outputs: stage outputs of the answer to `BURST`.
        stuck_s: how long `STICK` holds the language model at most.
    """

    def __init__(self, *, outputs: int, stuck_s: float) -> None:
        super().__init__(script=Script(otherwise=answer))
        self.flooded, self.stuck = Doorbell(), Doorbell()
        self._outputs = outputs
        self._stuck_s = stuck_s
        self._let_go = threading.Event()

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make one stage."""
        if stage_id == LLM:
            return StickyLlm(self.script, self._stuck_s, self.stuck, self._let_go)
        if stage_id == TTS:
            return BurstTts(self.script, self._outputs, self.flooded)
        return super().build_worker(stage_id)

    def let_go(self) -> None:
        """Let a stuck language model go on."""
        self._let_go.set()

    def close(self) -> None:
        """Give back what the stages signal with, once they have ended."""
        self.flooded.close()
        self.stuck.close()
