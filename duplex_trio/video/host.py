"""The seam between one video and the engine that it is a guest of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import trio
from attrs import field, frozen

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.plugin.video.plugin import StageCaller, VideoModelPlugin


@frozen(kw_only=True)
class VideoFigures:
    """What one video was, told when it has ended. Times are seconds.

    Attributes:
        outcome: `done`, `stopped`, `aborted`, or the code of the error that ended it.
        chunks: chunks generated.
        frames: frames sent.
        payload_bytes: bytes of the binary messages.
        interactions: how many by outcome: `completed`, `superseded`, `interrupted`, `unfinished`, `failed`, and
            `refused` for those that were never admitted.
        render_s: spent in the model.
        encode_s: spent in the encoder.
        switch_s: of each interaction that started, from its arrival to the first payload of its first chunk.
    """

    outcome: str
    chunks: int = 0
    frames: int = 0
    payload_bytes: int = 0
    interactions: Mapping[str, int] = field(factory=dict)
    render_s: float = 0.0
    encode_s: float = 0.0
    switch_s: tuple[float, ...] = ()


class VideoSlot(ABC):
    """A place for one video; whoever holds it may generate."""

    stages: StageCaller

    @property
    @abstractmethod
    def draining(self) -> trio.Event:
        """Set when the video is to end now: it stops generating, says what is still to be said, closes with 1001."""

    @abstractmethod
    def began(self, so_far: Callable[[], VideoFigures]) -> None:
        """Tell that the video generates. Called once, if it comes to that.

        Args:
            so_far: what it is at any time until it has ended, on the Trio thread. Its numbers only grow; neither how it
                ends nor what becomes of its interactions is settled in it.
        """

    @abstractmethod
    def vacate(self) -> None:
        """Let somebody else have the place: nothing is generated any more, though the client is still there.

        Idempotent.
        """

    @abstractmethod
    def ended(self, figures: VideoFigures) -> None:
        """Tell how the video went. Called once, at the end of the block in which the slot is held."""


class VideoHost(ABC):
    """What a video is given by its engine.

    Attributes:
        plugin: the model, loaded.
        limits: of each video.
        model_name: the name under which the model is served.
        threads: threads that the engine's videos may keep busy: a generator and an encoder of prompts for each.
    """

    plugin: VideoModelPlugin
    limits: VideoSessionDeploy
    model_name: str
    threads: trio.CapacityLimiter

    @abstractmethod
    def slot(self, request_id: str) -> AbstractContextManager[VideoSlot]:
        """Hold a place while the block goes on.

        Raises:
            RequestRefused: entering it: there is none (`resource_exhausted`), or the server is on its way out
                (`server_shutdown`).
        """
