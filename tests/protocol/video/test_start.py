"""The first message: every field, every spelling of it, every fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex_trio.protocol.video import START_BYTES_MAX, SessionStart, VideoRefused, decode_start

LONE = "\ud800"
BASE = {"type": "session.start", "prompt": "a street"}


def read(**fields: Any) -> SessionStart:
    return decode_start(json.dumps({**BASE, **fields}))


def fault_of(text: str) -> tuple[str, str | None]:
    with pytest.raises(VideoRefused) as caught:
        decode_start(text)
    assert caught.value.event_id is None
    assert caught.value.message.encode()
    return caught.value.code, caught.value.param


def fault(**fields: Any) -> tuple[str, str | None]:
    return fault_of(json.dumps({**BASE, **fields}))


def test_a_prompt_is_enough() -> None:
    assert read() == SessionStart(prompt="a street")
    assert read().streaming_buffer_seconds == 0.5
    assert read().format == "m4s"


def test_null_is_as_if_it_were_not_there() -> None:
    """But for the lead, where it says that there is no bound."""
    names = (
        "model", "width", "height", "size", "video_params", "num_frames", "seconds", "fps", "seed",
        "num_inference_steps", "guidance_scale", "negative_prompt", "extra_params", "lora",
        "image_reference", "sampling_params", "format",
    )  # fmt: skip
    assert read(**dict.fromkeys(names)) == read()
    assert read(streaming_buffer_seconds=None) == SessionStart(
        prompt="a street", streaming_buffer_seconds=None
    )


def test_every_field() -> None:
    fields: dict[str, Any] = {
        "prompt": " a street ",
        "model": "scene",
        "width": 512,
        "height": 288,
        "num_frames": 40,
        "seconds": 2.5,
        "fps": 24.5,
        "seed": 2**63 - 1,
        "num_inference_steps": 8,
        "guidance_scale": 1.5,
        "negative_prompt": "",
        "extra_params": {"k": [1, None]},
        "lora": {"name": "l"},
        "image_reference": {"image_url": "data:"},
        "format": "webm",
        "streaming_buffer_seconds": 1.5,
    }
    assert read(**fields) == SessionStart(**fields)


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ('{"type":"session.start","prompt":"x","seed":NaN}', "invalid_json", None),
        ('{"type":"session.start","prompt":"x","k":' + "[" * 32 + "]" * 32 + "}", "invalid_json", None),
        ("[]", "invalid_message", None),
        ("{}", "invalid_message", "type"),
        ('{"type":7}', "invalid_message", "type"),
        ('{"type":"session.interaction","interaction":{"event_id":"a"}}', "session_not_started", None),
        ('{"type":"session.ping"}', "session_not_started", None),
        ('{"type":"something"}', "session_not_started", None),
        ('{"type":"session.start"}', "invalid_start", "prompt"),
    ],
)
def test_a_first_message_at_fault(text: str, code: str, param: str | None) -> None:
    assert fault_of(text) == (code, param)


@pytest.mark.parametrize("prompt", [None, "", "  \n", 1, True, [], {}, "x" * 4097, LONE])
def test_a_prompt_says_something(prompt: object) -> None:
    assert fault(prompt=prompt) == ("invalid_start", "prompt")
    assert read(prompt="x" * 4096).prompt == "x" * 4096


_NO_NUMBERS: tuple[object, ...] = (True, "", "x", [], {})
_NO_COUNTS = (*_NO_NUMBERS, 1.5, "4")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("model", value) for value in (1, True, [], LONE)),
        *(("width", value) for value in (*_NO_COUNTS, 0, -2, 1e300)),
        *(("height", value) for value in (*_NO_COUNTS, 0, -2)),
        *(("size", value) for value in ("", "512", "512x", "x512", "512 x 512", "512X512", "-2x2", "1x1x1", 512,
            [512, 512], "512x512\n", "\u0665x\u0665", "999999x1", LONE)),
        *(("video_params", value) for value in (1, "x", [], True)),
        *(("num_frames", value) for value in (*_NO_COUNTS, 0, -1, 2**54)),
        *(("seconds", value) for value in (0, -1, "0", "-1", "", "4s", "1e3", " 4", ".5", "\u0664", True, [], {})),
        *(("fps", value) for value in (*_NO_NUMBERS, 0, 0.99, 60.01, -16, "16")),
        *(("seed", value) for value in (*_NO_COUNTS, -(2**64), 2**63, 2**64)),
        *(("num_inference_steps", value) for value in (*_NO_COUNTS, 0, 201)),
        *(("guidance_scale", value) for value in (*_NO_NUMBERS, -0.1, 20.1)),
        *(("negative_prompt", value) for value in (1, [], "x" * 4097, LONE)),
        *(("extra_params", value) for value in (1, "x", [], {"k": LONE}, {LONE: 1})),
        *(("lora", value) for value in (1, "x", [], {"k": [LONE]})),
        ("image_reference", {"k": LONE}),
        *(("format", value) for value in ("", "mp4", "M4S", 1, ["m4s"], LONE)),
        *(("streaming_buffer_seconds", value) for value in (*_NO_NUMBERS, -0.1, 3601, "1")),
        *(("sampling_params", value) for value in (1, "x", [], True)),
    ],
)  # fmt: skip
def test_a_field_at_fault(name: str, value: object) -> None:
    """It is the one that is named."""
    assert fault(**{name: value}) == ("invalid_start", name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fps", 1), ("fps", 60), ("guidance_scale", 0), ("guidance_scale", 20), ("num_inference_steps", 1),
        ("num_inference_steps", 200), ("seed", -(2**63)), ("seed", -1), ("seed", 0), ("seed", 2**63 - 1),
        ("streaming_buffer_seconds", 0),
        ("streaming_buffer_seconds", 3600), ("num_frames", 1), ("width", 1), ("num_frames", 9.0),
    ],
)  # fmt: skip
def test_a_field_at_its_bound(name: str, value: float) -> None:
    assert getattr(read(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("written", "seconds"), [("4", 4.0), ("1.5", 1.5), (4, 4.0), (0.25, 0.25), ("012", 12.0)]
)
def test_seconds_may_be_a_text(written: object, seconds: float) -> None:
    """As OpenAI's are."""
    assert read(seconds=written).seconds == seconds


