"""Push to talk: the user says when a turn begins and ends, so that no noise starts one.

duplex-trio serve                                              # in another terminal
python examples/push_to_talk.py                                # Enter to begin, Enter to end (pip install ".[mic]")
python examples/push_to_talk.py one.wav two.wav                # turns from recordings
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import trio

from duplex_trio.clients import (
    DuplexClient,
    DuplexClientError,
    PlaybackCursor,
    SessionConfig,
    first_error,
    write_pcm16_wav,
)
from duplex_trio.clients.files import encode_pcm, load_wav

RATE_HZ = 16_000


async def held(args: argparse.Namespace) -> AsyncIterator[bytes]:
    """What is said while the key is held, turn by turn, as pcm16 at `RATE_HZ`."""
    config = SessionConfig()
    if args.wav:
        for path in args.wav:
            yield encode_pcm(load_wav(path, RATE_HZ), config.input_audio)
        return
    import sounddevice  # the one thing in here that needs a device

    while True:
        await trio.to_thread.run_sync(input, "Enter to speak, Ctrl-D to end: ", abandon_on_cancel=True)
        said = bytearray()
        with sounddevice.RawInputStream(
            samplerate=RATE_HZ, channels=1, dtype="int16", callback=partial(keep, said)
        ):
            await trio.to_thread.run_sync(input, "Speaking; Enter to send: ", abandon_on_cancel=True)
        yield bytes(said)


def keep(said: bytearray, data: Any, *_: object) -> None:
    """Take a block from the device."""
    said += bytes(data)


async def main(args: argparse.Namespace) -> None:
    """One answer for each turn; a turn that begins interrupts the answer before it."""
    # Without turn detection the server answers when it is told to, and not before.
    config = SessionConfig(turn_detection=None)
    cursor = PlaybackCursor()
    async with DuplexClient(args.url, api_key=args.api_key, config=config, playback=cursor) as client:
        responses = client.responses()
        sound = bytearray()
        async for pcm in held(args):
            await client.barge_in()
            await client.stream_pcm(pcm, realtime=False)
            await client.commit(create_response=True)
            async for response in responses:
                if response.decision == "speak":
                    async for piece in response.audio():
                        sound += piece
                    await response.wait()
                    print("Assistant:", response.transcript.strip())
                    break
        write_pcm16_wav(args.out, bytes(sound), client.config.output_audio.sample_rate_hz)
        print(f"{len(sound) // 48} ms of speech in {args.out}")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Push to talk.")
    parser.add_argument("wav", nargs="*", help="recordings to say instead of the microphone")
    parser.add_argument("--out", type=Path, default=Path("answers.wav"))
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        trio.run(main, arguments())
    except* EOFError:
        pass
    except* ImportError as group:
        sys.exit(f"push_to_talk: {first_error(group)}: pip install 'duplex-trio[mic]', or name recordings")
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"push_to_talk: {first_error(group)}")
