"""One answer while it comes, for who asked."""

from __future__ import annotations

from duplex_trio.engine.turn.live import LiveRequest
from duplex_trio.engine.turn.outputs import EndOutput, OmniOutput
from duplex_trio.protocol.refusal import RequestError


class OmniAnswer:
    """The outputs of one request, in order, as they are made.

    It is an asynchronous iterator; the last output is an `EndOutput`. Whoever reads slowly pauses this answer alone.

    Attributes:
        request_id: the request's.
    """

    def __init__(self, live: LiveRequest) -> None:
        self.request_id = live.request_id
        self._live = live
        self._over = False

    def __aiter__(self) -> OmniAnswer:
        return self

    async def __anext__(self) -> OmniOutput:
        """Wait for the next output. When this is cancelled, nothing is lost.

        Raises:
            RequestError: the answer ends without having come to its end; asked again, it is over.
        """
        if self._over:
            raise StopAsyncIteration
        async for output in self._live.outputs:
            return output
        self._over = True
        ending = self._live.ending
        if isinstance(ending, RequestError):
            raise ending
        assert isinstance(ending, EndOutput)
        return ending

    def abort(self) -> None:
        """End the answer now: what was made of it may still be read, and its end says `abort`. Never blocks."""
        self._live.abort()
