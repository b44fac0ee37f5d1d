"""The plugin: what it declares, and how it meets the encoder of a deployment."""

from __future__ import annotations

import threading

import pytest

from duplex_trio.models.scene import plugin as plugin_module
from duplex_trio.models.scene.plugin import ScenePlugin
from duplex_trio.models.scene.reading import Amounts
from duplex_trio.plugin.video.plugin import StageCaller, StageCallError, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest
from tests.models.scene.support import WordEncoder

REQUEST = VideoRequest(request_id="test", prompt="dunes", width=64, height=64, fps=24.0)


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ScenePlugin:
    monkeypatch.setattr(plugin_module, "CAPTIONS_OTHERWISE", 700)
    made = ScenePlugin()
    made.load()
    return made


def test_it_declares_24_frames_a_second_and_no_parameters() -> None:
    able = ScenePlugin().capabilities
    assert (able.native_fps, able.chunk_frames, able.default_transition_chunks) == (24.0, 9, 3)
    assert able.supports_prompt_updates
    assert able.start_fields == frozenset()


def test_another_encoder_is_learnt_once_by_whoever_comes_first(plugin: ScenePlugin) -> None:
    encoder = WordEncoder()
    opened: list[VideoModelSession] = []
    threads = [
        threading.Thread(target=lambda: opened.append(plugin.open(REQUEST, encoder))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 3
    asked = encoder.asked
    assert asked > 700
    for video in opened:
        assert Amounts(video.encode_interaction({"prompt": "sand dunes"})).desert == 1
        assert Amounts(video.encode_interaction({"prompt": "a coral reef"})).underwater == 1
    plugin.open(REQUEST, encoder)
    assert encoder.asked == asked + 6


def test_an_encoder_that_fails_fails_the_start_and_not_the_next_one(plugin: ScenePlugin) -> None:
    class Gone(StageCaller):
        def call(self, stage_id: int, unit: object) -> list[object]:
            raise StageCallError("engine_dead", "the encoder is gone")

    with pytest.raises(StageCallError, match="the encoder is gone"):
        plugin.open(REQUEST, Gone())
    assert plugin.open(REQUEST, WordEncoder())
    plugin.close()
