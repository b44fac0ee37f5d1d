"""What a model says of a request or of a prompt that it does not take, and how that comes to the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from trio.testing import MockClock

from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest
from duplex_trio.protocol.video import SessionStart
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import watching
from duplex_trio.video.words import WORDS_CHARS_MAX


class RefusingSession(VideoModelSession):
    """Refuses all prompts but one, in the words of a test."""

    def __init__(self, words: str, taken: str, request: VideoRequest) -> None:
        self._words = words
        self._taken = taken
        self._shape = (request.height, request.width, 3)

    def encode_interaction(self, event: OmniInteractionEvent) -> Any:
        if event["prompt"] != self._taken:
            raise NotImplementedError(self._words)
        return 0.0

    def render_chunk(self, index: int, state: Any, *, n_frames: int, **_: Any) -> Iterator[Frame]:
        return (np.zeros(self._shape, np.uint8) for _ in range(n_frames))


class RefusingPlugin(VideoModelPlugin):
    """Of such sessions."""

    def __init__(self, words: str, taken: str) -> None:
        self._words = words
        self._taken = taken

    @property
    def capabilities(self) -> VideoCapabilities:
        return VideoCapabilities(default_width=64, default_height=64)

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        return RefusingSession(self._words, self._taken, request)


WORDS = [
    pytest.param("no key \ud800 here", "no key \\ud800 here", id="half a surrogate pair"),
    pytest.param("x" * 5_000, "x" * WORDS_CHARS_MAX, id="many words"),
    pytest.param("\udfff" * 5_000, ("\\udfff" * 5_000)[:WORDS_CHARS_MAX], id="many halves"),
]


@pytest.mark.parametrize(("words", "told"), [*WORDS, ("", "The prompt could not be encoded.")])
async def test_of_a_prompt(autojump_clock: MockClock, words: str, told: str) -> None:
    host = WatchedHost(RefusingPlugin(words, taken="red"))
    async with watching(host, SessionStart(prompt="red", num_frames=90)) as video:
        await video.say("a", "blue", 0)
        await video.end()
    assert [(fault.code, fault.event_id, fault.message) for fault in video.errors] == [
        ("interaction_failed", "a", told)
    ]
    assert video.shown[-1].startswith("done")


@pytest.mark.parametrize(("words", "told"), [*WORDS, ("", "The model cannot do this.")])
async def test_of_the_request(autojump_clock: MockClock, words: str, told: str) -> None:
    host = WatchedHost(RefusingPlugin(words, taken="nothing"))
    async with watching(host, SessionStart(prompt="red")) as video:
        await video.end()
    assert [(fault.code, fault.param, fault.message) for fault in video.errors] == [
        ("invalid_start", "prompt", told)
    ]
    assert video.peer.closed == (1008, "invalid_start")