def test_a_size_wins_over_sides_and_they_over_parameters() -> None:
    """Each side by itself."""
    params = {"width": 100, "height": 200, "fps": 30, "num_frames": 7}

    def sides(**fields: Any) -> tuple[int | None, int | None]:
        start = read(video_params=params, **fields)
        return start.width, start.height

    assert sides() == (100, 200)
    assert sides(width=64) == (64, 200)
    assert sides(width=64, size="512x288") == (512, 288)
    start = read(video_params=params)
    assert (start.fps, start.num_frames) == (30.0, 7)
    start = read(video_params=params, fps=24, num_frames=8)
    assert (start.fps, start.num_frames) == (24.0, 8)


@pytest.mark.parametrize("name", ["width", "height", "num_frames", "fps"])
def test_a_parameter_at_fault_is_named_by_its_place(name: str) -> None:
    """Also where another one wins over it."""
    assert fault(video_params={name: 0}) == ("invalid_start", f"video_params.{name}")
    assert fault(**{name: 2}, video_params={name: "2"}) == ("invalid_start", f"video_params.{name}")


def test_a_side_at_fault_is_told_though_the_size_wins() -> None:
    assert fault(width="2", size="512x512") == ("invalid_start", "width")


def test_sampling_parameters_are_as_if_at_the_top() -> None:
    """What is at the top wins; what is no field is the model's own."""
    start = read(
        seed=1,
        guidance_scale=None,
        extra_params={"k": 1, "l": 1},
        sampling_params={
            "seed": 2,
            "guidance_scale": 3.0,
            "size": "512x288",
            "k": 2,
            "flow_shift": 5,
            "type": "x",
        },
    )
    assert (start.seed, start.guidance_scale, start.width, start.height) == (1, 3.0, 512, 288)
    assert start.extra_params == {"k": 2, "l": 1, "flow_shift": 5, "type": "x"}
    assert read(sampling_params={"extra_params": {"k": 1}, "l": 2}).extra_params == {"k": 1, "l": 2}
    assert read(sampling_params={"streaming_buffer_seconds": None}).streaming_buffer_seconds is None
    assert read(streaming_buffer_seconds=None, sampling_params={"streaming_buffer_seconds": 1}) == read(
        streaming_buffer_seconds=None
    )
    assert read(sampling_params={"prompt": "other"}).prompt == "a street"


def test_a_sampling_parameter_at_fault_is_named() -> None:
    assert fault(sampling_params={"seed": 2**63}) == ("invalid_start", "sampling_params.seed")
    assert fault(sampling_params={"format": "mp4"}) == ("invalid_start", "sampling_params.format")
    assert fault(seed=2**63, sampling_params={"seed": 1}) == ("invalid_start", "seed")
    assert fault(sampling_params={"flow_shift": LONE}) == ("invalid_start", "extra_params")


def test_what_nobody_knows_is_ignored() -> None:
    """At the top, as in vLLM-Omni; a field there for one of ours of the future is no fault."""
    assert read(user="u", event_id="e", something={"k": 1}) == read()


@pytest.mark.parametrize("character", ["x", "\u20ac", "\U0001f600"])
def test_a_start_has_64_kib_of_utf_8(character: str) -> None:
    frame = '{"type":"session.start","prompt":"x","k":""}'
    room = START_BYTES_MAX - len(frame)
    width = len(character.encode())
    text = frame[:-2] + character * (room // width) + "x" * (room % width) + frame[-2:]
    assert len(text.encode()) == START_BYTES_MAX == 65_536
    assert decode_start(text) == SessionStart(prompt="x")
    assert fault_of(text + " ") == ("message_too_large", None)
