"""What becomes of a fault in one of the model's hooks.

The request fails that it was called for, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.session.core import SessionCore


@contextmanager
def hook_faults(core: SessionCore) -> Iterator[None]:
    """Call a hook in here; its own refusals pass.

    Raises:
        RealtimeError: `runtime_data_plane_stream_failed`, when the hook broke.
    """
    try:
        yield
    except RealtimeError:
        raise
    except RequestRefused as refused:
        raise RealtimeError.of(refused) from refused
    except Exception as error:
        core.log.exception("model.hook_failed")
        raise RealtimeError(
            "runtime_data_plane_stream_failed", f"the model's hook failed: {error}"
        ) from error
