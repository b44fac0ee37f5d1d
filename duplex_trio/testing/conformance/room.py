"""Where conformance checks talk: an engine around the model under test, and a user who speaks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import numpy as np
import trio

from duplex_trio.engine import SessionLimits, StageFactory
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.checks import build_checked_plugin
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.protocol.duplex import AppendAudio, Commit, DuplexEvent
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import Pcm
from duplex_trio.testing.run import scripted_omni
from duplex_trio.testing.talker import CHUNK_MS, CLIENT_RATE_HZ, Talker, open_talker

E = TypeVar("E", bound=DuplexEvent)
PATIENCE_S = 60.0
TONE_S = 1.2
BY_HAND = {"turn_detection": None}
"""Turns end when the user says so, so that no check depends on a detector."""


class Room:
    """One model under test. The arguments are those of `conformance_checks`."""

    def __init__(
        self,
        pipeline_factory: Callable[[], Pipeline],
        *,
        speech: Pcm | None = None,
        threads: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.make_pipeline = pipeline_factory
        self.threads = threads
        self.patience_s = patience_s
        self.speech = _tone() if speech is None else speech

    def make_plugin(self) -> DuplexModelPlugin:
        """A new plugin of the model."""
        return build_checked_plugin(self.make_pipeline(), 1)

    @asynccontextmanager
    async def engine(
        self,
        pipeline: Pipeline | None = None,
        *,
        limits: SessionLimits | None = None,
        stage_factory: StageFactory | None = None,
    ) -> AsyncIterator[DuplexOmni]:
        """An engine with the model, or with a pipeline that wraps it.

        Args:
            pipeline: instead of a new one of the model.
            limits: limits of each session.
            stage_factory: what carries the runtimes, instead of what the room has.

        Raises:
            AssertionError: a runtime broke, although it is back.
        """
        factory = stage_factory or (ThreadStage if self.threads else None)
        async with scripted_omni(
            pipeline=pipeline or self.make_pipeline(), limits=limits, stage_factory=factory
        ) as omni:
            yield omni
            for stage in omni.duplex_engine.stage_statistics():
                for replica in stage.replicas:
                    assert replica.last_error is None, f"stage {replica.name} broke: {replica.last_error}"

    async def user(self, omni: DuplexOmni) -> Talker:
        """Open a session whose turns end by hand."""
        return await open_talker(omni, patch=BY_HAND)

    async def say(self, omni: DuplexOmni, talker: Talker) -> None:
        """Speak in real time and let the turn end: by a commit that asks for an answer, or by silence."""
        step = CLIENT_RATE_HZ * CHUNK_MS // 1000
        for begin in range(0, len(self.speech), step):
            talker.send(AppendAudio(audio=pcm16_bytes(self.speech[begin : begin + step])))
            await trio.sleep(CHUNK_MS / 1000)
        if owns_turns(omni):
            plugin = omni.duplex_engine.plugin
            assert isinstance(plugin, ResumableModelPlugin)
            await talker.pause(max(0.5, 2 * plugin.unit_samples / plugin.input_sample_rate_hz))
        else:
            talker.send(Commit(response_create=True))

    async def hear(self, omni: DuplexOmni, talker: Talker, cls: type[E], number: int = 1) -> E:
        """The `number`th event of a class; until it comes, the user of a model that owns its turns is silent.

        Raises:
            trio.TooSlowError: it did not come within `patience_s`.
        """
        deadline_s = trio.current_time() + self.patience_s
        while owns_turns(omni) and len(talker.heard.of(cls)) < number and talker.heard.closed is None:
            if trio.current_time() > deadline_s:
                break
            await talker.pause(CHUNK_MS / 1000)
        return await talker.heard.nth(cls, number, timeout_s=max(1.0, deadline_s - trio.current_time()))


def plugin_of(omni: DuplexOmni) -> DuplexModelPlugin:
    """The plugin of a running engine."""
    return omni.duplex_engine.plugin


def owns_turns(omni: DuplexOmni) -> bool:
    """Whether the model decides itself when to speak."""
    return isinstance(plugin_of(omni), ResumableModelPlugin)


def _tone() -> Pcm:
    time_s = np.arange(int(TONE_S * CLIENT_RATE_HZ), dtype=np.float32) / CLIENT_RATE_HZ
    pcm: Pcm = (0.3 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)
    return pcm
