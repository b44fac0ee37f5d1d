"""`SyncDuplexClient`: a duplex session for programs that do not run on Trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.config import SessionConfig
from duplex_trio.clients.errors import DuplexSessionClosedError
from duplex_trio.clients.events import ServerEvent
from duplex_trio.clients.fanout import SUBSCRIBER_EVENTS_MAX
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.clients.sync.streams import SyncEventStream, SyncResponseStream, within
from duplex_trio.clients.sync.thread import ClientThread
from duplex_trio.clients.websocket import DuplexClient


@asynccontextmanager
async def _opened(client: DuplexClientBase) -> AsyncIterator[DuplexClientBase]:
    async with client:
        yield client


P = ParamSpec("P")
T = TypeVar("T")


def _sync(
    command: Callable[Concatenate[DuplexClientBase, P], Awaitable[T]],
) -> Callable[Concatenate[SyncDuplexClient, P], T]:
    """A method that waits for the one of the same name."""

    @wraps(command)
    def call(self: SyncDuplexClient, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return self.thread.call(partial(command, self.client, *arguments, **keywords))

    return call


class SyncDuplexClient:
    """A session with a server, in a thread of its own; every method waits for what it asks.

    ```python
    with SyncDuplexClient("ws://127.0.0.1:8765") as client:
        responses = client.responses()
        client.create_item("What is a good breakfast?")
        client.create_response()
        for response in responses:
            for pcm in response.audio():
                ...
            break
    ```

    The methods are those of `DuplexClient` with the same arguments, errors and results, so that its
    documentation holds; time-outs are told by `TimeoutError`. Several threads may use one client at once: one
    speaks with `stream_pcm` while another reads the answers. Ctrl-C ends what is waited for, and the session
    with its block.

    Args:
        url: of the server.
        **options: those of `DuplexClient`.

    Attributes:
        thread: carries the client.

    Raises:
        ValueError: as `DuplexClient`.
    """

    def __init__(self, url: str, **options: Any) -> None:
        client = DuplexClient(url, **options)
        self.thread = ClientThread(lambda: _opened(client))

    @classmethod
    def carrying(cls, opener: Callable[[], AbstractAsyncContextManager[DuplexClientBase]]) -> Self:
        """A client that is opened another way, such as one of an engine in the same program.

        ```python
        @asynccontextmanager
        async def local():
            omni = DuplexOmni.from_deploy("scripted")
            async with omni.running(), InlineDuplexClient(omni) as client:
                yield client

        with SyncDuplexClient.carrying(local) as client: ...
        ```

        Args:
            opener: makes the context manager that opens it; entered and left in the client's thread.
        """
        made = cls.__new__(cls)
        made.thread = ClientThread(opener)
        return made

    @property
    def client(self) -> DuplexClientBase:
        """What it stands for. It belongs to its thread: reading its attributes is all that others may do.

        Raises:
            RuntimeError: it was not opened.
        """
        return self.thread.client

    # ------------------------------------------------------------------ life

    def __enter__(self) -> Self:
        """Open the session; see `DuplexClientBase.__aenter__` for what it raises."""
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thread.stop(body_failed=error is not None)

    def close(self, timeout_s: float = 20.0) -> None:
        """End the session and wait until the server said so; see `DuplexClientBase.close`."""
        try:
            self.thread.call(partial(self.client.close, timeout_s))
        except DuplexSessionClosedError:
            return

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self.client.closed

    @property
    def connected(self) -> bool:
        """Whether there is a connection that carries the session now."""
        return self.client.connected

    @property
    def model(self) -> str | None:
        """The model asked for."""
        return self.client.model

    @property
    def config(self) -> SessionConfig:
        """The settings asked for."""
        return self.client.config

    @property
    def playback(self) -> PlaybackCursor | None:
        """What a listener has heard, if the client acknowledges that by itself. To be read only."""
        return self.client.playback

    @property
    def session_id(self) -> str | None:
        """The server's id of the session."""
        return self.client.session_id

    @property
    def session_info(self) -> Mapping[str, Any]:
        """The session object as the server last stated it."""
        return self.client.session_info

    # ------------------------------------------------------------------ events and answers

    def events(self, *, events_max: int = SUBSCRIBER_EVENTS_MAX) -> SyncEventStream:
        """Every event from now on. See `EventStream` for what happens to a subscriber that falls behind.

        Args:
            events_max: how many events this subscriber may be behind.
        """
        subscribe = partial(self.client.events, events_max=events_max)
        return SyncEventStream(self.thread, self.thread.call_now(subscribe))

    def __iter__(self) -> SyncEventStream:
        return self.events()

    def responses(self) -> SyncResponseStream:
        """The answers from the first call on, for a single consumer."""
        return SyncResponseStream(self.thread, self.thread.call_now(self.client.responses))

    def wait_for(self, *types: str, timeout_s: float | None = None) -> ServerEvent:
        """The next event of one of the types.

        Raises:
            TimeoutError: `timeout_s` is over.
            DuplexClientError: as `DuplexClientBase.wait_for`.
        """
        return within(self.thread, partial(self.client.wait_for, *types), timeout_s)

    # ------------------------------------------------------------------ commands

    append_audio = _sync(DuplexClientBase.append_audio)
    append_text = _sync(DuplexClientBase.append_text)
    stream_pcm = _sync(DuplexClientBase.stream_pcm)
    commit = _sync(DuplexClientBase.commit)
    clear_input = _sync(DuplexClientBase.clear_input)
    cancel_input = _sync(DuplexClientBase.cancel_input)
    cancel_response = _sync(DuplexClientBase.cancel_response)
    barge_in = _sync(DuplexClientBase.barge_in)
    clear_output = _sync(DuplexClientBase.clear_output)
    ack_playback = _sync(DuplexClientBase.ack_playback)
    create_item = _sync(DuplexClientBase.create_item)
    send_function_output = _sync(DuplexClientBase.send_function_output)
    retrieve_item = _sync(DuplexClientBase.retrieve_item)
    delete_item = _sync(DuplexClientBase.delete_item)
    truncate_item = _sync(DuplexClientBase.truncate_item)
    heartbeat = _sync(DuplexClientBase.heartbeat)
    send = _sync(DuplexClientBase.send)

    # These take any keywords, for which there is no type to hand on.

    def create_response(self, **options: Any) -> str:
        """Ask for an answer; see `DuplexCommands.create_response`."""
        return self.thread.call(partial(self.client.create_response, **options))

    def update(self, **session: Any) -> str:
        """Change settings of the session; see `DuplexCommands.update`."""
        return self.thread.call(partial(self.client.update, **session))

    def signal_turn(self, event: str, **payload: Any) -> str:
        """Tell the session about a turn; see `DuplexCommands.signal_turn`."""
        return self.thread.call(partial(self.client.signal_turn, event, **payload))
