"""What a client can say: one method for each command of the protocol, over a single way to send.

Nothing is validated here that the server validates; a refusal comes back as an `error` event that names the
`event_id` which each method returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pybase64
import trio

from duplex_trio.clients.config import SAMPLE_BYTES, SessionConfig
from duplex_trio.clients.pacing import plan_chunks
from duplex_trio.protocol import duplex as wire


class DuplexCommands(ABC):
    """The commands of wire.md 2.3 as methods; all return the `event_id` under which the command was sent.

    All raise what `send` raises, and send the whole command or nothing of it when they are cancelled.

    Attributes:
        config: the settings asked for; how sound is appended.
    """

    def __init__(self, config: SessionConfig) -> None:
        self.config = config
        self._audio_end_ms = 0.0

    @abstractmethod
    async def send(self, command: Mapping[str, Any]) -> str:
        """Send any client event and return its `event_id`, which is made up unless given."""

    async def _tell(self, command: wire.DuplexCommand) -> str:
        return await self.send(wire.command_message(command))

    # ------------------------------------------------------------------ sound

    async def append_audio(
        self, pcm: bytes, *, is_speech: bool | None = None, video_frames: Sequence[str] = ()
    ) -> str:
        """Append sound to the input.

        Args:
            pcm: mono samples in the encoding and at the rate of `config.input_audio`.
            is_speech: the caller's own verdict; the server decides without it.
            video_frames: base64 JPEG or PNG pictures (data URLs are stripped) that belong to this sound.

        Raises:
            ValueError: `pcm` is no whole number of samples, or a picture no base64.
        """
        audio = self.config.input_audio
        frames = tuple(pybase64.b64decode(_bare_base64(frame), validate=True) for frame in video_frames)
        hints = wire.AppendHints(is_speech=is_speech)
        if audio.encoding in SAMPLE_BYTES:
            if len(pcm) % audio.bytes_per_sample:
                raise ValueError(f"{len(pcm)} bytes are no whole samples of {audio.encoding}")
            duration_ms = audio.duration_ms(len(pcm))
            self._audio_end_ms += duration_ms
            hints = wire.AppendHints(
                is_speech=is_speech, duration_ms=duration_ms, audio_end_ms=self._audio_end_ms
            )
        return await self._tell(
            wire.AppendAudio(
                audio=pcm,
                format=audio.encoding,
                sample_rate_hz=audio.sample_rate_hz,
                video_frames=frames,
                hints=hints,
            )
        )

    async def stream_pcm(
        self,
        pcm: bytes,
        *,
        chunk_ms: float = 200,
        realtime: bool = True,
        is_speech: bool | None = None,
        video_frames: Sequence[str] = (),
        stacked_video_frames: Sequence[str] = (),
    ) -> int:
        """Append a recording in chunks and return how many there were.

        In real time a chunk is sent when its last sample has been spoken, as a microphone would; the schedule
        is fixed at the start, so that delays do not add up. See `plan_chunks` for the video frames.
        """
        begin_s = trio.current_time()
        count = 0
        chunks = plan_chunks(
            len(pcm),
            self.config.input_audio,
            chunk_ms=chunk_ms,
            video_frames=video_frames,
            stacked_video_frames=stacked_video_frames,
        )
        for chunk in chunks:
            if realtime:
                await trio.sleep_until(begin_s + chunk.due_ms / 1000)
            data = pcm[chunk.start : chunk.end]
            await self.append_audio(data, is_speech=is_speech, video_frames=chunk.frames)
            count += 1
        return count

    async def commit(self, final: bool = True, create_response: bool | None = None) -> str:
        """End the user's turn by hand.

        Args:
            final: no more sound of this turn follows.
            create_response: whether an answer is wanted; the session decides when `None`.
        """
        return await self._tell(wire.Commit(final=final, response_create=create_response))

    async def clear_input(self) -> str:
        """Drop the sound that has been appended but not answered."""
        return await self._tell(wire.ClearInput())

    async def cancel_input(self) -> str:
        """Drop input, and cancel what it set in motion; unlike `barge_in` also where the model cannot be
        interrupted."""
        return await self._tell(wire.CancelInput())

    # ------------------------------------------------------------------ answers

    async def create_response(self, **options: Any) -> str:
        """Ask for an answer; `options` are the fields of the `response` object (instructions, modalities,
        ...)."""
        message = wire.command_message(wire.CreateResponse())
        # Unread, so that an option that is none is the server's to refuse.
        return await self.send({**message, "response": options} if options else message)

    async def cancel_response(self, response_id: str | None = None) -> str:
        """Stop the answer that is being made, or the one named."""
        return await self._tell(wire.CancelResponse(response_id=response_id))

    async def barge_in(self) -> str:
        """Cut the assistant short: stop making and playing its answer, and drop the pending input."""
        return await self._tell(wire.BargeIn())

    async def clear_output(self, response_id: str | None = None) -> str:
        """Stop the sound of an answer, the current one or the one named, and keep the pending input."""
        return await self._tell(wire.ClearOutputAudio(response_id=response_id))

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
    ) -> str:
        """Say how much of an answer the user has heard. A client with a `playback` cursor does so by itself.

        Args:
            played_ms: length of what was played, from the answer's beginning; cut to whole ms.
            response_id: the answer; the server takes the current one otherwise.
            item_id: its item, instead of or with `response_id`.
            committed_ms: how much of that counts as said; `played_ms` when not given.
        """
        committed = played_ms if committed_ms is None else committed_ms
        return await self._tell(
            wire.AckPlayback(
                played_ms=int(played_ms),
                committed_ms=int(committed),
                response_id=response_id,
                item_id=item_id,
            )
        )

    # ------------------------------------------------------------------ the conversation

    async def create_item(
        self,
        text: str,
        *,
        role: wire.Role = "user",
        item_id: str | None = None,
        previous_item_id: str | None = None,
    ) -> str:
        """Add a written message to the conversation; `create_response` then asks for an answer to it.

        Args:
            text: of the message.
            role: who says it: `user`, `assistant` or `system`.
            item_id: of the new item; the server makes one up otherwise.
            previous_item_id: the item that it follows; `root` puts it in front of all, `None` behind all.
        """
        part = wire.OutputTextPart(text) if role == "assistant" else wire.InputTextPart(text)
        item = wire.MessageItem(id=item_id or "", role=role, content=(part,))
        return await self._tell(wire.CreateItem(item=item, previous_item_id=previous_item_id))

    async def send_function_output(
        self, call_id: str, output: str, *, item_id: str | None = None, previous_item_id: str | None = None
    ) -> str:
        """Give the model what a function that it called returned.

        `create_response` then lets it go on, unless the model goes on by itself.

        Args:
            call_id: of the call, as `FunctionCall.call_id` has it.
            output: the result as text, usually JSON.
            item_id, previous_item_id: as for `create_item`.
        """
        item = wire.FunctionCallOutputItem(id=item_id or "", call_id=call_id, output=output)
        return await self._tell(wire.CreateItem(item=item, previous_item_id=previous_item_id))

    async def retrieve_item(self, item_id: str) -> str:
        """Ask for an item as the server sees it; `conversation.item.retrieved` brings it."""
        return await self._tell(wire.RetrieveItem(item_id=item_id))

    async def delete_item(self, item_id: str) -> str:
        """Remove an item from the conversation."""
        return await self._tell(wire.DeleteItem(item_id=item_id))

    async def truncate_item(self, item_id: str, audio_end_ms: float, *, content_index: int = 0) -> str:
        """Cut an answer in the conversation to what was heard of it, its text with it.

        Args:
            item_id: of the answer.
            audio_end_ms: length of what was heard, from the answer's beginning; cut to whole ms.
            content_index: the part of the item that holds the sound.
        """
        return await self._tell(
            wire.TruncateItem(item_id=item_id, audio_end_ms=int(audio_end_ms), content_index=content_index)
        )

    async def append_text(self, text: str) -> str:
        """Append text to the input of a model that takes it while it listens; most models refuse it."""
        return await self._tell(wire.AppendText(text=text))

    # ------------------------------------------------------------------ the session

    async def update(self, **session: Any) -> str:
        """Change settings of the session; `session.updated` brings those in force, and `session_info` has
        them.

        Args:
            **session: fields of the `session` object as the wire names them (`instructions`, `voice`,
                `turn_detection`, `tools`, ...); others stay as they are.
        """
        return await self._tell(wire.UpdateSession(patch=session))

    async def signal_turn(self, event: str, **payload: Any) -> str:
        """Tell the session about a turn (`user_started`, `assistant_done`, ...) where the application keeps
        the turns; `turn.event` answers.

        Args:
            event: the signal. One that names a command is that command.
            **payload: what belongs to it.
        """
        return await self._tell(wire.SignalTurn(event=event, payload=payload))

    async def heartbeat(self) -> str:
        """Say that the client is there, which keeps the session; `session.heartbeat_ack` answers."""
        return await self._tell(wire.Heartbeat())


def _bare_base64(frame: str) -> str:
    return frame.partition(",")[2] if frame.startswith("data:") else frame
