"""What a model declares must be complete and agree with itself. No session is needed to see it."""

from __future__ import annotations

import numpy as np
import trio

from duplex_trio.pipelines.topology import check_topology
from duplex_trio.plugin.checks import plugin_faults
from duplex_trio.plugin.pcm_buffer import BYTES_PER_SAMPLE
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.testing.conformance.room import Room


async def its_pipeline_is_whole(room: Room) -> None:
    """It has a name under which it is served, stages in order, and a worker named for each."""
    await trio.lowlevel.checkpoint()
    pipeline = room.make_pipeline()
    assert pipeline.config.name, "PipelineConfig.name is empty"
    assert pipeline.model_name(), "Pipeline.model_name() is empty"
    check_topology(pipeline.config)
    for stage in pipeline.stages:
        assert pipeline.build_worker(stage.stage_id).name, f"the worker of stage {stage.stage_id} has no name"


async def its_plugin_is_whole(room: Room) -> None:
    """It declares what there is to declare, and all of it agrees with the kind of plugin that it is."""
    await trio.lowlevel.checkpoint()
    faults = plugin_faults(room.make_pipeline().build_plugin(), 1)
    assert not faults, "; ".join(faults)


async def its_capabilities_are_fixed(room: Room) -> None:
    """They depend on how many sessions there are and on nothing else, and can be shown."""
    await trio.lowlevel.checkpoint()
    plugin = room.make_plugin()
    for max_sessions in (1, 8):
        able = plugin.capabilities(max_sessions)
        assert able == plugin.capabilities(max_sessions), "capabilities() gives another answer each time"
        assert able.render(), "capabilities cannot be shown"
    assert not plugin.capabilities(1).supports_multi_session, "one session is not many"


async def its_buffer_gives_back_what_was_not_taken(room: Room) -> None:
    """Units come whole and in order, a rollback puts a unit and those behind it back, and no byte is lost."""
    await trio.lowlevel.checkpoint()
    plugin = room.make_plugin()
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
    its_capabilities_are_fixed,
    its_buffer_gives_back_what_was_not_taken,
)
