"""Items that a client puts into the conversation itself, above all those that hold sound.

Sound in an item is input like any other: it is decoded, and committed as the item that holds it. It asks for
no response. Several pieces of sound in one item are one utterance, text beside them is part of what was said, and
images beside them become an item of their own in front of it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import attrs
import numpy as np

from duplex_trio.protocol.duplex import (
    CreateItem,
    DuplexEvent,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    ItemPart,
    MessageItem,
    RealtimeError,
)
from duplex_trio.protocol.duplex.audio import AudioInputDecoder, parse_format
from duplex_trio.session.core import SessionCore
from duplex_trio.session.model_config import answered_runtime_config
from duplex_trio.session.opener import TurnOpener
from duplex_trio.session.state.input import commit_item
from duplex_trio.session.state.items import check_call_output, check_item_id, create_item, refuse_unsupported
from duplex_trio.session.state.speech_verdict import loudness
from duplex_trio.stages.units import Pcm

IMAGE_SUFFIX = "_image"
"""What the id of an item's images adds to its own."""


class ClientItems:
    """`conversation.item.create` of one session."""

    def __init__(self, core: SessionCore, opener: TurnOpener) -> None:
        self._core = core
        self._opener = opener

    def create(self, command: CreateItem) -> None:
        """Put an item into the conversation.

        Raises:
            RealtimeError: `unsupported`, `invalid_value`, `invalid_function_call_output`,
                `item_create_duplicate_item_id`, `item_not_found` (unknown `previous_item_id`),
                `unsupported_audio_format` or `bad_event`; nothing has entered the conversation then.
        """
        core, state = self._core, self._core.state
        item = command.item
        refuse_unsupported(state, item)
        if isinstance(item, FunctionCallOutputItem):
            self._answer_call(command, item)
            return
        if not isinstance(item, MessageItem) or not _holds_sound(item):
            core.emit(create_item(state, command))
            return
        if core.units is not None:
            raise RealtimeError(
                "unsupported", "the model hears sound in the input buffer only", param="item.content[0]"
            )
        pcm = self._decoded(item)
        item = attrs.evolve(item, id=item.id or state.new_id("item_"))
        check_item_id(state, item.id)
        self._commit(item, command.previous_item_id, pcm)

    def _answer_call(self, command: CreateItem, item: FunctionCallOutputItem) -> None:
        core, state = self._core, self._core.state
        check_call_output(state, item, command.previous_item_id)
        changed = answered_runtime_config(core.plugin, state.config, state.runtime_config, item)
        events = create_item(state, command)
        state.adopt_runtime_config(changed)
        core.emit(events)
        if core.units is not None:
            core.units.nudge()

    def _commit(self, item: MessageItem, previous_item_id: str | None, pcm: Pcm) -> None:
        core, state = self._core, self._core.state
        images = self._images_of(item)
        events: list[DuplexEvent] = []
        if images is not None:
            state.conversation.require_free(item.id)
            events += create_item(state, CreateItem(item=images, previous_item_id=previous_item_id))
            previous_item_id = images.id
        words = _words(item)
        if words is None and not self._may_hold_speech(pcm):
            words = ""
        spoken = attrs.evolve(item, content=_with_one_sound(item, words))
        try:
            events += commit_item(state, spoken, previous_item_id, words=words, samples=len(pcm))
        except RealtimeError:
            if images is not None:
                state.conversation.delete(images.id)
            raise
        core.emit(events)
        if words is None:
            self._opener.transcribe(self._opener.new_turn(pcm=pcm, item_id=item.id))

    def _images_of(self, item: MessageItem) -> MessageItem | None:
        images = tuple(part for part in item.content if isinstance(part, InputImagePart))
        return attrs.evolve(item, id=f"{item.id}{IMAGE_SUFFIX}", content=images) if images else None

    def _may_hold_speech(self, pcm: Pcm) -> bool:
        # As for sound that is appended: in OpenAI's dialects the model finds out.
        state = self._core.state
        return state.dialect != "duplex" or loudness(pcm) >= state.config.overlap_silence_rms

    def _decoded(self, item: MessageItem) -> Pcm:
        pieces = [
            self._decode(part, f"item.content[{index}]")
            for index, part in enumerate(item.content)
            if isinstance(part, InputAudioPart) and part.audio
        ]
        return np.concatenate(pieces)

    def _decode(self, part: InputAudioPart, at: str) -> Pcm:
        state, plugin = self._core.state, self._core.plugin
        declared = parse_format(
            part.format,
            direction="input",
            rate=part.sample_rate_hz,
            param=f"{at}.format",
            current=state.config.input_format,
            duplex_names=state.dialect == "duplex",
        )
        decoder = AudioInputDecoder(declared, plugin.input_sample_rate_hz)
        try:
            pcm = decoder.feed(base64.b64decode(part.audio or ""))
        except RealtimeError as error:
            raise error.with_param(f"{at}.audio") from None
        return np.concatenate([pcm, decoder.flush()])


def _holds_sound(item: MessageItem) -> bool:
    return any(isinstance(part, InputAudioPart) and part.audio for part in item.content)


def _with_one_sound(item: MessageItem, words: str | None) -> tuple[ItemPart, ...]:
    """What is said in an item: its texts, and one part for all of its sound in the place of the first."""
    parts: list[ItemPart] = []
    for part in item.content:
        if isinstance(part, InputTextPart):
            parts.append(part)
        elif isinstance(part, InputAudioPart) and not any(isinstance(one, InputAudioPart) for one in parts):
            parts.append(InputAudioPart(transcript=words))
    return tuple(parts)


def _words(item: MessageItem) -> str | None:
    """The transcript that the client gives with all of the sound; None if it leaves some of it out."""
    parts: Sequence[str | None] = [
        part.transcript for part in item.content if isinstance(part, InputAudioPart)
    ]
    given = [text for text in parts if text]
    return " ".join(given) if len(given) == len(parts) else None
