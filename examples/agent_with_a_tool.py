"""A voice agent in one program: it hears a recording, calls a function of yours, and speaks the result.

    python examples/agent_with_a_tool.py --ask "What is the weather in Paris?"

Nothing else has to run: the engine lives in here. With a real language model the calls are its own; the small
default one calls functions only now and then.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import trio

from duplex_trio.clients import (
    DuplexClientError,
    FunctionCall,
    InlineDuplexClient,
    PlaybackCursor,
    SessionConfig,
    first_error,
    write_pcm16_wav,
)
from duplex_trio.entrypoints.duplex_omni import DuplexOmni

WEATHER = {"Paris": "sunny, 24 degrees", "Oslo": "rain, 9 degrees", "Cairo": "clear, 31 degrees"}
TOOL: Mapping[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
CALLS_MAX = 4
"""A model that goes on calling is stopped."""


def get_weather(city: str) -> dict[str, Any]:
    """The function that the model may call."""
    found = WEATHER.get(city)
    return {"city": city, "weather": found} if found else {"error": f"no weather is known for {city}"}


def carry_out(call: FunctionCall) -> str:
    """Call it with what the model says, which may be anything; what is wrong is the model's to hear."""
    try:
        arguments = json.loads(call.arguments)
        jsonschema.validate(arguments, TOOL["parameters"])
    except (json.JSONDecodeError, jsonschema.ValidationError) as error:
        return json.dumps({"error": str(error).splitlines()[0]})
    return json.dumps(get_weather(**arguments))


async def main(args: argparse.Namespace) -> None:
    """Ask, call what is to be called, and listen."""
    config = SessionConfig(
        tools=[TOOL], instructions="You tell people the weather. Call get_weather; never guess."
    )
    print(f"Loading {args.deploy} ...")
    omni = DuplexOmni.from_deploy(args.deploy)
    async with (
        omni.running(),
        InlineDuplexClient(omni, config=config, playback=PlaybackCursor()) as client,
    ):
        responses = client.responses()
        await client.create_item(args.ask)
        await client.create_response()
        print("You:      ", args.ask)
        sound, calls = b"", 0
        async for response in responses:
            async for pcm in response.audio():
                sound += pcm
            await response.wait()
            if response.transcript.strip():
                print("Assistant:", response.transcript.strip())
            if not response.function_calls or calls == CALLS_MAX:
                break
            for call in response.function_calls:
                calls += 1
                result = carry_out(call)
                print(f"  {call.name}({call.arguments}) -> {result}")
                await client.send_function_output(call.call_id, result)
            await client.create_response()
        write_pcm16_wav(args.out, sound, client.config.output_audio.sample_rate_hz)
        print(f"{len(sound) // 48} ms of speech in {args.out}")


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="A voice agent that calls a function, in one program.")
    parser.add_argument("--ask", default="What is the weather in Paris?")
    parser.add_argument("--deploy", default="cascade_cpu", metavar="NAME|FILE", help="(cascade_cpu)")
    parser.add_argument("--out", type=Path, default=Path("agent.wav"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        trio.run(main, arguments())
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"agent_with_a_tool: {first_error(group)}")
