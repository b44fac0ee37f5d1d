"""A telephone call: G.711 at 8 kHz both ways, in frames of 20 ms, as a gateway would carry it.

    duplex-trio serve                                                # in another terminal
    python examples/telephone.py caller.wav --out callee.wav         # or caller.ulaw, as a PBX records it

A gateway has a clock: every 20 ms one frame comes from the line and one goes to it. What the server sends waits in the
play-out queue, which is emptied when the caller speaks over it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from importlib.resources import files
from pathlib import Path

import trio
from attrs import Factory, define

from duplex_trio.clients import (
    AudioFormat,
    DuplexClient,
    DuplexClientError,
    PlaybackCursor,
    SessionConfig,
    first_error,
    write_pcm16_wav,
)
from duplex_trio.clients.events import AudioDelta, OutputAudioCleared, ResponseDone, ServerEvent
from duplex_trio.clients.files import load_wav
from duplex_trio.protocol.duplex import audio as sound

SAMPLE = str(files("duplex_trio.cli.talk") / "samples" / "1-breakfast.wav")
RATE_HZ = 8_000
FRAME_BYTES = 160
"""20 ms of G.711, which has one byte for each sample."""
SILENCE = b"\xff" * FRAME_BYTES
LINE = AudioFormat("g711_ulaw", RATE_HZ)
G711 = sound.AudioFormat("g711_ulaw", RATE_HZ, "g711_ulaw")


@define
class Playout:
    """The side of the gateway that the caller hears."""

    frames: deque[bytes] = Factory(deque)
    heard: list[bytes] = Factory(list)
    cleared: int = 0
    _rest: bytes = b""

    def observe(self, event: ServerEvent) -> None:
        """Queue sound, or drop what is queued."""
        match event:
            case AudioDelta():
                new = self._rest + event.audio
                whole = len(new) - len(new) % FRAME_BYTES
                self.frames.extend(new[at : at + FRAME_BYTES] for at in range(0, whole, FRAME_BYTES))
                self._rest = new[whole:]
            case ResponseDone() if event.status == "completed" and self._rest:
                self.frames.append(self._rest.ljust(FRAME_BYTES, b"\xff"))
                self._rest = b""
            case OutputAudioCleared() | ResponseDone(status="cancelled"):
                self.cleared += len(self.frames)
                self.frames.clear()
                self._rest = b""

    def next(self) -> bytes:
        """The frame for the line, silence where there is none."""
        frame = self.frames.popleft() if self.frames else SILENCE
        self.heard.append(frame)
        return frame


async def main(args: argparse.Namespace) -> None:
    """Carry a call until the caller has said everything and heard the answer."""
    said = frames_of(args.caller)
    config = SessionConfig(input_audio=LINE, output_audio=LINE)
    playout = Playout()
    async with (
        DuplexClient(args.url, api_key=args.api_key, config=config, playback=PlaybackCursor()) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(listen, client, playout)
        begin_s, quiet, number = trio.current_time(), 0, 0
        while number < len(said) or quiet < args.hang_up * 50:
            await client.append_audio(said[number] if number < len(said) else SILENCE)
            number += 1
            spoken = playout.next()
            quiet = quiet + 1 if spoken is SILENCE and number > len(said) else 0
            await trio.sleep_until(begin_s + number * 0.02)
        nursery.cancel_scope.cancel()
    write_pcm16_wav(args.out, pcm16_of(b"".join(playout.heard)), RATE_HZ)
    print(f"{number * 20} ms on the line, {playout.cleared * 20} ms cut by the caller, heard in {args.out}")


async def listen(client: DuplexClient, playout: Playout) -> None:
    """Take what the server says."""
    async for event in client.events():
        playout.observe(event)
        if event.type.endswith(("input_audio_transcription.completed", "output_audio_transcript.done")):
            print("Caller:   " if "input" in event.type else "Assistant:", event.raw["transcript"].strip())


def frames_of(path: str) -> list[bytes]:
    """A recording as frames for the line: raw G.711, or any WAV file."""
    if path.endswith(".ulaw"):
        said = Path(path).read_bytes()
    else:
        encoder = sound.AudioOutputEncoder(G711, RATE_HZ)
        said = encoder.feed(load_wav(path, RATE_HZ)) + encoder.flush()
    starts = range(0, len(said), FRAME_BYTES)
    return [said[at : at + FRAME_BYTES].ljust(FRAME_BYTES, b"\xff") for at in starts]


def pcm16_of(ulaw: bytes) -> bytes:
    """G.711 as samples, for people to listen to."""
    return sound.pcm16_bytes(sound.AudioInputDecoder(G711, RATE_HZ).feed(ulaw))


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="A telephone call: G.711 at 8 kHz both ways.")
    parser.add_argument("caller", nargs="?", default=SAMPLE, help="a .wav file of any rate, or raw .ulaw")
    parser.add_argument("--out", type=Path, default=Path("callee.wav"), help="what the caller heard")
    parser.add_argument("--hang-up", type=float, default=3.0, metavar="SECONDS", help="of silence (3)")
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        trio.run(main, arguments())
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"telephone: {first_error(group)}")
