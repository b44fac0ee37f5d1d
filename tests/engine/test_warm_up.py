"""Before the first client comes a model has answered, whatever it takes; one that cannot keeps the server
from starting, at once and with the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni, WarmUpError
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import TurnInput, TurnPlan
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.stages.inline import InlineStage

SEES = frozenset({"video"})


class Particular(TurnsPipeline):
    """The scripted model with other abilities and attributes; keeps the turns that it is told of."""

    class _Plugin(TurnsPlugin):
        def __init__(self, abilities: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
            self._abilities = abilities
            self.turns: list[TurnInput] = []
            for name, value in attributes.items():
                setattr(self, name, value)

        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(super().capabilities(max_sessions), **self._abilities)

        def plan_turn(self, turn: TurnInput) -> TurnPlan:
            self.turns.append(turn)
            return super().plan_turn(turn)

    def __init__(self, script: Script | None = None, *, attributes: Any = None, **abilities: Any) -> None:
        super().__init__(script=script)
        self.plugin = self._Plugin(abilities, attributes or {})

    def build_plugin(self) -> TurnsPlugin:
        return self.plugin


async def warm(pipeline: Pipeline, limits: SessionLimits | None = None) -> None:
    factory = partial(InlineStage, step_s=0.02)
    omni = DuplexOmni(pipeline, max_sessions=1, limits=limits, stage_factory=factory)
    async with trio.open_nursery() as nursery:
        await nursery.start(omni.run)
        statistics = omni.statistics()
        assert (statistics.sessions, statistics.live_requests) == (0, 0)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("make", [ScriptedPipeline, TurnsPipeline, NativePipeline, LockstepPipeline])
async def test_the_models_of_the_package(autojump_clock: MockClock, make: type[Pipeline]) -> None:
    """Each is warm within a second of its stages' time, and nothing is left."""
    with trio.fail_after(5.0):
        await warm(make())


async def test_a_model_that_answers_speech_only(autojump_clock: MockClock) -> None:
    """It hears a tone; that there are no words in it is a sign of life too."""
    for words in ("words", ""):
        pipeline = Particular(
            Script(heard=[words]), supports_text_only_turn=False, supports_chat_completions=False
        )
        await warm(pipeline)
        (turn,) = pipeline.plugin.turns
        assert turn.pcm is not None
        assert len(turn.pcm) == pytest.approx(0.4 * 16_000, rel=0.01)


@pytest.mark.parametrize("optional", [frozenset({"audio"}), frozenset[str]()])
async def test_a_model_that_must_see(autojump_clock: MockClock, optional: frozenset[str]) -> None:
    """It is shown a picture, a whole PNG file."""
    pipeline = Particular(
        supports_text_only_turn=False,
        supports_chat_completions=False,
        required_input_modalities=SEES,
        optional_input_modalities=optional,
    )
    await warm(pipeline)
    (frame,) = pipeline.plugin.turns[0].frames
    assert frame.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", frame[16:24]) == (640, 480)
    assert frame.endswith(b"IEND\xae\x42\x60\x82")


async def test_a_model_that_needs_a_recording(autojump_clock: MockClock) -> None:
    """There is none yet, so it writes."""
    pipeline = Particular(attributes={"requires_ref_audio": True})
    await warm(pipeline)
    assert pipeline.plugin.turns[0].modalities == {"text"}


async def test_a_model_that_only_a_detector_can_ask(autojump_clock: MockClock) -> None:
    """It is not asked, and the server starts."""
    pipeline = Particular(
        supports_text_only_turn=False, supports_chat_completions=False, supports_client_commit=False
    )
    await warm(pipeline)
    assert not pipeline.plugin.turns


class Closed(TurnsPipeline):
    """Takes no session."""

    class _Plugin(TurnsPlugin):
        def check_session(self, config: DuplexSessionConfig, runtime_config: Mapping[str, Any]) -> None:
            raise ValueError("no licence")

    def build_plugin(self) -> TurnsPlugin:
        return self._Plugin()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Closed, "the warm-up session was refused: no licence"),
        (
            lambda: Particular(
                supports_text_only_turn=False, supports_chat_completions=False, supports_input_append=False
            ),
            "the warm-up turn failed: the model takes no input_audio_buffer.append",
        ),
        (
            lambda: TurnsPipeline(script=Script(fail_on=frozenset({"Hello!"}))),
            "the warm-up turn failed: scripted failure at 'Hello!'",
        ),
    ],
)
async def test_a_model_that_does_not_work(autojump_clock: MockClock, make: Any, message: str) -> None:
    """Whoever starts it is told at once."""
    with (
        trio.fail_after(5.0),
        pytest.RaisesGroup(pytest.RaisesExc(WarmUpError, match=message), flatten_subgroups=True),
    ):
        await warm(make())


async def test_a_limit_that_is_too_small(autojump_clock: MockClock) -> None:
    """It is named, with where limits are told of."""
    limits = SessionLimits(conversation_chars_max=3)
    message = "characters.*a limit of the deployment is too small"
    with pytest.RaisesGroup(pytest.RaisesExc(WarmUpError, match=message), flatten_subgroups=True):
        await warm(TurnsPipeline(), limits)
