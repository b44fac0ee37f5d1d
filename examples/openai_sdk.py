"""OpenAI's own Python SDK against this server: a spoken turn, and one that calls a function.

    duplex-trio serve                                        # in another terminal
    pip install "openai[realtime]"
    python examples/openai_sdk.py question.wav

Nothing in here knows which server it is talking to, but for the address.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import wave
from importlib.resources import files

import openai
from openai.types.realtime import RealtimeFunctionToolParam

from duplex_trio.clients.files import load_wav
from duplex_trio.protocol.duplex.audio import pcm16_bytes

SAMPLE = str(files("duplex_trio.cli.talk") / "samples" / "1-breakfast.wav")
RATE_HZ = 24_000
TOOL: RealtimeFunctionToolParam = {
    "type": "function",
    "name": "set_timer",
    "description": "Set a timer.",
    "parameters": {
        "type": "object",
        "properties": {"minutes": {"type": "number"}},
        "required": ["minutes"],
    },
}


def main(args: argparse.Namespace) -> None:
    """Speak one turn, write another."""
    pcm16 = pcm16_bytes(load_wav(args.wav, RATE_HZ))
    base_url = f"{args.url.rstrip('/').removesuffix('/v1')}/v1"
    client = openai.OpenAI(api_key=args.api_key or "none", websocket_base_url=base_url)
    with client.realtime.connect(model="any") as connection:
        connection.session.update(session={"type": "realtime", "tools": [TOOL], "tool_choice": "auto"})
        for start in range(0, len(pcm16), RATE_HZ // 5):
            sound = base64.b64encode(pcm16[start : start + RATE_HZ // 5]).decode()
            connection.input_audio_buffer.append(audio=sound)
        # The server hears the end of speech by itself; silence is what it hears it by.
        connection.input_audio_buffer.append(audio=base64.b64encode(bytes(2 * RATE_HZ)).decode())
        take(connection, args.out)
        connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Set a timer for five minutes."}],
            }
        )
        connection.response.create()
        while take(connection, None):
            connection.response.create()


def take(connection: openai.resources.realtime.realtime.RealtimeConnection, out: str | None) -> bool:
    """Take one answer; whether the model called a function, which has been answered then."""
    sound, called = b"", False
    for event in connection:
        match event.type:
            case "conversation.item.input_audio_transcription.completed":
                print("You:      ", event.transcript)
            case "response.output_audio.delta":
                sound += base64.b64decode(event.delta)
            case "response.output_audio_transcript.done":
                print("Assistant:", event.transcript.strip())
            case "response.function_call_arguments.done":
                called = True
                print(f"  {event.name}({event.arguments})")
                connection.conversation.item.create(
                    item={
                        "type": "function_call_output",
                        "call_id": event.call_id or "",
                        "output": json.dumps({"set": True}),
                    }
                )
            case "error":
                raise ValueError(f"{event.error.code}: {event.error.message}")
            case "response.done":
                break
    if out is not None:
        with wave.open(out, "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
            file.writeframes(sound)
        print(f"{len(sound) // 48} ms of speech in {out}")
    return called


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="OpenAI's SDK against this server.")
    parser.add_argument("wav", nargs="?", default=SAMPLE, help="a WAV file of any rate")
    parser.add_argument("--out", default="answer.wav")
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except (openai.OpenAIError, ValueError, OSError) as error:
        sys.exit(f"openai_sdk: {error}")
