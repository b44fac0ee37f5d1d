"""Interrupt an answer, and see what of it was heard, and what the model remembers.

duplex-trio serve                          # in another terminal
python examples/barge_in.py --after 1.5
python examples/barge_in.py --inline       # the same without a server: the engine runs in here
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from duplex_trio.clients import (
    DuplexClient,
    DuplexClientBase,
    DuplexClientError,
    InlineDuplexClient,
    PlaybackCursor,
    first_error,
)
from duplex_trio.entrypoints.duplex_omni import DuplexOmni


@asynccontextmanager
async def opened(args: argparse.Namespace, cursor: PlaybackCursor) -> AsyncIterator[DuplexClientBase]:
    """A session with a server, or with an engine in this program: from here on they are the same."""
    if args.inline:
        print(f"Loading {args.deploy} ...")
        omni = DuplexOmni.from_deploy(args.deploy)
        async with omni.running(), InlineDuplexClient(omni, playback=cursor) as client:
            yield client
    else:
        async with DuplexClient(args.url, api_key=args.api_key, playback=cursor) as client:
            yield client


async def main(args: argparse.Namespace) -> None:
    """Ask, listen for a while, cut in."""
    # With a cursor the client acknowledges what a listener has heard, as they hear it.
    cursor = PlaybackCursor()
    async with opened(args, cursor) as client:
        events, responses = client.events(), client.responses()
        await client.create_item(args.question)
        await client.create_response()
        async for response in responses:
            assert response.response_id is not None
            while cursor.played_ms(response.response_id, trio.current_time()) < args.after * 1000:
                await trio.sleep(0.02)
                if response.finished:
                    break
            cut_s = trio.current_time()
            await client.barge_in()
            await events.wait_for("output_audio_buffer.cleared")
            silent_ms = (trio.current_time() - cut_s) * 1000
            done = await response.wait()
            break
        else:
            return
        print(f"made:       {response.transcript.strip()}")
        print(f"heard:      {cursor.played_ms(response.response_id, cut_s):.0f} ms of it")
        print(f"remembered: {remembered(done.raw) or '(nothing)'}")
        print(
            f"status:     {response.status}, epoch {done.duplex.get('epoch')}, told after {silent_ms:.0f} ms"
        )


def remembered(done: Mapping[str, Any]) -> str:
    """What the conversation keeps of the answer, out of its `response.done`."""
    parts = [part for item in done["response"]["output"] for part in item.get("content") or ()]
    return " ".join(part.get("transcript") or part.get("text") or "" for part in parts).strip()


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Interrupt an answer, and see what of it was heard.")
    parser.add_argument("question", nargs="?", default="Tell me a long story about the sea.")
    parser.add_argument("--after", type=float, default=1.0, metavar="SECONDS", help="of the answer (1.0)")
    parser.add_argument("--inline", action="store_true", help="run the engine in this program")
    parser.add_argument("--deploy", default="cascade_cpu", help="what it runs (cascade_cpu)")
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        trio.run(main, arguments())
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"barge_in: {first_error(group)}")
