"""One turn before the first client comes: what is said to a model, by what it takes, and how its answer is
known.

A model that owns its turns hears two units of silence. One that answers turns is greeted in writing, or hears
a tone if it answers speech only. Where pictures are required there is one beside the sound; where a voice
needs a recording the session is one in writing, for there is none yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import trio

from duplex_trio.engine import Attachment
from duplex_trio.entrypoints.omni_base import WarmUpError
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.protocol.duplex import (
    AppendAudio,
    Commit,
    CreateItem,
    CreateResponse,
    DuplexCommand,
    DuplexEvent,
    ErrorEvent,
    InputTextPart,
    MessageItem,
    ResponseCreateOptions,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
)
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.protocol.pictures import grey_png

WARM_UP_TOKENS = 16
TOO_SMALL = "; a limit of the deployment is too small for a single turn (docs/limits.md)"
DEFAULT_PCM_RATE_HZ = 24_000
"""Rate of pcm16 in a session that declares nothing."""
TONE_HZ, TONE_S = 220, 0.4
PICTURE_WIDTH, PICTURE_HEIGHT = 640, 480


class WarmUpAttachment(Attachment):
    """Waits for the first thing that shows whether the model works: an answer, that it listens, or a refusal."""

    def __init__(self) -> None:
        self._send_sign, self._receive_sign = trio.open_memory_channel[DuplexEvent](1)

    async def send(self, event: DuplexEvent) -> None:
        """Keep the first sign; it is enough."""
        await trio.lowlevel.checkpoint()
        if isinstance(event, ErrorEvent | ResponseDone | ResponseListen | ResponseOutputAudioDelta):
            with suppress(trio.WouldBlock):
                self._send_sign.send_nowait(event)

    async def close(self, code: int, reason: str) -> None:
        """No sign comes any more."""
        await trio.lowlevel.checkpoint()
        self._send_sign.close()

    async def wait(self, timeout_s: float) -> None:
        """Wait until the model has shown that it works.

        Raises:
            WarmUpError: it failed, refused, or gave no sign in time.
        """
        try:
            with trio.fail_after(timeout_s):
                sign = await self._receive_sign.receive()
        except (trio.TooSlowError, trio.EndOfChannel) as error:
            raise WarmUpError("the model did not answer the warm-up turn") from error
        if isinstance(sign, ErrorEvent):
            advice = TOO_SMALL if sign.error.type == "rate_limit_error" else ""
            raise WarmUpError(f"the warm-up turn failed: {sign.error.message}{advice}")
        if isinstance(sign, ResponseDone) and sign.response.status == "failed":
            details = sign.response.status_details
            fault = details.error if details is not None else None
            cause = "unknown" if fault is None else fault.message
            advice = TOO_SMALL if fault is not None and fault.type == "rate_limit_error" else ""
            raise WarmUpError(f"the warm-up turn failed: {cause}{advice}")


def warm_up_session(plugin: DuplexModelPlugin) -> Mapping[str, Any]:
    """The session object to open with."""
    patch: dict[str, Any] = {"turn_detection": None}
    if plugin.requires_ref_audio:
        patch["output_modalities"] = ["text"]
    return patch


def warm_up_commands(plugin: DuplexModelPlugin, able: DuplexCapabilities) -> Sequence[DuplexCommand]:
    """What to say to the model; nothing to one that only answers what a detector finds to be speech."""
    frames = (grey_png(PICTURE_WIDTH, PICTURE_HEIGHT),) if "video" in able.required_input_modalities else ()
    if isinstance(plugin, ResumableModelPlugin):
        silence_s = 2 * plugin.unit_samples / plugin.input_sample_rate_hz
        return [
            AppendAudio(audio=bytes(int(silence_s * DEFAULT_PCM_RATE_HZ) * 2), video_frames=frames),
        ]
    if able.supports_text_only_turn:
        # The answer is cut as soon as it is heard: a person waits for it.
        options = ResponseCreateOptions(max_output_tokens=WARM_UP_TOKENS)
        greeting = MessageItem(role="user", content=(InputTextPart("Hello!"),))
        return [CreateItem(item=greeting), CreateResponse(options=options)]
    if not able.supports_client_commit:
        return []
    hears = "audio" in able.required_input_modalities | able.optional_input_modalities
    append = AppendAudio(audio=_tone() if hears else b"", video_frames=frames)
    return [append, Commit(response_create=True)]


def _tone() -> bytes:
    time_s = np.arange(int(TONE_S * DEFAULT_PCM_RATE_HZ), dtype=np.float32) / DEFAULT_PCM_RATE_HZ
    return pcm16_bytes((0.3 * np.sin(2 * np.pi * TONE_HZ * time_s)).astype(np.float32))
