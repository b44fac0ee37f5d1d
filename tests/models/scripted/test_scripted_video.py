"""The scripted model of video: its pictures can be read, and it is slow and broken where its script says."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from duplex_trio.deploy.loader import load_deploy
from duplex_trio.models.scripted.video import (
    ScriptedPrompt,
    ScriptedTextEncoder,
    ScriptedVideoPipeline,
    ScriptedVideoPlugin,
)
from duplex_trio.models.scripted.video_picture import ScriptedPicture, colour_of, draw, read_picture
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.pipelines.registry import load_pipeline
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.worker import UnitRefused

SIZES = [(64, 64), (66, 98), (256, 256), (1024, 64)]
PICTURES = [
    ScriptedPicture(0, 0, colour_of("red")),
    ScriptedPicture(1, 9, colour_of("blue")),
    ScriptedPicture(43_690, 21_845, colour_of("a snowy street")),
    ScriptedPicture(65_535, 65_535, colour_of("white")),
]


class Stages(StageCaller):
    """The one stage, asked directly."""

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        assert stage_id == 0
        return list(ScriptedTextEncoder().process(StageRequest(request_id="r"), None, unit))


def opened(plugin: VideoModelPlugin | None = None, **extra: Any) -> VideoModelSession:
    plugin = plugin or ScriptedVideoPlugin(VideoScript())
    request = VideoRequest(request_id="v", prompt="red", width=64, height=64, fps=16.0, extra_params=extra)
    return plugin.open(request, Stages())


def rendered(session: VideoModelSession, index: int, state: Any, n_frames: int = 3) -> list[Frame]:
    frames = session.render_chunk(
        index, state, changed=False, hard=False, n_frames=n_frames, cancelled=lambda: False
    )
    return [frame.copy() for frame in frames]


def assert_same(read: ScriptedPicture, drawn: ScriptedPicture, tolerance: float) -> None:
    assert (read.chunk, read.frame) == (drawn.chunk, drawn.frame)
    assert np.abs(read.colour - drawn.colour).max() <= tolerance


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: str(picture.chunk))
def test_a_picture_says_what_it_is(picture: ScriptedPicture, size: tuple[int, int]) -> None:
    frame = draw(picture, *size)
    assert frame.shape == (size[1], size[0], 3)
    assert frame.dtype == np.uint8
    assert_same(read_picture(frame), picture, 0.5)


@pytest.mark.parametrize("codec", ["libx264", "libvpx"])
def test_a_picture_can_be_read_when_it_was_coded(codec: str) -> None:
    av = pytest.importorskip("av")
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream = container.add_stream(codec, rate=Fraction(16))
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for picture in PICTURES:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(draw(picture, 64, 64), format="rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        read = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(read) == len(PICTURES)
    for frame, picture in zip(read, PICTURES, strict=True):
        assert_same(read_picture(frame), picture, 8)


def test_chunks_count_frames_on() -> None:
    session = opened()
    state = session.encode_interaction({"prompt": "green"})
    read = [read_picture(frame) for index in range(3) for frame in rendered(session, index, state)]
    assert [picture.chunk for picture in read] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [picture.frame for picture in read] == list(range(9))
    assert all(np.allclose(picture.colour, colour_of("green"), atol=1) for picture in read)


def test_a_mixed_state_is_a_mixed_colour() -> None:
    session = opened()
    red, blue = (session.encode_interaction({"prompt": name}) for name in ("red", "blue"))
    mixed = session.blend(red, blue, 0.25)
    (frame,) = rendered(session, 0, mixed, 1)
    assert np.allclose(read_picture(frame).colour, 0.75 * red + 0.25 * blue, atol=1)


def test_a_prompt_without_a_colour_has_one_of_its_own() -> None:
    assert not np.allclose(colour_of("a snowy street"), colour_of("a volcano"), atol=20)
    assert np.array_equal(colour_of("a snowy street"), colour_of("a snowy street"))


def test_what_it_does_not_know_is_refused() -> None:
    session = opened()
    with pytest.raises(NotImplementedError, match="negative_prompt"):
        session.encode_interaction({"prompt": "red", "negative_prompt": "blue"})


def test_the_script_of_a_request() -> None:
    session = opened(refused_word="odd", failing_word="bad", fail_at_chunk=1)
    state = session.encode_interaction({"prompt": "fine"})
    with pytest.raises(ValueError, match="cannot do 'odd'"):
        session.encode_interaction({"prompt": "an odd one"})
    with pytest.raises(UnitRefused):
        session.encode_interaction({"prompt": "a bad one"})
    assert len(rendered(session, 0, state)) == 3
    with pytest.raises(RuntimeError, match="at chunk 1"):
        rendered(session, 1, state)


def test_a_prompt_can_break_the_stage() -> None:
    with pytest.raises(SystemExit):
        list(
            ScriptedTextEncoder().process(
                StageRequest(request_id="r"), None, ScriptedPrompt(text="x", dies=True)
            )
        )


def test_a_slow_frame_is_left_when_it_is_wanted_no_more() -> None:
    session = opened(frame_delay_s=1000)
    asked = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > 2

    frames = session.render_chunk(
        0, colour_of("red"), changed=False, hard=False, n_frames=2, cancelled=cancelled
    )
    assert list(frames) == []


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"colour": "red"}, "extra_params has no 'colour'"),
        ({"frame_delay_s": "1"}, "extra_params.frame_delay_s must be a number in"),
        ({"frame_delay_s": -0.5}, "extra_params.frame_delay_s must be a number in"),
        ({"frame_delay_s": True}, "extra_params.frame_delay_s must be a number in"),
        ({"fail_at_chunk": 1.5}, "extra_params.fail_at_chunk must be a number in"),
        ({"failing_word": 3}, "extra_params.failing_word must be a word"),
    ],
)
def test_a_wrong_script_is_refused(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        opened(**extra)


def test_the_deployment_is_bundled() -> None:
    deploy = load_deploy("scripted_video")
    assert deploy.session_mode == "video"
    pipeline = load_pipeline(deploy)
    assert isinstance(pipeline, ScriptedVideoPipeline)
    assert pipeline.model_name() == "scripted_video"
    assert pipeline.build_video_plugin().capabilities.supports_prompt_updates
