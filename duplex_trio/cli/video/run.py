"""The tasks of a clip.

```
video                        run_clip
├─ server                    only without --url: the whole server, in this process
└─ record                    a RealtimeVideoClient, and below it
   ├─ steer                  prompts, when generation comes to them
   ├─ play                   reports of playback, which hold generation until a prompt is ready
   ├─ show                   the view
   ├─ interrupt              Ctrl-C: the first ends the clip, the second everything
   └─ (write)                payloads to the file; its end ends the others
```
"""

from __future__ import annotations

import signal
from functools import partial
from typing import cast

import trio

from duplex_trio.cli.video.file import ClipFile
from duplex_trio.cli.video.recording import ClipOptions, Recording
from duplex_trio.cli.video.result import ClipResult
from duplex_trio.cli.video.steering import lead_of
from duplex_trio.cli.video.view import View
from duplex_trio.clients.transport import Connect, open_stream
from duplex_trio.clients.video import RealtimeVideoClient
from duplex_trio.protocol.video import VideoFormat

DEFAULT_MODEL = "scene"
_SHOW_EVERY_S = 0.1


async def run_clip(
    options: ClipOptions, file: ClipFile, view: View, *, connect: Connect = open_stream
) -> ClipResult:
    """Make one clip and tell what became of it. `connect` is for the client.

    Raises:
        CommandError, ModelReferenceError: what is needed is not there.
        VideoClientError: the server cannot be reached, refuses, fails, or goes away; also in a group.
        KeyboardInterrupt: Ctrl-C before the clip began, or once more while it ended; also in a group.
    """
    async with trio.open_nursery() as nursery:
        url, model = options.url, options.model
        if url is None:
            url, model = await _start_server(nursery, model or DEFAULT_MODEL, view), None
        result = await _record(url, model, options, file, view, connect)
        nursery.cancel_scope.cancel()
    return result


async def _start_server(nursery: trio.Nursery, model: str, view: View) -> str:
    # Serving loads the engine's side of the package, which a clip from a server elsewhere does not need.
    from duplex_trio.cli.compose import make_omni, plan_serving
    from duplex_trio.cli.video.serving import read_video_deploy
    from duplex_trio.serving.options import ServeOptions
    from duplex_trio.serving.run import run_server

    view.waiting("Looking for the models")
    plan = plan_serving(read_video_deploy(model))
    omni = await trio.to_thread.run_sync(make_omni, plan)
    view.waiting("Loading the models")
    address = await nursery.start(
        partial(run_server, lambda: omni, ServeOptions(port=0, tune_process=True)), name="server"
    )
    return str(address.http_url)


async def _record(
    url: str, model: str | None, options: ClipOptions, file: ClipFile, view: View, connect: Connect
) -> ClipResult:
    view.waiting(f"Connecting to {url}")
    width, height = options.size
    async with RealtimeVideoClient(
        url,
        prompt=options.prompt,
        model=model,
        width=width,
        height=height,
        fps=options.fps,
        seconds=options.seconds,
        seed=options.seed,
        format=cast(VideoFormat, options.format),
        streaming_buffer_seconds=lead_of(options.turns),
        api_key=options.api_key,
        connect=connect,
    ) as client:
        recording = Recording(client, file, options, view.show)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recording.steer, name="steer")
            nursery.start_soon(recording.play, name="play")
            nursery.start_soon(_show, recording, view, name="show")
            await nursery.start(_interrupt, recording, nursery, name="interrupt")
            await recording.write()
            nursery.cancel_scope.cancel()
        return recording.result()


async def _show(recording: Recording, view: View) -> None:
    while True:
        view.show(recording.progress())
        await trio.sleep(_SHOW_EVERY_S)


async def _interrupt(
    recording: Recording, nursery: trio.Nursery, *, task_status: trio.TaskStatus[None]
) -> None:
    with trio.open_signal_receiver(signal.SIGINT) as received:
        task_status.started()
        async for _signal in received:
            if recording.stopping:
                raise KeyboardInterrupt
            await recording.stop()
