"""What a plugin declares must be complete and agree with itself: checked before any stage is built."""

from __future__ import annotations

from duplex_trio.pipelines.declared import check_kind
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.pcm_buffer import PcmAppendBuffer
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.protocol.sampling import KNOBS


class PluginError(ValueError):
    """A plugin does not keep the contract; the message says in what."""


def build_checked_plugin(pipeline: Pipeline, max_sessions: int) -> DuplexModelPlugin:
    """Make the plugin of a pipeline, if it can work.

    Args:
        pipeline: the model.
        max_sessions: sessions that the engine will admit.

    Raises:
        DeclaredPathError: the model declares none, or its path does not lead to a `DuplexModelPlugin`.
        PluginError: it does not keep the contract.
    """
    plugin = pipeline.build_plugin()
    check_kind(pipeline.config, "duplex_plugin", plugin, DuplexModelPlugin)
    return check_plugin(plugin, max_sessions)


def check_plugin(plugin: object, max_sessions: int) -> DuplexModelPlugin:
    """The plugin, if it can work.

    Args:
        plugin: what the pipeline built.
        max_sessions: sessions that the engine will admit.

    Raises:
        PluginError: naming every fault.
    """
    faults = plugin_faults(plugin, max_sessions)
    if faults:
        name = getattr(plugin, "plugin_id", "") or type(plugin).__name__
        raise PluginError(f"the model plugin {name!r} cannot be used: {'; '.join(faults)}")
    assert isinstance(plugin, DuplexModelPlugin)
    return plugin


def plugin_faults(plugin: object, max_sessions: int) -> list[str]:
    """What is wrong with a plugin, in sentences; nothing for one that may be used."""
    if not isinstance(plugin, DuplexModelPlugin):
        return [f"{type(plugin).__name__} is no DuplexModelPlugin"]
    able = plugin.capabilities(max_sessions)
    return [
        *_fixed_faults(plugin),
        *_ability_faults(plugin, able, max_sessions),
        *(_unit_faults(plugin, able) if isinstance(plugin, ResumableModelPlugin) else ()),
    ]


def _fixed_faults(plugin: DuplexModelPlugin) -> list[str]:
    faults = []
    if not getattr(plugin, "plugin_id", ""):
        faults.append("plugin_id is empty")
    for name in ("input_sample_rate_hz", "output_sample_rate_hz", "default_silence_duration_ms"):
        if getattr(plugin, name) <= 0:
            faults.append(f"{name} is {getattr(plugin, name)}, not positive")
    if unknown := plugin.sampling_knobs - KNOBS:
        faults.append(f"sampling_knobs are of {sorted(KNOBS)}, not {sorted(unknown)}")
    if plugin.voices and plugin.default_voice not in plugin.voices:
        faults.append(f"default_voice {plugin.default_voice!r} is none of the voices {list(plugin.voices)}")
    return faults


def _ability_faults(plugin: DuplexModelPlugin, able: DuplexCapabilities, max_sessions: int) -> list[str]:
    faults = []
    resumable = isinstance(plugin, ResumableModelPlugin)
    kind = "a ResumableModelPlugin" if resumable else "no ResumableModelPlugin"
    for name in ("supports_core_resumable_request", "supports_model_native_turn_policy"):
        if getattr(able, name) != resumable:
            faults.append(f"{name} is {getattr(able, name)}, but the plugin is {kind}")
    if resumable and able.supports_concurrent_turn_requests:
        faults.append("a model with one request per epoch has no concurrent turn requests")
    if able.supports_chat_completions and not able.supports_text_only_turn:
        faults.append("chat completions need answers to what was written: supports_text_only_turn")
    known = {"audio", "video"}
    required, optional = able.required_input_modalities, able.optional_input_modalities
    if (required | optional) - known:
        faults.append(f"input modalities are of {sorted(known)}, not {sorted((required | optional) - known)}")
    if required & optional:
        faults.append(f"{sorted(required & optional)} is both a required and an optional input modality")
    if able.supports_input_append and not required | optional:
        faults.append("it takes appends of no modality")
    if max_sessions > 1 and not able.supports_multi_session:
        faults.append(f"it serves one session at a time, and the deployment admits {max_sessions}")
    if able.chunk_period_ms <= 0:
        faults.append(f"chunk_period_ms is {able.chunk_period_ms}, not positive")
    return faults


def _unit_faults(plugin: ResumableModelPlugin, able: DuplexCapabilities) -> list[str]:
    samples = getattr(plugin, "unit_samples", 0)
    if samples <= 0:
        return [f"unit_samples is {samples}, not positive"]
    faults = []
    unit_ms = samples * 1000 / plugin.input_sample_rate_hz if plugin.input_sample_rate_hz > 0 else 0.0
    if round(unit_ms) != able.chunk_period_ms:
        faults.append(
            f"a unit of {samples} samples is {unit_ms:g} ms, chunk_period_ms {able.chunk_period_ms}"
        )
    buffer: object = plugin.create_audio_buffer()
    if not isinstance(buffer, PcmAppendBuffer):
        faults.append(f"create_audio_buffer() makes a {type(buffer).__name__}, no PcmAppendBuffer")
    elif buffer is plugin.create_audio_buffer():
        faults.append("create_audio_buffer() gives all sessions the same buffer")
    return faults
