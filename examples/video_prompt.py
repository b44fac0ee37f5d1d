"""Begin a video, change what it shows while it is made, and write it to a file that plays meanwhile.

duplex-trio serve --deploy scene                      # in another terminal
python examples/video_prompt.py clip.mp4
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from duplex_trio.clients import RealtimeVideoClient
from duplex_trio.clients.video import InteractionRefusedError

URL = os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765")


async def steer(video: RealtimeVideoClient) -> None:
    """Ask for something else, and tell when it shows."""
    try:
        event_id = await video.interact("the street at night, lit by warm lanterns", transition_chunks=2)
    except InteractionRefusedError as refused:
        print("The video goes on as it was:", refused)
        return
    interaction = await video.outcome(event_id)
    print("Lanterns:", interaction.state, interaction.error or f"at frame {interaction.completed_frame}")


async def main(path: Path) -> None:
    """Watch 6 seconds, and steer after the first chunk."""
    async with (
        RealtimeVideoClient(URL, prompt="a snowy street in the morning", seconds=6) as video,
        trio.open_nursery() as nursery,
        await trio.open_file(path, "wb") as file,
    ):
        print(f"{video.started.config['model']} makes {video.started.mime_type}")
        async for chunk in video:
            await file.write(chunk.payload)
            if chunk.index == 0:
                nursery.start_soon(steer, video)
    print(f"{video.received.frames} frames in {path}")


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1] if len(sys.argv) > 1 else "clip.mp4"))
