"""What is served, and how far the server is in its life: loading, ready, draining."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from attrs import define, field

if TYPE_CHECKING:
    import trio

    from duplex_trio.entrypoints.omni_base import AsyncOmniBase
    from duplex_trio.entrypoints.video_omni import VideoOmni
    from duplex_trio.serving.service import Service
    from duplex_trio.serving.video import VideoEndpoint

Phase = Literal["loading", "ready", "draining"]


@define(kw_only=True, eq=False)
class Deployment:
    """What the routes know of the engine behind them, which may not be there yet.

    Attributes:
        served_name: the name to serve the model under; None takes the model's own.
        max_model_len: tokens the language model takes; None when the deployment does not say.
        created_s: when the server started, in seconds since 1970.
        omni: the engine, from when it is built; one of video where nothing else is served.
        service: what it offers, from when it is loaded and warm.
        video_omni: the engine of video, from when it is built; None if none is served.
        video: what it offers, from when everything is loaded and warm.
        draining: the server is on its way out and takes nothing new.
        undecided: around waits for clients that have not said yet what they want; cancelled by the drain.
    """

    served_name: str | None = None
    max_model_len: int | None = None
    created_s: int = field(factory=lambda: int(time.time()))
    omni: AsyncOmniBase | None = None
    service: Service | None = None
    video_omni: VideoOmni | None = None
    video: VideoEndpoint | None = None
    draining: bool = False
    undecided: set[trio.CancelScope] = field(factory=set)
    # Not Trio's clock: an application may be made before there is a loop.
    _started_s: float = field(factory=time.monotonic, init=False)

    @property
    def phase(self) -> Phase:
        """How far the server is."""
        if self.draining:
            return "draining"
        return "loading" if self.service is None else "ready"

    @property
    def model_name(self) -> str | None:
        """The name under which the model is served; None as long as nobody knows it."""
        return self.served_name or (self.omni.model_name if self.omni is not None else None)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of all models that are served."""
        video = () if self.video_omni is None else (self.video_omni.model_name,)
        return tuple(dict.fromkeys(name for name in (self.model_name, *video) if name is not None))

    @property
    def uptime_s(self) -> float:
        """Seconds since the server started."""
        return time.monotonic() - self._started_s

    def open(self, service: Service, video: VideoEndpoint | None = None) -> None:
        """The engines are ready: from here on they are served."""
        self.omni, self.service = service.omni, service
        if video is not None:
            self.video_omni, self.video = video.omni, video

    def begin_drain(self) -> None:
        """Take nothing new from here on, and let nobody wait for it."""
        self.draining = True
        for scope in self.undecided:
            scope.cancel()
