"""Push to talk: the user says when a turn begins and ends, so that no noise starts one.

    duplex-trio serve                                 # in another terminal
    python examples/push_to_talk.py                   # Enter begins a turn, Enter ends it (pip install ".[mic]")
    python examples/push_to_talk.py one.wav two.wav   # turns from recordings

A turn that begins cuts the answer that is being heard.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import trio

from duplex_trio.clients import (
    DuplexClient,
    DuplexClientError,
    PlaybackCursor,
    SessionConfig,
    encode_pcm,
    first_error,
    load_wav,
    write_pcm16_wav,
)

RATE_HZ = 16_000
ANSWER_RATE_HZ = 24_000
# Without turn detection the server answers when it is told to, and not before.
CONFIG = SessionConfig(turn_detection=None)


class Answers:
    """What has been answered, and the loudspeaker that plays it; `callback` runs on the device's thread."""

    def __init__(self) -> None:
        self.sound = bytearray()
        self.count = 0
        self._waiting = bytearray()
        self._changed = trio.lowlevel.ParkingLot()

    async def listen(self, client: DuplexClient) -> None:
        """Take one answer after the other."""
        async for response in client.responses():
            async for piece in response.audio():  # ends at once where it is cut
                self.sound += piece
                self._waiting += piece
            if response.cut:
                self._waiting.clear()
            if response.decision == "speak":
                print("Assistant:", response.transcript.strip())
            self.count += 1
            self._changed.unpark_all()

    async def until(self, count: int) -> None:
        """Wait until so many turns have been answered, be it by silence."""
        while self.count < count:
            await self._changed.park()

    def callback(self, out: Any, *_: object) -> None:
        """Fill one block of the device, or silence where there is nothing to be heard."""
        part = bytes(self._waiting[: len(out)])
        del self._waiting[: len(part)]
        out[:] = part.ljust(len(out), b"\0")


def loudspeaker(answers: Answers) -> AbstractContextManager[object]:
    """Plays the answers while it is open."""
    import sounddevice  # the only thing in here that needs devices

    stream: AbstractContextManager[object] = sounddevice.RawOutputStream(
        samplerate=ANSWER_RATE_HZ, channels=1, dtype="int16", callback=answers.callback
    )
    return stream


async def held(interrupt: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    """What is said between one Enter and the next, turn by turn, as pcm16 at `RATE_HZ`, until Ctrl-D."""
    import sounddevice

    while True:
        await trio.to_thread.run_sync(input, "Enter to speak, Ctrl-D to end: ", abandon_on_cancel=True)
        await interrupt()
        said = bytearray()
        callback = partial(keep, said)
        with sounddevice.RawInputStream(samplerate=RATE_HZ, channels=1, dtype="int16", callback=callback):
            await trio.to_thread.run_sync(input, "Speaking; Enter to send: ", abandon_on_cancel=True)
        yield bytes(said)


def keep(said: bytearray, data: Any, *_: object) -> None:
    """Take a block from the device."""
    said += bytes(data)


async def main(args: argparse.Namespace) -> None:
    """Send the turns, hear the answers."""
    answers = Answers()
    recordings = [encode_pcm(load_wav(path, RATE_HZ), CONFIG.input_audio) for path in args.wav]
    with nullcontext() if recordings else loudspeaker(answers):
        async with (
            DuplexClient(args.url, api_key=args.api_key, config=CONFIG, playback=PlaybackCursor()) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(answers.listen, client)
            try:
                for number, pcm in enumerate(recordings, 1):
                    await client.barge_in()  # as the key does
                    await say(client, pcm)
                    await answers.until(number)
                if not recordings:
                    async for pcm in held(client.barge_in):
                        await say(client, pcm)
            except EOFError:
                print()
            nursery.cancel_scope.cancel()
    write_pcm16_wav(args.out, bytes(answers.sound), ANSWER_RATE_HZ)
    print(f"{len(answers.sound) // 48} ms of speech in {args.out}")


async def say(client: DuplexClient, pcm: bytes) -> None:
    """One turn: its sound, and the word that it is over and an answer is wanted."""
    await client.stream_pcm(pcm, realtime=False)
    await client.commit(create_response=True)


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
    except* ImportError as group:
        sys.exit(f"push_to_talk: {first_error(group)}: pip install 'duplex-trio[mic]', or name recordings")
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"push_to_talk: {first_error(group)}")
