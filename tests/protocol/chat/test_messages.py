"""Messages and their parts: roles, content, sound, calls and their answers."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.protocol.chat import ChatError, ChatItem, read_chat_request
from duplex_trio.protocol.duplex import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    MessageItem,
    OutputTextPart,
)
from duplex_trio.protocol.duplex.audio import float_from_pcm16, pcm16_bytes, wav_bytes

RATE_HZ = 16_000
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sound(data: str, kind: str = "pcm16") -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tone(seconds: float, rate_hz: int) -> bytes:
    time_s = np.arange(int(seconds * rate_hz), dtype=np.float32) / rate_hz
    return pcm16_bytes((0.3 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32))


def items(*messages: Any) -> tuple[ChatItem, ...]:
    return read_chat_request(orjson.dumps({"messages": messages}), RATE_HZ).items


def refused(*messages: Any) -> ChatError:
    with pytest.raises(ChatError) as caught:
        items(*messages)
    assert caught.value.status == 400
    return caught.value


def attempt(*messages: Any) -> tuple[ChatItem, ...] | ChatError:
    try:
        return items(*messages)
    except ChatError as error:
        return error


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_each_role_keeps_its_part() -> None:
    read = items(
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": [text("be brief")]},
        {"role": "user", "content": "hi", "name": "Ann"},
        {"role": "assistant", "content": [text("hello"), {"type": "refusal", "refusal": "no more"}]},
    )
    assert [one.at for one in read] == [f"messages[{index}]" for index in range(4)]
    assert [one.item for one in read] == [
        MessageItem(role="system", content=(InputTextPart("be kind"),)),
        MessageItem(role="system", content=(InputTextPart("be brief"),)),
        MessageItem(role="user", content=(InputTextPart("hi"),)),
        MessageItem(role="assistant", content=(OutputTextPart("hello"), OutputTextPart("no more"))),
    ]


def test_calls_and_their_answers() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}
    read = items(
        user("look"),
        {"role": "assistant", "content": None, "tool_calls": [call], "audio": None, "function_call": None,
         "refusal": None, "annotations": []},
        {"role": "tool", "tool_call_id": "c1", "content": [text("blue"), text("and wide")]},
    )  # fmt: skip
    assert [one.item for one in read[1:]] == [
        FunctionCallItem(call_id="c1", name="look", arguments='{"at":"sky"}'),
        FunctionCallOutputItem(call_id="c1", output="blue\nand wide"),
    ]


def test_an_empty_text_is_no_item() -> None:
    assert items({"role": "system", "content": ""}, user("x"))[0].at == "messages[1]"


@pytest.mark.parametrize("content", ["", [text("")], [text(""), text("")]])
def test_a_user_who_says_nothing_is_refused(content: Any) -> None:
    error = refused(user("x"), user(content))
    assert (error.code, error.param) == ("invalid_value", "messages[1].content")


def test_an_empty_text_beside_something_is_taken() -> None:
    assert len(items(user([text(""), text("x")]))) == 1


def test_sound_stands_alone_between_what_is_written() -> None:
    data = b64(tone(0.1, 24_000))
    image = {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}
    read = items(user([text("what is"), image, sound(data), sound(data), text("this?")]))
    assert [one.at for one in read] == ["messages[0]"] * 4
    kinds = [[type(part) for part in one.item.content] for one in read if isinstance(one.item, MessageItem)]
    assert kinds == [[InputTextPart, InputImagePart], [InputAudioPart], [InputAudioPart], [InputTextPart]]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_sound_comes_out_at_the_rate_of_the_model(rate_hz: int, channels: int) -> None:
    pcm = np.repeat(np.frombuffer(tone(0.5, rate_hz), np.int16), channels).tobytes()
    (read,) = items(user([sound(b64(wav_bytes(pcm, rate_hz, channels)), "wav")]))
    assert isinstance(read.item, MessageItem)
    (part,) = read.item.content
    assert isinstance(part, InputAudioPart)
    assert (part.format, part.sample_rate_hz) == ("pcm16", RATE_HZ)
    heard = float_from_pcm16(base64.b64decode(part.audio or ""))
    assert len(heard) == pytest.approx(RATE_HZ / 2, abs=2)
    assert np.sqrt(np.mean(heard**2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.02)


def test_speech_of_the_assistant_is_its_words_or_its_id() -> None:
    said, named = items(
        {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "hello", "data": "x"}},
        {"role": "assistant", "audio": {"id": "audio-1"}},
    )
    assert said.item == MessageItem(role="assistant", content=(OutputTextPart("hello"),))
    assert (named.audio_id, named.item) == ("audio-1", MessageItem(role="assistant"))


def test_an_id_is_looked_up_and_an_unknown_one_is_refused() -> None:
    request = read_chat_request(
        orjson.dumps({"messages": [user("x"), {"role": "assistant", "audio": {"id": "audio-1"}}]}), RATE_HZ
    )
    known = request.with_words({"audio-1": "hello"}.get)
    assert known.items[1] == ChatItem(
        "messages[1]", MessageItem(role="assistant", content=(OutputTextPart("hello"),))
    )
    with pytest.raises(ChatError) as caught:
        request.with_words({}.get)
    assert caught.value.param == "messages[1].audio.id"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (["hello"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "human", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([user("a"), user(7)], "messages[1].content"),
        ([user([])], "messages[0].content"),
        ([user(["x"])], "messages[0].content[0]"),
        ([user([{"type": "file", "file": {}}])], "messages[0].content[0].type"),
        ([user([{"type": ["text"]}])], "messages[0].content[0].type"),
        ([user([{"type": "text"}])], "messages[0].content[0].text"),
        ([user([text("a"), {"type": "text", "text": 1}])], "messages[0].content[1].text"),
        ([user([{"type": "image_url", "image_url": PICTURE}])], "messages[0].content[0].image_url"),
        ([user([{"type": "image_url", "image_url": {}}])], "messages[0].content[0].image_url.url"),
        ([user([{"type": "input_audio"}])], "messages[0].content[0].input_audio"),
        ([user([sound("AAAA", "mp3")])], "messages[0].content[0].input_audio.format"),
        ([user([{"type": "input_audio", "input_audio": {"data": "AAAA"}}])],
         "messages[0].content[0].input_audio.format"),
        ([user([sound("not base64!")])], "messages[0].content[0].input_audio.data"),
        ([user([sound("AAAA", "wav")])], "messages[0].content[0].input_audio.data"),
        ([user([sound("AAA=" + "AAAA", "pcm16")])], "messages[0].content[0].input_audio.data"),
        ([user([sound(b64(b"abc"))])], "messages[0].content[0].input_audio.data"),
        ([user([sound("")])], "messages[0].content[0].input_audio.data"),
        ([user([sound(b64(wav_bytes(bytes(200), 4_000)), "wav")])], "messages[0].content[0].input_audio.data"),
        ([user([sound(b64(bytes(2 * 24_000 * 121)))])], "messages[0].content[0].input_audio.data"),
        ([user([sound(b64(bytes(20)))] * 17)], "messages"),
        ([{"role": "system", "content": [sound("AAAA")]}], "messages[0].content[0].type"),
        ([{"role": "assistant"}], "messages[0].content"),
        ([{"role": "assistant", "content": "x", "function_call": {}}], "messages[0].function_call"),
        ([{"role": "assistant", "tool_calls": {}, "content": "x"}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}], "messages[0].tool_calls[0].type"),
        ([{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}],
         "messages[0].tool_calls[0].function.arguments"),
        ([{"role": "assistant", "audio": {}}], "messages[0].audio.id"),
        ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
        ([{"role": "tool", "tool_call_id": "nobody", "content": "x"}], "messages[0].tool_call_id"),
        ([user("x")] * 2049, "messages"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_place(messages: list[Any], param: str) -> None:
    assert refused(*messages).param == param


def test_a_format_that_is_not_read_comes_with_those_that_are() -> None:
    message = refused(user([sound("AAAA", "mp3")])).message
    assert "'mp3' is not read here" in message
    assert "wav" in message
    assert "pcm16" in message


def test_a_call_is_answered_once() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}]}
    answer = {"role": "tool", "tool_call_id": "c", "content": "1"}
    assert refused(call, answer, answer).param == "messages[2].tool_call_id"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(
    st.builds(text, st.text(max_size=20)),
    st.builds(lambda data: sound(b64(data)), st.binary(max_size=60)),
    st.builds(lambda data, rate: sound(b64(wav_bytes(data, rate)), "wav"), st.binary(max_size=60),
              st.integers(1, 200_000)),
    st.builds(lambda data: sound(b64(data), "wav"), st.binary(max_size=80)),
    st.dictionaries(st.sampled_from(["type", "text", "input_audio", "image_url"]),
                    st.sampled_from(["text", "input_audio", "", 3, None, {}, [], {"data": "AAAA", "format": "wav"}])),
), max_size=4))  # fmt: skip
def test_parts_are_read_or_refused_by_name(parts: list[Any]) -> None:
    """Nothing else comes of any part; what is read keeps its order and loses no text."""
    read = attempt(user(parts))
    if isinstance(read, ChatError):
        assert read.status == 400
        assert (read.param or "").startswith("messages[0].content")
        return
    texts = [
        part.text
        for one in read
        if isinstance(one.item, MessageItem)
        for part in one.item.content
        if isinstance(part, InputTextPart)
    ]
    assert texts == [part["text"] for part in parts if part["type"] == "text"]
