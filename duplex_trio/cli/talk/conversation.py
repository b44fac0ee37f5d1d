"""One conversation while it goes on: what each of its tasks does. `run` says which tasks there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import trio
from attrs import field, frozen

from duplex_trio.cli.talk.latency import Exchange, answer_progress, exchanges
from duplex_trio.cli.talk.recording import Recording
from duplex_trio.cli.talk.scenario import FRAME_MS, AnswerProgress, Said, Scenario, Utterance
from duplex_trio.cli.talk.timeline import Timeline
from duplex_trio.clients import DuplexClient, EventStream
from duplex_trio.clients.events import ServerEvent
from duplex_trio.clients.files import encode_pcm
from duplex_trio.protocol.duplex.audio import Pcm


@frozen(kw_only=True)
class TalkOptions:
    """What to talk about and with whom.

    Attributes:
        utterances: recordings to say; none means a live microphone.
        barge_in_after_s, patience_s: see `Scenario`.
        url: of a server; without one a server is started.
        deploy: name or file of the deployment that it serves; the default one without.
        models: references by stage name for it.
        instructions, voice: of the session.
        api_key: of the server at `url`.
        input_device, output_device: of a live conversation: number or part of the name; the system's own without.
        half_duplex: no sound is sent while the assistant is heard.
    """

    utterances: Sequence[Utterance] = ()
    barge_in_after_s: float | None = 1.0
    patience_s: float = 60.0
    url: str | None = None
    deploy: str | None = None
    models: Mapping[str, str | None] = field(factory=dict)
    instructions: str | None = None
    voice: str | None = None
    api_key: str | None = field(default=None, repr=False)
    input_device: str | None = None
    output_device: str | None = None
    half_duplex: bool = False


class Microphone(ABC):
    """Where the user's sound comes from."""

    @abstractmethod
    async def next_frame(self) -> Pcm | None:
        """Wait for the next 20 ms at 16 kHz; `None` when there is nothing more to be said."""

    @abstractmethod
    def said(self) -> list[Said]:
        """The utterances so far, on Trio's clock."""


class Conversation:
    """A client in conversation, and the record of it.

    Attributes:
        timeline: what the server said and what of it was heard.
        recording: the sound of both sides.
        begin_s: when the microphone opened, on Trio's clock.
    """

    def __init__(
        self, client: DuplexClient, timeline: Timeline, *observers: Callable[[ServerEvent], None]
    ) -> None:
        self.client = client
        self.timeline = timeline
        self.begin_s = trio.current_time()
        self.recording = Recording(self.begin_s)
        self._observers: Sequence[Callable[[ServerEvent], None]] = (
            timeline.observe,
            self.recording.observe,
            *observers,
        )
        self._events: EventStream = client.events()

    async def speak(self, microphone: Microphone) -> None:
        """Send the microphone's sound until it ends."""
        audio = self.client.config.input_audio
        while (frame := await microphone.next_frame()) is not None:
            self.recording.microphone(frame)
            await self.client.append_audio(encode_pcm(frame, audio))

    async def listen(self) -> None:
        """Account for everything the server says.

        Raises:
            DuplexClientError: the session ended before the conversation did.
        """
        async for event in self._events:
            for observe in self._observers:
                observe(event)

    def exchanges(self, said: list[Said]) -> list[Exchange]:
        """Every utterance with its answer and figures so far."""
        return exchanges(self.timeline, said, trio.current_time())


class ScenarioMicrophone(Microphone):
    """A scenario in real time: each frame is handed out when its last sample has been spoken."""

    def __init__(self, scenario: Scenario, timeline: Timeline) -> None:
        self._scenario = scenario
        self._timeline = timeline
        self._begin_s = trio.current_time()
        self._frames = 0

    async def next_frame(self) -> Pcm | None:
        """Wait until the next frame has been spoken; `None` when the scenario is over."""
        position_s = self._frames * FRAME_MS / 1000
        frame = self._scenario.next_frame(position_s, self._progress())
        self._frames += 1
        await trio.sleep_until(self._begin_s + self._frames * FRAME_MS / 1000)
        return None if self._scenario.done else frame

    def said(self) -> list[Said]:
        """The utterances so far."""
        return [_shifted(said, self._begin_s) for said in self._scenario.said]

    def _progress(self) -> AnswerProgress:
        progress = answer_progress(self._timeline, self.said(), trio.current_time())
        return AnswerProgress(
            first_heard_s=_since(self._begin_s, progress.first_heard_s),
            over_s=_since(self._begin_s, progress.over_s),
        )


def _shifted(said: Said, by_s: float) -> Said:
    return Said(
        said.name,
        said.start_s + by_s,
        said.speech_start_s + by_s,
        said.speech_end_s + by_s,
        said.end_s + by_s,
    )


def _since(begin_s: float, time_s: float | None) -> float | None:
    return None if time_s is None else time_s - begin_s
