"""A plugin that cannot work is refused before anything of it is started, and the message says why."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from duplex_trio.engine import DuplexOmniEngine
from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.scripted.lockstep import LockstepPlugin
from duplex_trio.models.scripted.native import NativePlugin
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.checks import PluginError, check_plugin, plugin_faults
from duplex_trio.plugin.pcm_buffer import FixedUnitBuffer, PcmAppendBuffer
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.protocol.sampling import KNOBS
from duplex_trio.stages.worker import StageWorker

PLUGINS = (lambda: ScriptedPipeline().build_plugin(), TurnsPlugin, NativePlugin, LockstepPlugin)


@pytest.mark.parametrize("make", PLUGINS)
@pytest.mark.parametrize("max_sessions", [1, 8])
def test_the_models_of_the_package_may_be_used(make: Any, max_sessions: int) -> None:
    """However many sessions there are."""
    assert plugin_faults(make(), max_sessions) == []


def turns(**abilities: Any) -> DuplexModelPlugin:
    class Changed(TurnsPlugin):
        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(super().capabilities(max_sessions), **abilities)

    return Changed()


def native(**abilities: Any) -> DuplexModelPlugin:
    class Changed(NativePlugin):
        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(super().capabilities(max_sessions), **abilities)

    return Changed()


def with_attributes(plugin: DuplexModelPlugin, **attributes: Any) -> DuplexModelPlugin:
    for name, value in attributes.items():
        setattr(plugin, name, value)
    return plugin


class OneBuffer(NativePlugin):
    """Gives every session the same buffer."""

    buffer = FixedUnitBuffer(16_000)

    def create_audio_buffer(self) -> PcmAppendBuffer:
        return self.buffer


class NoBuffer(NativePlugin):
    def create_audio_buffer(self) -> PcmAppendBuffer:
        return []  # type: ignore[return-value]


FAULTS: dict[str, tuple[object, str]] = {
    "another class": (object(), "object is no DuplexModelPlugin"),
    "no id": (with_attributes(TurnsPlugin(), plugin_id=""), "plugin_id is empty"),
    "no input rate": (
        with_attributes(TurnsPlugin(), input_sample_rate_hz=0),
        "input_sample_rate_hz is 0, not positive",
    ),
    "no output rate": (
        with_attributes(TurnsPlugin(), output_sample_rate_hz=-1),
        "output_sample_rate_hz is -1, not positive",
    ),
    "no silence": (
        with_attributes(TurnsPlugin(), default_silence_duration_ms=0),
        "default_silence_duration_ms is 0, not positive",
    ),
    "unknown voice": (
        with_attributes(TurnsPlugin(), default_voice="nobody"),
        "default_voice 'nobody' is none of the voices ['tone']",
    ),
    "a turn model that says it is resumable": (
        turns(supports_core_resumable_request=True),
        "supports_core_resumable_request is True, but the plugin is no ResumableModelPlugin",
    ),
    "a turn model that says it owns its turns": (
        turns(supports_model_native_turn_policy=True),
        "supports_model_native_turn_policy is True, but the plugin is no ResumableModelPlugin",
    ),
    "a resumable model that does not say so": (
        native(supports_core_resumable_request=False),
        "supports_core_resumable_request is False, but the plugin is a ResumableModelPlugin",
    ),
    "one request, and concurrent ones": (
        native(supports_concurrent_turn_requests=True),
        "a model with one request per epoch has no concurrent turn requests",
    ),
    "a smell": (
        turns(optional_input_modalities=frozenset({"smell"})),
        "input modalities are of ['audio', 'video'], not ['smell']",
    ),
    "required and optional": (
        turns(optional_input_modalities=frozenset({"audio"})),
        "['audio'] is both a required and an optional input modality",
    ),
    "appends of nothing": (
        turns(required_input_modalities=frozenset(), optional_input_modalities=frozenset()),
        "it takes appends of no modality",
    ),
    "chats that cannot write": (
        turns(supports_text_only_turn=False),
        "chat completions need answers to what was written: supports_text_only_turn",
    ),
    "a knob": (
        with_attributes(TurnsPlugin(), sampling_knobs=frozenset({"seed", "mood"})),
        f"sampling_knobs are of {sorted(KNOBS)}, not ['mood']",
    ),
    "one session": (
        turns(supports_multi_session=False),
        "it serves one session at a time, and the deployment admits 4",
    ),
    "no period": (turns(chunk_period_ms=0), "chunk_period_ms is 0, not positive"),
    "no unit": (with_attributes(NativePlugin(), unit_samples=0), "unit_samples is 0, not positive"),
    "another period": (
        native(chunk_period_ms=80),
        "a unit of 16000 samples is 1000 ms, chunk_period_ms 80",
    ),
    "another rate": (
        with_attributes(NativePlugin(), input_sample_rate_hz=8_000),
        "a unit of 16000 samples is 2000 ms, chunk_period_ms 1000",
    ),
    "one buffer": (OneBuffer(), "create_audio_buffer() gives all sessions the same buffer"),
    "no buffer": (NoBuffer(), "create_audio_buffer() makes a list, no PcmAppendBuffer"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named(fault: str) -> None:
    """Alone, for nothing else is wrong."""
    plugin, message = FAULTS[fault]
    assert plugin_faults(plugin, 4) == [message]


def test_all_faults_are_named_at_once() -> None:
    """With the plugin they are of."""
    plugin = with_attributes(turns(chunk_period_ms=0), default_voice="nobody")
    with pytest.raises(
        PluginError, match=r"'scripted_turns' cannot be used: default_voice .*; chunk_period_ms"
    ):
        check_plugin(plugin, 1)


def test_no_stage_is_built_for_a_plugin_that_cannot_be_used() -> None:
    """The engine looks at the plugin first."""

    class Broken(ScriptedPipeline):
        def build_plugin(self) -> CascadePlugin:
            plugin = super().build_plugin()
            plugin.plugin_id = ""
            return plugin

        def build_worker(self, stage_id: int) -> StageWorker:
            raise AssertionError("a stage was built")

        def build_vad_worker(self) -> StageWorker:
            raise AssertionError("a detector was built")

    with pytest.raises(PluginError, match="'CascadePlugin' cannot be used: plugin_id is empty"):
        DuplexOmniEngine(Broken(), max_sessions=1, max_chats=1)
