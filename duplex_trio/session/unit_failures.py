"""What becomes of a session of a model that owns its turns when the one request that it lives in fails.

The model's memory of the conversation is gone with the request, so the session ends. A stage that died is the
exception: it took everybody's memory along, it will be made anew, and then the next unit begins a request that is told
the conversation so far, as after a cancellation. Until then what is said is lost, and the client has been told so.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore, SessionEnd
from duplex_trio.session.state.response import Response

CLEANUP_REASON = "request_cleanup"
"""Why a session ends whose one request has failed."""


class UnitFailures:
    """The failures of one session.

    Attributes:
        stage_down: whether the stage that takes its units died and has not taken another one since.
    """

    def __init__(self, core: SessionCore, control: SessionControl) -> None:
        self._core = core
        self._control = control
        self.stage_down = False

    def failed(self, error: RealtimeError, spoken: Response | None) -> None:
        """A request failed: tell the client, and end the session unless it may go on.

        Args:
            error: why.
            spoken: the response that the model was making.
        """
        core = self._core
        core.log.warning("units.failed", code=error.code, message=error.message)
        if error.code == "engine_dead":
            told, self.stage_down = self.stage_down, True
            self._tell(error, spoken, told=told)
        else:
            self._tell(error, core.state.active, told=False)
            self._control.end(SessionEnd(CLEANUP_REASON, code=1011, expired=True))

    def _tell(self, error: RealtimeError, response: Response | None, *, told: bool) -> None:
        if response is not None:
            self._control.fail_response(response, error)
        elif not told:
            self._core.refuse(error)
