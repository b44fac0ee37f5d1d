"""Say a recording to a server, and keep the answer.

duplex-trio serve                                   # in another terminal
python examples/one_turn.py question.wav --out answer.wav
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.resources import files
from pathlib import Path

import trio

from duplex_trio.clients import (
    DuplexClient,
    DuplexClientError,
    ResponseHandle,
    first_error,
    write_pcm16_wav,
)
from duplex_trio.clients.files import encode_pcm, load_wav

SAMPLE = str(files("duplex_trio.cli.talk") / "samples" / "1-breakfast.wav")
PAUSE_MS = 1000
"""Silence behind the recording, in which the server hears that the turn is over."""


async def main(args: argparse.Namespace) -> None:
    """Speak, listen, and write what was heard."""
    client = DuplexClient(args.url, api_key=args.api_key)
    audio = client.config.input_audio
    recording = encode_pcm(load_wav(args.wav, audio.sample_rate_hz), audio)
    async with client, trio.open_nursery() as nursery:
        events, responses = client.events(), client.responses()
        nursery.start_soon(client.stream_pcm, recording + bytes(audio.byte_count(PAUSE_MS)))
        heard = await events.wait_for("conversation.item.input_audio_transcription.completed")
        print("You:      ", heard.raw["transcript"])
        async for response in responses:
            if response.decision == "speak":
                sound = await hear(response)
                write_pcm16_wav(args.out, sound, response.sample_rate_hz or 24_000)
                print(f"{len(sound) // 48} ms of speech in {args.out}")
                break
        nursery.cancel_scope.cancel()


async def hear(response: ResponseHandle) -> bytes:
    """Take an answer to its end, showing its words as they come."""
    sound, shown = b"", 0
    print("Assistant: ", end="", flush=True)
    async for pcm in response.audio():
        sound += pcm
        print(response.transcript[shown:], end="", flush=True)
        shown = len(response.transcript)
    await response.wait()
    print(response.transcript[shown:])
    return sound


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Say a recording to a server, and keep the answer.")
    parser.add_argument("wav", nargs="?", default=SAMPLE, help="a WAV file of any rate")
    parser.add_argument("--out", type=Path, default=Path("answer.wav"))
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        trio.run(main, arguments())
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"one_turn: {first_error(group)}")
