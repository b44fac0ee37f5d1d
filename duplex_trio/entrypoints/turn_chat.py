"""Chat completions by a model that is asked by requests: each is one request of `AsyncOmni`."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pybase64
from attrs import define, field

from duplex_trio.engine.turn.manager import CHAT_READ_TIMEOUT_S
from duplex_trio.engine.turn.outputs import (
    CallOutput,
    EndOutput,
    OmniOutput,
    SpeechOutput,
    TextOutput,
)
from duplex_trio.engine.turn.request import Message, OmniRequest, Part, Picture, Sound, Text
from duplex_trio.entrypoints.answer import OmniAnswer
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.chat_backend import (
    ChatAnswer,
    ChatBackend,
    param_of_tool,
    refuse_unsupported,
)
from duplex_trio.protocol.chat import (
    ANSWER_RATE_HZ,
    CallPiece,
    ChatError,
    ChatItem,
    ChatPiece,
    ChatRequest,
    ChatUsage,
    FinishPiece,
    FinishReason,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    ItemPart,
    SpeechPiece,
    TextPiece,
    TranscriptPiece,
    of_code,
)
from duplex_trio.protocol.refusal import RequestError
from duplex_trio.protocol.sound import StreamResampler, float_from_pcm16, pcm16_bytes
from duplex_trio.stages.units import ChatCall

_MESSAGE = re.compile(r"messages\[(\d+)\]")


class TurnChatBackend(ChatBackend):
    """Answers chat requests with requests.

    Args:
        omni: the model.
        max_chats: chats at once; as many as the model answers requests by default. More are refused.
    """

    def __init__(self, omni: AsyncOmni, *, max_chats: int | None = None) -> None:
        self._omni = omni
        self._max_chats = omni.statistics().max_requests if max_chats is None else max_chats
        self._chats = 0

    @property
    def available(self) -> bool:
        """Whether the model serves chat completions: any that answers requests does."""
        return self._max_chats > 0

    @property
    def sound_rate_hz(self) -> int:
        """Rate at which the model hears."""
        return self._omni.processor.input_sample_rate_hz

    @property
    def chats(self) -> int:
        """Chats that are being answered."""
        return self._chats

    @asynccontextmanager
    async def answer(self, request: ChatRequest) -> AsyncIterator[ChatAnswer]:
        """Ask the model; see `ChatBackend.answer`."""
        processor = self._omni.processor
        refuse_unsupported(
            request,
            calls_functions=processor.supports_tools,
            takes_images=processor.supports_image_input,
            knobs=processor.sampling_knobs,
        )
        if self._chats >= self._max_chats:
            raise of_code("resource_exhausted", f"the model answers {self._max_chats} chats at once")
        asked = _request_of(request, processor.voices)
        self._chats += 1
        try:
            async with self._omni.generate(asked, wait=False, read_timeout_s=CHAT_READ_TIMEOUT_S) as answer:
                yield _RequestAnswer(answer, request)
        except RequestError as error:
            raise _told(error, request) from error
        finally:
            self._chats -= 1


class _RequestAnswer(ChatAnswer):
    def __init__(self, answer: OmniAnswer, request: ChatRequest) -> None:
        self._answer = answer
        self._request = request
        self._reader = ChatOutputReader()
        self._pieces: deque[ChatPiece] = deque()

    async def next_piece(self) -> ChatPiece:
        try:
            while not self._pieces:
                self._pieces += self._reader.read(await anext(self._answer))
        except RequestError as error:
            raise _told(error, self._request) from error
        return self._pieces.popleft()


@define
class ChatOutputReader:
    """Turns outputs into pieces of the answer, in order; the last is a `FinishPiece`."""

    _calls: set[int] = field(factory=set)
    _resampler: StreamResampler | None = None

    def read(self, output: OmniOutput) -> Iterator[ChatPiece]:
        """The pieces that an output holds.

        Raises:
            ChatError: the answer was aborted.
        """
        match output:
            case TextOutput(text=text):
                yield TextPiece(text)
            case SpeechOutput(pcm=pcm, sample_rate_hz=rate, text=text):
                if self._resampler is None:
                    self._resampler = StreamResampler(rate, ANSWER_RATE_HZ)
                if sound := pcm16_bytes(self._resampler.feed(pcm)):
                    yield SpeechPiece(sound)
                if text:
                    yield TranscriptPiece(text)
            case CallOutput(index=index, arguments=arguments) as call:
                if index not in self._calls:
                    self._calls.add(index)
                    yield CallPiece(index, call_id=call.call_id, name=call.name)
                if arguments:
                    yield CallPiece(index, arguments)
            case EndOutput():
                yield from self._finish(output)

    def _finish(self, end: EndOutput) -> Iterator[ChatPiece]:
        if end.finish_reason == "abort":
            raise ChatError(500, "aborted", "the answer was aborted by the server")
        if self._resampler is not None and (rest := pcm16_bytes(self._resampler.flush())):
            yield SpeechPiece(rest)
        reasons: dict[str, FinishReason] = {"length": "length", "tool_calls": "tool_calls"}
        usage = ChatUsage(
            input_tokens=end.usage.input_tokens,
            cached_tokens=end.usage.cached_tokens,
            output_tokens=end.usage.output_tokens,
        )
        yield FinishPiece(reasons.get(end.finish_reason, "stop"), usage, end.stages)


def _request_of(request: ChatRequest, voices: Any) -> OmniRequest:
    """What a chat asks; a voice that the model does not have is its own, as OpenAI's clients name theirs."""
    voice = request.audio.voice if request.speaks else None
    return OmniRequest(
        [_message_of(item) for item in request.items],
        modalities=request.modalities,
        voice=voice if voice in voices else None,
        temperature=request.temperature,
        sampling=request.sampling,
        tools=request.tools,
        tool_choice="auto" if request.tool_choice is None else request.tool_choice,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        max_output_tokens=request.max_tokens,
    )


def _message_of(item: ChatItem) -> Message:
    match item.item:
        case FunctionCallItem(name=name, arguments=arguments, call_id=call_id):
            return Message("assistant", calls=(ChatCall(name=name, arguments=arguments, call_id=call_id),))
        case FunctionCallOutputItem(output=output, call_id=call_id):
            return Message("tool", output, call_id=call_id)
        case message:
            return Message(message.role, tuple(map(_part_of, message.content)))


def _part_of(part: ItemPart) -> Part:
    match part:
        case InputAudioPart(audio=audio, sample_rate_hz=rate):
            assert rate is not None
            return Sound(float_from_pcm16(pybase64.b64decode(audio or "")), rate)
        case InputImagePart(image_url=url):
            return Picture(url)
    text: Any = getattr(part, "text", None) or getattr(part, "transcript", None)
    return Text(text or "")


def _told(error: RequestError, request: ChatRequest) -> ChatError:
    """An error as who asked for a completion is told of it, with the field as the chat request spells it."""
    param = error.param
    if param is not None and (found := _MESSAGE.match(param)) is not None:
        param = request.items[int(found[1])].at
    return of_code(error.code, error.message, param_of_tool(param) or param)
