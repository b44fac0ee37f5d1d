"""What a model declares must be complete and agree with itself. No session is needed to see it."""

from __future__ import annotations

import numpy as np
import trio

from duplex_trio.plugin.pcm_buffer import BYTES_PER_SAMPLE
from duplex_trio.plugin.pipeline import check_topology
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.testing.conformance.room import Room


async def its_pipeline_is_whole(room: Room) -> None:
    """It has a name under which it is served, stages in order, and a worker named for each."""
    await trio.lowlevel.checkpoint()
    pipeline = room.make_pipeline()
    assert pipeline.name, "Pipeline.name is empty"
    assert pipeline.model_name(), "Pipeline.model_name() is empty"
    check_topology(pipeline.stages)
    for stage in pipeline.stages:
        assert pipeline.build_worker(stage.stage_id).name, f"the worker of stage {stage.stage_id} has no name"


async def its_plugin_is_whole(room: Room) -> None:
    """It has an id, rates, and a default voice that is one of its voices."""
    await trio.lowlevel.checkpoint()
    plugin = room.make_pipeline().build_plugin()
    assert isinstance(plugin, DuplexModelPlugin), "build_plugin() makes no DuplexModelPlugin"
    assert plugin.plugin_id, "plugin_id is empty"
    assert plugin.input_sample_rate_hz > 0, "input_sample_rate_hz is not positive"
    assert plugin.output_sample_rate_hz > 0, "output_sample_rate_hz is not positive"
    assert plugin.default_silence_duration_ms > 0, "default_silence_duration_ms is not positive"
    if plugin.voices:
        assert plugin.default_voice in plugin.voices, f"{plugin.default_voice!r} is none of {plugin.voices}"
    plugin.validate_client_extra_body({})
    plugin.runtime_config({})


async def its_capabilities_agree(room: Room) -> None:
    """With the kind of plugin it is, with the length of its units, and with one another."""
    await trio.lowlevel.checkpoint()
    plugin = room.make_pipeline().build_plugin()
    for max_sessions in (1, 8):
        able = plugin.capabilities(max_sessions)
        assert able == plugin.capabilities(max_sessions), "capabilities() gives another answer each time"
        assert able.render(), "capabilities cannot be shown"
        resumable = isinstance(plugin, ResumableModelPlugin)
        assert able.supports_core_resumable_request == resumable, "supports_core_resumable_request is wrong"
        assert not able.required_input_modalities & able.optional_input_modalities, "required and optional"
        assert able.chunk_period_ms > 0, "chunk_period_ms is not positive"
        if isinstance(plugin, ResumableModelPlugin):
            assert plugin.unit_samples > 0, "unit_samples is not positive"
            unit_ms = plugin.unit_samples * 1000 / plugin.input_sample_rate_hz
            assert round(unit_ms) == able.chunk_period_ms, f"chunk_period_ms is not a unit's {unit_ms} ms"
    assert not plugin.capabilities(1).supports_multi_session, "one session is not many"


async def its_buffer_gives_back_what_was_not_taken(room: Room) -> None:
    """Units come whole and in order, a rollback puts a unit and those behind it back, and no byte is lost."""
    await trio.lowlevel.checkpoint()
    plugin = room.make_pipeline().build_plugin()
    if not isinstance(plugin, ResumableModelPlugin):
        return
    size = plugin.unit_samples
    sound = np.linspace(-0.5, 0.5, size * 5 // 2, dtype=np.float32)
    buffer = plugin.create_audio_buffer()
    buffer.append(sound)
    first, second = buffer.prepare_append(), buffer.prepare_append()
    assert first is not None, "a whole unit is not offered"
    assert second is not None, "the second unit is not offered"
    assert buffer.prepare_append() is None, "half a unit is offered"
    assert buffer.pending_bytes == len(sound) * BYTES_PER_SAMPLE, "reserved sound does not count"
    first.rollback()
    assert not first.active, "a unit that was rolled back is active"
    assert not second.active, "a unit behind one that was rolled back is active"
    assert not buffer.has_reserved, "something is still reserved"
    given = []
    while (unit := buffer.prepare_append() or buffer.prepare_commit()) is not None:
        assert len(unit.pcm) == size, "a unit has another length"
        given.append(unit.pcm)
        unit.commit()
    assert np.array_equal(np.concatenate(given)[: len(sound)], sound), "sound was lost or changed"
    assert unit is None
    assert buffer.pending_bytes == 0, "bytes are left over"
    buffer.append(sound)
    held = buffer.prepare_append()
    buffer.clear()
    assert buffer.pending_bytes == 0, "clear leaves bytes"
    assert held is not None, "a whole unit is not offered after the buffer was empty"
    assert not held.active, "clear leaves a unit active"


CHECKS = (
    its_pipeline_is_whole,
    its_plugin_is_whole,
    its_capabilities_agree,
    its_buffer_gives_back_what_was_not_taken,
)
