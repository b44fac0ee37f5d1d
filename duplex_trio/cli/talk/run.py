"""The tasks of a conversation.

```
talk                            run_talk
├─ server                       only without --url: the whole server, in this process
└─ converse                     a DuplexClient, which acknowledges what has been heard, and below it
   ├─ speak                     the microphone's frames, one every 20 ms; its end ends the others
   ├─ listen                    events to timeline, recording and loudspeaker
   ├─ show                      the view
   └─ interrupt                 only with a live microphone: Ctrl-C ends the conversation
```
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from duplex_trio.cli.compose import DEFAULT_DEPLOY, make_omni, plan_serving, read_deploy
from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.talk.conversation import (
    Conversation,
    Microphone,
    ScenarioMicrophone,
    TalkOptions,
)
from duplex_trio.cli.talk.devices import SoundDevices, find_devices, open_devices
from duplex_trio.cli.talk.loudspeaker import Loudspeaker
from duplex_trio.cli.talk.microphone import LiveMicrophone
from duplex_trio.cli.talk.report import TalkResult
from duplex_trio.cli.talk.scenario import Scenario
from duplex_trio.cli.talk.timeline import Timeline
from duplex_trio.cli.talk.transcript import ASSISTANT, YOU, lines
from duplex_trio.cli.talk.view import LEVELS_SHOWN, View
from duplex_trio.clients import DuplexClient, PlaybackCursor, ServerEvent, SessionConfig
from duplex_trio.clients.events import ConnectionLost, ConnectionResumed
from duplex_trio.clients.transport import Connect, open_stream

_SHOW_EVERY_S = 0.1
_ECHO_ADVICE = {
    False: "Headphones keep the assistant from hearing itself; without them, --half-duplex does.",
    True: "The microphone is off while the assistant speaks, so that you cannot interrupt it.",
}


async def run_talk(options: TalkOptions, view: View, *, connect: Connect = open_stream) -> TalkResult:
    """Hold one conversation and give the record of it. `connect` is for `DuplexClient`.

    Raises:
        CommandError, ModelReferenceError: what is needed is not there.
        DuplexClientError: the server cannot be reached, refuses, or goes away; also in a group.
    """
    devices = None if options.utterances else find_devices(options.input_device, options.output_device)
    async with trio.open_nursery() as nursery:
        url = options.url
        if url is None:
            url = await _start_server(nursery, options, view)
        result = await _converse(url, options, view, connect, devices)
        nursery.cancel_scope.cancel()
    return result


async def _start_server(nursery: trio.Nursery, options: TalkOptions, view: View) -> str:
    # Serving loads the engine's side of the package, which a conversation with a server elsewhere does not
    # need.
    from duplex_trio.serving.options import ServeOptions
    from duplex_trio.serving.run import run_server

    view.waiting("Looking for the models")
    plan = plan_serving(read_deploy(options.deploy or DEFAULT_DEPLOY, models=options.models))
    if plan.session_mode != "duplex":
        raise CommandError(
            f"--deploy {options.deploy}: a conversation needs sessions, and this deployment has none "
            f"(session_mode: {plan.session_mode})"
        )
    omni = await trio.to_thread.run_sync(make_omni, plan)
    view.waiting("Loading the models")
    address = await nursery.start(
        partial(run_server, lambda: omni, ServeOptions(port=0, tune_process=True)), name="server"
    )
    return str(address.ws_url)


async def _converse(
    url: str, options: TalkOptions, view: View, connect: Connect, devices: SoundDevices | None
) -> TalkResult:
    view.waiting(f"Connecting to {url}")
    config = SessionConfig(instructions=options.instructions, voice=options.voice)
    # The recording is laid out by it at the end.
    cursor = PlaybackCursor(answers_max=math.inf)
    async with DuplexClient(
        url, config=config, api_key=options.api_key, connect=connect, playback=cursor
    ) as client:
        timeline = Timeline(cursor)
        if devices is None:
            scenario = Scenario(
                options.utterances,
                barge_in_after_s=options.barge_in_after_s,
                patience_s=options.patience_s,
            )
            conversation = Conversation(client, timeline, partial(_tell_of_the_connection, view))
            microphone: Microphone = ScenarioMicrophone(scenario, timeline)
            await _run_conversation(conversation, microphone, view)
        else:
            speaker = Loudspeaker(rate_hz=devices.sink.rate_hz)
            live = LiveMicrophone(
                timeline,
                rate_hz=devices.source.rate_hz,
                muted=lambda: options.half_duplex and speaker.playing,
            )
            with open_devices(devices, live, speaker) as latency_s:
                cursor.latency_s = latency_s
                tell = partial(_tell_of_the_connection, view)
                conversation = Conversation(client, timeline, tell, speaker.observe)
                microphone = live
                view.note(f"You are heard by {devices.source.name} and hear {devices.sink.name}.")
                view.note(f"Speak; Ctrl-C ends the conversation. {_ECHO_ADVICE[options.half_duplex]}")
                async with _until_interrupted(live):
                    await _run_conversation(conversation, live, view)
                _tell_of_the_devices(view, live, speaker)
        return TalkResult(
            url=url,
            model=str(client.session_info.get("model") or "the model"),
            begin_s=conversation.begin_s,
            exchanges=conversation.exchanges(microphone.said()),
            sound=conversation.recording.sound(timeline.cursor),
            errors=timeline.errors,
        )


async def _run_conversation(conversation: Conversation, microphone: Microphone, view: View) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(conversation.listen, name="listen")
        nursery.start_soon(_show, conversation, view, name="show")
        await conversation.speak(microphone)
        nursery.cancel_scope.cancel()
    _draw(conversation, view)


@asynccontextmanager
async def _until_interrupted(microphone: LiveMicrophone) -> AsyncIterator[None]:
    async def watch() -> None:
        async for _signal in received:
            microphone.stop()

    with trio.open_signal_receiver(signal.SIGINT) as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, name="interrupt")
            yield
            nursery.cancel_scope.cancel()


def _tell_of_the_devices(view: View, microphone: LiveMicrophone, speaker: Loudspeaker) -> None:
    if microphone.lost:
        view.note("The microphone is gone, which ended the conversation. Others: duplex-trio talk --devices")
    if microphone.dropped_s or microphone.overruns:
        view.note(
            f"This machine was too busy to hear everything: {microphone.dropped_s:.1f} s of sound were dropped here, "
            f"{microphone.overruns} times by the device."
        )
    if speaker.underruns:
        view.note(f"The loudspeaker ran dry {speaker.underruns} times.")


def _tell_of_the_connection(view: View, event: ServerEvent) -> None:
    match event:
        case ConnectionLost():
            view.note(f"Connection lost, trying to get it back: {event.message}.")
        case ConnectionResumed():
            view.note("The connection is back, and nothing was missed.")


async def _show(conversation: Conversation, view: View) -> None:
    while True:
        _draw(conversation, view)
        await trio.sleep(_SHOW_EVERY_S)


def _draw(conversation: Conversation, view: View) -> None:
    now_s = trio.current_time()
    user, assistant = conversation.recording.loudness(
        conversation.timeline.cursor, now_s, LEVELS_SHOWN, _SHOW_EVERY_S
    )
    view.show(lines(conversation.timeline, now_s), [(YOU, user), (ASSISTANT, assistant)])
