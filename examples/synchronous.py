"""Ask a server from a plain script, without Trio: every call waits for what it asks.

duplex-trio serve                                    # in another terminal
python examples/synchronous.py "What is a good breakfast?" "And a good dinner?"
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from duplex_trio.clients import DuplexClientError, SyncDuplexClient, write_pcm16_wav


def main(args: argparse.Namespace) -> None:
    """One answer for each question, in one conversation."""
    sound = b""
    with SyncDuplexClient(args.url, api_key=args.api_key) as client:
        responses = client.responses()
        for question in args.question:
            print("You:      ", question)
            client.create_item(question)
            client.create_response()
            response = next(responses)
            for pcm in response.audio():
                sound += pcm
            client.ack_playback(len(sound) / 48, response_id=response.response_id)
            print("Assistant:", response.transcript.strip())
    write_pcm16_wav(args.out, sound, 24_000)
    print(f"{len(sound) // 48} ms of speech in {args.out}")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Ask a server from a plain script.")
    parser.add_argument("question", nargs="*", default=["What is a good breakfast?"])
    parser.add_argument("--out", type=Path, default=Path("answers.wav"))
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except (DuplexClientError, ValueError, OSError) as error:
        sys.exit(f"synchronous: {error}")
