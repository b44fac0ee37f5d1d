"""Items and response options: what they are read as, and that writing is the reverse."""

import orjson
import pytest

from duplex_trio.protocol.duplex import (
    CreateItem,
    CreateResponse,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    ItemReference,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
    ResponseCreateOptions,
    decode_command,
    encode_command,
)

CREATE = "conversation.item.create"
HELLO = {"type": "input_text", "text": "hello"}


def read(kind, **fields):
    return decode_command(orjson.dumps({"type": kind, **fields}))


OPTION_ALIASES = [
    ({"modalities": ["text"]}, ResponseCreateOptions(output_modalities=("text",))),
    ({"output_modalities": ["audio", "text"]}, ResponseCreateOptions(output_modalities=("text", "audio"))),
    ({"max_output_tokens": 5}, ResponseCreateOptions(max_output_tokens=5)),
    ({"max_response_output_tokens": 5}, ResponseCreateOptions(max_output_tokens=5)),
    ({"max_tokens": "inf"}, ResponseCreateOptions(max_output_tokens="inf")),
    ({"max_tokens": "unlimited"}, ResponseCreateOptions(max_output_tokens="inf")),
    ({"voice": "v"}, ResponseCreateOptions(voice="v")),
    ({"voice": {"id": "v"}}, ResponseCreateOptions(voice="v")),
    ({"audio": {"output": {"voice": "v", "speed": 1}}}, ResponseCreateOptions(voice="v", speed=1.0)),
    ({"output_audio_format": "pcm16"}, ResponseCreateOptions(output_format="pcm16")),
    ({"response_format": "wav"}, ResponseCreateOptions(output_format="wav")),
    (
        {"audio": {"output": {"format": {"type": "audio/pcm"}}}},
        ResponseCreateOptions(output_format={"type": "audio/pcm"}),
    ),
    ({"audio": "odd"}, ResponseCreateOptions()),
    (
        {"conversation": "none", "metadata": {"a": "b"}},
        ResponseCreateOptions(conversation="none", metadata={"a": "b"}),
    ),
    ({"tools": [], "tool_choice": "none"}, ResponseCreateOptions(tools=(), tool_choice="none")),
    (
        {"tools": [{"name": "f"}]},
        ResponseCreateOptions(tools=({"name": "f", "type": "function"},)),
    ),
    (
        {"tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": False},
        ResponseCreateOptions(tool_choice={"type": "function", "name": "f"}, parallel_tool_calls=False),
    ),
    (
        {"input": [{"type": "item_reference", "id": "i"}, {"role": "system", "content": [HELLO]}]},
        ResponseCreateOptions(
            input=(ItemReference("i"), MessageItem(role="system", content=(InputTextPart("hello"),)))
        ),
    ),
    ({"temperature": 1, "extra_body": {"a": 1}}, ResponseCreateOptions(temperature=1.0, extra_body={"a": 1})),
]


@pytest.mark.parametrize(("options", "expected"), OPTION_ALIASES)
def test_response_options(options, expected):
    assert read("response.create", response=options) == CreateResponse(options=expected)


ITEMS = [
    ({"content": [HELLO]}, MessageItem(role="user", content=(InputTextPart("hello"),))),
    ({"role": None, "content": [HELLO]}, MessageItem(role="user", content=(InputTextPart("hello"),))),
    (
        {
            "id": "i",
            "type": "message",
            "role": "user",
            "status": "incomplete",
            "content": [{"type": "text", "text": "a"}],
        },
        MessageItem(id="i", role="user", status="incomplete", content=(InputTextPart("a"),)),
    ),
    (
        {"role": "user", "content": [{"type": "input_audio", "audio": "AAAA", "transcript": "a"}]},
        MessageItem(role="user", content=(InputAudioPart(audio="AAAA", transcript="a"),)),
    ),
    (
        {
            "role": "user",
            "content": [{"type": "audio", "data": " AAAA ", "format": "pcm16", "sample_rate_hz": 8000}],
        },
        MessageItem(
            role="user", content=(InputAudioPart(audio="AAAA", format="pcm16", sample_rate_hz=8000),)
        ),
    ),
    (
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "low"}]},
        MessageItem(role="user", content=(InputImagePart("data:,", detail="low"),)),
    ),
    (
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}, {"type": "audio", "transcript": "b"}],
        },
        MessageItem(role="assistant", content=(OutputTextPart("a"), OutputAudioPart("b"))),
    ),
    (
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
        FunctionCallItem(name="f", arguments="{}", call_id="c"),
    ),
    (
        {"type": "function_call_output", "call_id": "c", "output": ""},
        FunctionCallOutputItem(call_id="c", output=""),
    ),
]


@pytest.mark.parametrize(("item", "expected"), ITEMS)
def test_items(item, expected):
    assert read(CREATE, item=item) == CreateItem(item=expected)


@pytest.mark.parametrize("options", [options for _, options in OPTION_ALIASES])
def test_written_response_options_read_back(options):
    command = CreateResponse(options=options, event_id="mine")
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize("item", [item for _, item in ITEMS])
def test_written_items_read_back(item):
    command = CreateItem(item=item, previous_item_id="root")
    assert decode_command(encode_command(command)) == command
