"""What a model declares must be complete and agree with itself. No session is needed to see it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import numpy as np
import trio

from duplex_trio.pipelines.declared import DeclaredKey, make_declared
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.topology import check_topology
from duplex_trio.plugin.checks import plugin_faults
from duplex_trio.plugin.pcm_buffer import BYTES_PER_SAMPLE
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.conformance.room import Room

_AGREED = ("input_sample_rate_hz", "output_sample_rate_hz", "default_voice", "voices", "sampling_knobs")


async def its_pipeline_is_whole(room: Room) -> None:
    """It has a name under which it is served, and its stages keep every rule of a topology."""
    await trio.lowlevel.checkpoint()
    pipeline = room.make_pipeline()
    check_topology(pipeline.config)
    assert pipeline.model_name(), "Pipeline.model_name() is empty"
    for what, worker in _workers(pipeline):
        assert getattr(worker, "name", ""), f"the worker of {what} has no name"


async def its_paths_lead_to_what_it_uses(room: Room) -> None:
    """The declared processor and plugin can be made, and are what the pipeline itself makes of them."""
    await trio.lowlevel.checkpoint()
    pipeline = room.make_pipeline()
    used: dict[DeclaredKey, Callable[[], TurnProcessor]] = {
        "processor": pipeline.build_processor,
        "duplex_plugin": pipeline.build_plugin,
    }
    for key, build in used.items():
        if getattr(pipeline.config, key) is not None:
            declared = make_declared(pipeline, key, TurnProcessor)
            assert type(build()) is type(declared), (
                f"{key} makes a {type(declared).__name__}, the pipeline a {type(build()).__name__}"
            )


async def its_workers_are_made_anew(room: Room) -> None:
    """A stage that broke is made again: each call of `build_worker` gives another worker."""
    await trio.lowlevel.checkpoint()
    pipeline = room.make_pipeline()
    for (what, one), (_, other) in zip(_workers(pipeline), _workers(pipeline), strict=True):
        assert one is not other, f"{what} gets the same worker each time"


async def its_workers_can_go_to_another_process(room: Room) -> None:
    """Before it is loaded a worker holds settings only, and can be pickled."""
    await trio.lowlevel.checkpoint()
    for what, worker in _workers(room.make_pipeline()):
        try:
            there = pickle.loads(pickle.dumps(worker))  # noqa: S301  what was just written
        except Exception as error:
            raise AssertionError(f"the worker of {what} cannot be pickled: {error}") from error
        assert type(there) is type(worker), f"the worker of {what} becomes another one on its way"
        assert there.name == worker.name, f"the worker of {what} loses its name on its way"


async def its_processor_and_plugin_agree(room: Room) -> None:
    """A model is the same in turns and in sessions: its rates, voices and sampling; one that owns its turns
    has no processor.
    """
    await trio.lowlevel.checkpoint()
    pipeline = room.make_pipeline()
    if pipeline.config.processor is None or pipeline.config.duplex_plugin is None:
        return
    processor, plugin = pipeline.build_processor(), pipeline.build_plugin()
    assert not isinstance(plugin, ResumableModelPlugin), "a model that owns its turns declares a processor"
    for name in _AGREED:
        one, other = getattr(processor, name), getattr(plugin, name)
        assert one == other, f"{name} is {one!r} in turns and {other!r} in sessions"


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


def _workers(pipeline: Pipeline) -> Iterator[tuple[str, StageWorker]]:
    for stage in pipeline.stages:
        yield f"stage {stage.stage_id} ({stage.name})", pipeline.build_worker(stage.stage_id)
    detector = pipeline.build_vad_worker()
    if detector is not None:
        yield "voice activity", detector


CHECKS = (
    its_pipeline_is_whole,
    its_paths_lead_to_what_it_uses,
    its_workers_are_made_anew,
    its_workers_can_go_to_another_process,
    its_processor_and_plugin_agree,
)
SESSION_CHECKS = (
    its_plugin_is_whole,
    its_capabilities_are_fixed,
    its_buffer_gives_back_what_was_not_taken,
)
