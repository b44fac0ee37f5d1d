from __future__ import annotations

import io
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.benchmarks.figures import resident_bytes
from duplex_trio.plugin.video.plugin import Frame
from duplex_trio.protocol.video.messages import VideoFormat
from duplex_trio.testing.video_frames import decode_frames, shown_frames
from duplex_trio.video.encoders.encoder import VideoEncoder
from duplex_trio.video.encoders.making import EncoderError, EncoderUnavailableError, make_encoder
from duplex_trio.video.encoders.rates import exact_rate

av = pytest.importorskip("av")

MIB = 1024 * 1024
FORMATS: tuple[VideoFormat, ...] = ("m4s", "webm")
TASKS = Path("/proc/self/task")

formats = pytest.mark.parametrize("form", FORMATS)


def encoder(
    form: VideoFormat, width: int = 64, height: int = 64, fps: float = 24, payload_bytes_max: int = MIB
) -> VideoEncoder:
    return make_encoder(form, width=width, height=height, fps=fps, payload_bytes_max=payload_bytes_max)


def picture(number: int, width: int = 64, height: int = 64) -> Frame:
    """Soft colours that move, and a bar that tells which picture it is."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    red = 128 + 90 * np.sin(x / 19 + number / 5)
    green = 128 + 90 * np.cos(y / 23 - number / 7)
    blue = 128 + 90 * np.sin((x + y) / 37 + number / 3)
    made = np.stack((red, green, blue), axis=-1).astype(np.uint8)
    begin = number * 8 % (height - 8)
    made[begin : begin + 8] = (235, 220, 40)
    return made


def pictures(count: int, width: int = 64, height: int = 64, first: int = 0) -> list[Frame]:
    return [picture(first + index, width, height) for index in range(count)]


def noise(count: int, side: int = 64) -> list[Frame]:
    random = np.random.default_rng(5)
    return [random.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(count)]


def likeness_db(one: Frame, other: Frame) -> float:
    """Peak signal to noise ratio."""
    return float(10 * np.log10(255**2 / max(np.mean((one.astype(float) - other) ** 2), 1e-9)))


def check(data: bytes, sources: Sequence[Frame], *, fps: float, likeness_min_db: float = 26) -> None:
    """Exactly the pictures that went in, in order, each at its time."""
    shown = list(shown_frames(data))
    assert len(shown) == len(sources)
    rate = exact_rate(fps)
    for number, (frame, source) in enumerate(zip(shown, sources, strict=True)):
        assert frame.pixels.shape == source.shape
        assert abs(frame.shown_s - number / rate) <= 0.0005
        assert likeness_db(frame.pixels, source) > likeness_min_db, number


@formats
@pytest.mark.parametrize("chunk_frames", [1, 9, 13])
@pytest.mark.parametrize(
    ("width", "height", "fps"),
    [(64, 64, 16), (66, 98, 23.976), (130, 70, 12.5), (256, 256, 1), (64, 1024, 60), (1024, 64, 24)],
)
def test_after_every_payload_just_its_frames_can_be_decoded(
    form: VideoFormat, width: int, height: int, fps: float, chunk_frames: int
) -> None:
    made = encoder(form, width, height, fps)
    sources: list[Frame] = []
    data = b""
    for chunk in range(3):
        frames = pictures(chunk_frames, width, height, chunk * chunk_frames)
        (payload,) = made.encode(iter(frames))
        assert (payload.chunk, payload.num_frames, payload.last) == (chunk, chunk_frames, True)
        sources += frames
        data += payload.data
        check(data, sources, fps=fps)
    held, trailer = made.close()
    assert held == ()
    check(data + trailer, sources, fps=fps)


@formats
@settings(max_examples=20, deadline=None)
@given(
    width=st.integers(32, 80),
    height=st.integers(32, 80),
    fps=st.one_of(st.floats(1, 60), st.sampled_from([1, 12.5, 23.976, 29.97, 60])),
    chunks=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    payload_bytes_max=st.sampled_from([1024, 2048, MIB]),
)
def test_any_chunks_of_any_size_add_up(
    form: VideoFormat, width: int, height: int, fps: float, chunks: list[int], payload_bytes_max: int
) -> None:
    width, height = 2 * width, 2 * height
    made = encoder(form, width, height, fps, payload_bytes_max)
    data = b""
    sources: list[Frame] = []
    with_frames = 0
    for count in chunks:
        frames = pictures(count, width, height, len(sources))
        payloads = made.encode(frames)
        assert sum(payload.num_frames for payload in payloads) == count
        assert [payload.last for payload in payloads] == [False] * (len(payloads) - 1) + [True] * bool(
            payloads
        )
        assert {payload.chunk for payload in payloads} <= {with_frames}
        with_frames += bool(count)
        sources += frames
        for payload in payloads:
            assert len(payload.data) <= payload_bytes_max or payload.num_frames == 1
            data += payload.data
    if sources:
        check(data + made.close()[1], sources, fps=fps, likeness_min_db=24)
    else:
        assert made.close() == ((), b"")


@formats
def test_a_long_chunk_is_divided_between_frames(form: VideoFormat) -> None:
    made = encoder(form, payload_bytes_max=8_000)
    frames = noise(12)
    payloads = [*made.encode(frames[:6]), *made.encode(frames[6:])]
    assert len(payloads) > 4
    count, data = 0, b""
    for payload in payloads:
        assert len(payload.data) <= 8_000
        data += payload.data
        count += payload.num_frames
        assert len(decode_frames(data)) == count
    assert count == 12
    assert [payload.chunk for payload in payloads] == sorted(payload.chunk for payload in payloads)
    for one, other in pairwise(payloads):
        assert one.last == (one.chunk != other.chunk)


@formats
def test_a_frame_that_is_too_long_by_itself_is_a_payload_nevertheless(form: VideoFormat) -> None:
    made = encoder(form, 128, 128, payload_bytes_max=1024)
    payloads = made.encode(noise(3, 128))
    assert [payload.num_frames for payload in payloads] == [1, 1, 1]
    assert all(len(payload.data) > 1024 for payload in payloads)
    assert len(decode_frames(b"".join(payload.data for payload in payloads))) == 3


@formats
@pytest.mark.parametrize("fps", [1, 12.5, 23.976, 60])
def test_a_saved_file_opens_seeks_and_knows_its_rate(form: VideoFormat, fps: float) -> None:
    made = encoder(form, fps=fps)
    sources = pictures(45)
    data = b"".join(
        payload.data for begin in range(0, 45, 9) for payload in made.encode(sources[begin : begin + 9])
    )
    data += made.close()[1]
    rate = exact_rate(fps)
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        assert stream.average_rate == rate
        assert (stream.codec_context.width, stream.codec_context.height) == (64, 64)
        if form == "m4s":  # a WebM that is written as it comes cannot tell its duration
            assert stream.duration * stream.time_base == 45 / rate
        for wanted in (31, 9, 44, 0, 20):
            container.seek(round(wanted / rate / stream.time_base), stream=stream)
            frame = next(container.decode(stream))
            assert frame.key_frame
            found = round(frame.pts * stream.time_base * rate)
            assert found == wanted // 9 * 9
            assert likeness_db(frame.to_ndarray(format="rgb24"), sources[found]) > 26


@formats
@pytest.mark.parametrize(
    "colour",
    [(0, 0, 0), (255, 255, 255), (128, 128, 128), (200, 30, 30), (30, 200, 30), (30, 30, 200), (40, 90, 160)],
)
def test_colours_come_back(form: VideoFormat, colour: tuple[int, int, int]) -> None:
    """As they would not, were the matrix or the range another one than the decoder is told."""
    (payload,) = encoder(form).encode([np.full((64, 64, 3), colour, np.uint8)] * 2)
    for frame in decode_frames(payload.data):
        assert np.abs(frame.astype(int) - colour).max() <= 9
    with av.open(io.BytesIO(payload.data)) as container:
        context = container.streams.video[0].codec_context
        assert (context.color_range, context.color_primaries, context.color_trc) == (1, 1, 1)
        assert context.colorspace == (1 if form == "m4s" else 6)


@pytest.mark.parametrize(
    ("width", "height", "fps"), [(64, 64, 16), (256, 256, 24), (512, 512, 24), (1024, 1024, 60)]
)
def test_the_mime_type_is_the_streams_own(width: int, height: int, fps: float) -> None:
    made = encoder("m4s", width, height, fps)
    known_before = made.mime_type
    (payload,) = made.encode(pictures(1, width, height))
    at = payload.data.index(b"avcC") + 4
    profile, constraints, level = payload.data[at + 1 : at + 4]
    assert known_before == f'video/mp4; codecs="avc1.{profile:02X}{constraints:02X}{level:02X}"'
    assert made.mime_type == known_before
    assert encoder("webm").mime_type == 'video/webm; codecs="vp8"'


@formats
def test_each_chunk_begins_with_the_only_keyframe_of_it(form: VideoFormat) -> None:
    made = encoder(form)
    data = b"".join(made.encode(pictures(5, first=5 * chunk))[0].data for chunk in range(4))
    with av.open(io.BytesIO(data)) as container:
        keys = [packet.is_keyframe for packet in container.demux(video=0) if packet.size]
    assert keys == [True, False, False, False, False] * 4


def test_a_keyframe_holds_the_picture_and_nothing_else() -> None:
    (payload,) = encoder("m4s").encode(pictures(1))
    (length,) = struct.unpack_from(">I", payload.data, at := payload.data.index(b"mdat") + 4)
    assert payload.data[at + 4] & 0x1F == 5
    assert at + 4 + length == len(payload.data)


class GenerationEnded(Exception):
    """What the frames of a chunk raise."""


def _broken(frames: Sequence[Frame]) -> Iterator[Frame]:
    yield from frames
    raise GenerationEnded


@formats
@pytest.mark.parametrize("seen", [0, 1, 3])
@pytest.mark.parametrize("before", [0, 1, 4])
def test_a_chunk_that_broke_leaves_no_trace(form: VideoFormat, seen: int, before: int) -> None:
    made = encoder(form)
    sources = pictures(before)
    data = b"".join(payload.data for payload in made.encode(sources))
    with pytest.raises(GenerationEnded):
        made.encode(_broken(noise(seen)))
    assert made.encode([]) == ()
    for _ in range(2):
        frames = pictures(4, first=len(sources))
        (payload,) = made.encode(frames)
        sources += frames
        data += payload.data
        check(data, sources, fps=24)
    assert payload.chunk == (2 if before else 1)
    check(data + made.close()[1], sources, fps=24)


@formats
def test_frames_are_taken_one_by_one_and_a_buffer_may_be_used_again(form: VideoFormat) -> None:
    sources = pictures(6)
    buffer = np.empty_like(sources[0])
    taken = 0

    def reused() -> Iterator[Frame]:
        nonlocal taken
        for source in sources:
            buffer[:] = source
            taken += 1
            yield buffer
            buffer[:] = 0

    made = encoder(form)
    (payload,) = made.encode(reused())
    assert taken == 6
    check(payload.data, sources, fps=24)


@formats
def test_frames_may_be_views_and_read_only(form: VideoFormat) -> None:
    wide = np.stack(pictures(3, 128))
    views: list[Frame] = list(wide[:, :, 10:74])
    flipped = [frame[::-1, ::-1] for frame in pictures(3)]
    locked = pictures(2)
    for frame in locked:
        frame.flags.writeable = False
    sources = [*views, *flipped, *locked]
    (payload,) = encoder(form).encode(sources)
    check(payload.data, sources, fps=24, likeness_min_db=20)


@formats
def test_the_same_frames_are_the_same_bytes(form: VideoFormat) -> None:
    frames = pictures(9, 128, 128)
    first, second = (encoder(form, 128, 128).encode(frames) for _ in range(2))
    assert first == second


@formats
@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (np.zeros((64, 66, 3), np.uint8), "shape"),
        (np.zeros((64, 64), np.uint8), "shape"),
        (np.zeros((64, 64, 4), np.uint8), "shape"),
        (np.zeros((64, 64, 3), np.float32), "float32"),
    ],
)
def test_what_is_no_frame_of_the_video_is_told(form: VideoFormat, frame: Frame, told: str) -> None:
    made = encoder(form)
    with pytest.raises(EncoderError, match=told):
        made.encode([frame])
    assert len(made.encode(pictures(2))) == 1  # and the video goes on


@formats
def test_a_video_can_be_discarded_at_any_time(form: VideoFormat) -> None:
    untouched = encoder(form)
    untouched.discard()
    untouched.discard()
    made = encoder(form)
    made.encode(pictures(3))
    with pytest.raises(EncoderError, match="ended"):
        made.encode(_discarding(made))
    with pytest.raises(EncoderError, match="ended"):
        made.encode(pictures(1))
    ended = encoder(form)
    ended.encode(pictures(3))
    assert ended.close()[1]
    ended.discard()
    with pytest.raises(EncoderError, match="ended"):
        ended.encode(pictures(1))


def _discarding(made: VideoEncoder) -> Iterator[Frame]:
    yield picture(0)
    made.discard()
    yield picture(1)


@formats
def test_a_video_without_a_frame_has_no_trailer(form: VideoFormat) -> None:
    assert encoder(form).close() == ((), b"")


@pytest.mark.skipif(not TASKS.exists(), reason="threads are counted where Linux tells them")
@formats
def test_no_thread_is_started(form: VideoFormat) -> None:
    before = set(os.listdir(TASKS))
    made = encoder(form, 256, 256)
    made.encode(pictures(9, 256, 256))
    assert set(os.listdir(TASKS)) <= before
    made.close()


@pytest.mark.slow
@formats
def test_a_long_video_takes_no_more_memory(form: VideoFormat) -> None:
    made = encoder(form)
    frames = pictures(2)

    def chunks(count: int) -> int:
        return sum(payload.num_frames for _ in range(count) for payload in made.encode(frames))

    chunks(200)
    before = resident_bytes()
    assert chunks(2000) == 4000
    assert resident_bytes() - before < MIB
    assert len(made.close()[1]) > 2000


@pytest.mark.slow
@formats
def test_videos_one_after_the_other_take_no_more_memory(form: VideoFormat) -> None:
    frames = pictures(2, 256, 256)

    def videos(count: int) -> None:
        for _ in range(count):
            made = encoder(form, 256, 256)
            made.encode(frames)
            made.discard()

    videos(20)
    before = resident_bytes()
    videos(100)
    assert resident_bytes() - before < 4 * MIB


def test_without_pyav_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(EncoderUnavailableError, match=r"pip install 'duplex-trio\[video\]'"):
        encoder("m4s")


@formats
def test_without_the_codec_it_names_the_other_format(
    form: VideoFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str, mode: str) -> None:
        raise av.codec.codec.UnknownCodecError(name)

    monkeypatch.setattr(av.CodecContext, "create", unknown)
    other = {"m4s": "webm", "webm": "m4s"}[form]
    with pytest.raises(EncoderUnavailableError, match=f"built without libx?(264|vpx).*'{other}'"):
        encoder(form)
