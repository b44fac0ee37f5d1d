"""The example of a diffusion world model, run as it stands in the real runtime, and step by step at its seam."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import trio

from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.entrypoints.video_watch import VideoChunk
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.testing.video_frames import decode_frames
from duplex_trio.testing.video_models import WorkerStages, rendered

pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "video_models" / "world_model.py"
NAME = "example_world_model"
GUARD_S = 60.0


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The file as a module, which its own declaration finds by its name."""
    spec = importlib.util.spec_from_file_location(NAME, EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def session(example: ModuleType) -> Any:
    pipeline = example.WorldPipeline()
    plugin = pipeline.build_video_plugin()
    plugin.load()
    request = VideoRequest(request_id="v", prompt="a cat", width=64, height=64, fps=16.0, seed=3)
    return plugin.open(request, WorkerStages(pipeline))


def state(session: Any, prompt: str) -> Any:
    return session.encode_interaction({"prompt": prompt})


@pytest.mark.slow
async def test_it_makes_a_steered_video_in_the_real_runtime(example: ModuleType) -> None:
    """Through stages, preparation, timeline, encoder and messages: a transition of two chunks, then a hard update, and
    a key that it does not know, which costs the video nothing."""
    omni = VideoOmni(example.WorldPipeline())
    chunks: list[VideoChunk] = []
    completed: set[str] = set()
    with trio.fail_after(GUARD_S):
        async with omni.running(), omni.video("a calm sea", width=64, height=64) as video:
            async for chunk in video:
                chunks.append(chunk)
                completed.update(chunk.metadata.completed_event_ids)
                if chunk.index == 1:
                    await video.interact("a stormy sea", transition_chunks=2, event_id="soft")
                if "soft" in chunk.metadata.completed_event_ids:
                    event = {"prompt": "x", "negative_prompt": "y"}
                    await video.interact(event=event, event_id="unknown", transition_chunks=0)
                    await video.interact("a desert", transition_chunks=0, event_id="hard")
                if {"soft", "hard"} <= completed and "unknown" in video.failures:
                    await video.stop()
    assert video.done is not None
    assert video.done.interactions == {"soft": "completed", "hard": "completed", "unknown": "failed"}
    assert "negative_prompt" in str(video.failures["unknown"])
    active = [chunk.metadata.active_event_ids for chunk in chunks]
    assert (sum("soft" in ids for ids in active), sum("hard" in ids for ids in active)) == (2, 1)
    frames = sum(chunk.metadata.num_frames for chunk in chunks)
    assert len(decode_frames(b"".join(chunk.data for chunk in chunks))) == frames == video.done.frames


def test_prompts_are_mixed_element_by_element_over_the_union_of_their_tokens(
    example: ModuleType, session: Any
) -> None:
    short, long = state(session, "a cat"), state(session, "a dog on a beach")
    mixed = session.blend(short, long, 0.25)
    assert mixed.mask.sum() == 5
    assert np.allclose(mixed.hidden, 0.75 * short.hidden + 0.25 * long.hidden, atol=1e-6)
    assert not mixed.hidden[5:].any()


def test_what_was_read_of_a_prompt_is_void_when_it_changes_and_only_then(session: Any) -> None:
    cat, dog = state(session, "a cat"), state(session, "a dog")
    rendered(session, cat, changed=True)
    version, read = session.caches.version, session.caches.prompt
    rendered(session, cat, index=1)
    assert (session.caches.version, session.caches.prompt) == (version, read)
    assert session.caches.prompt is read
    rendered(session, session.blend(cat, dog, 0.5), index=2, changed=True)
    assert session.caches.version == version + 1
    assert session.caches.prompt is not read


def test_a_hard_update_reads_the_past_anew_and_a_soft_one_leaves_it(session: Any) -> None:
    cat, dog = state(session, "a cat"), state(session, "a dog")
    rendered(session, cat, changed=True)
    rendered(session, cat, index=1)
    before = session.caches.past
    rendered(session, dog, index=2, changed=True)
    assert session.caches.past[0] is before[1], "still what was computed under the old prompt"
    kept = session.caches.past
    rendered(session, cat, index=3, changed=True, hard=True)
    assert session.caches.past[0] is not kept[1]
    assert not (session.caches.past[0].keys == kept[1].keys).all()


def test_the_past_is_bounded(session: Any, example: ModuleType) -> None:
    cat = state(session, "a cat")
    for index in range(5):
        rendered(session, cat, index=index, changed=index == 0)
    assert len(session.caches.past) == len(session.caches.latents) == example.CONTEXT_CHUNKS


@pytest.mark.parametrize("at", [0, 1, 3])
def test_it_ends_between_two_steps_and_leaves_no_trace(session: Any, at: int) -> None:
    cat = state(session, "a cat")
    rendered(session, cat, changed=True)
    before, calls = session.caches, itertools.count()
    assert rendered(session, cat, index=1, cancelled=lambda: next(calls) >= at) == []
    assert next(calls) == at + 1
    assert session.caches.past is before.past


def test_a_seed_decides_the_video(example: ModuleType) -> None:
    def first(seed: int) -> Any:
        pipeline = example.WorldPipeline()
        plugin = pipeline.build_video_plugin()
        plugin.load()
        request = VideoRequest(
            request_id="v", prompt="a cat", width=64, height=32, fps=16.0, seed=seed, num_inference_steps=2
        )
        session = plugin.open(request, WorkerStages(pipeline))
        frames = rendered(session, state(session, "a cat"), changed=True, n_frames=5)
        session.close()
        plugin.close()
        return np.stack(frames)

    assert first(1).shape == (5, 32, 64, 3)
    assert (first(1) == first(1)).all()
    assert (first(1) != first(2)).any()


def test_what_it_cannot_do_it_refuses(session: Any, example: ModuleType) -> None:
    with pytest.raises(NotImplementedError, match="multi_modal_data"):
        session.encode_interaction({"prompt": "a cat", "multi_modal_data": {}})
    plugin = example.WorldPlugin()
    plugin.load()
    request = VideoRequest(request_id="v", prompt="a", width=64, height=64, fps=16.0, num_inference_steps=9)
    with pytest.raises(ValueError, match="8 or less"):
        plugin.open(request, WorkerStages(example.WorldPipeline()))


@pytest.mark.slow
def test_it_passes_the_strict_type_checker() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(EXAMPLE)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
