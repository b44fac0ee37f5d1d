"""What is written for the duplex dialect can be read back, whatever event it is."""

from __future__ import annotations

import pytest

from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import DuplexEvent
from duplex_trio.testing.event_reader import read_event
from duplex_trio.testing.protocol_samples import sample_events


@pytest.mark.parametrize("event", sample_events(), ids=lambda event: event.type)
def test_an_event_is_read_back(event: DuplexEvent) -> None:
    """Class, id and every field; a sequence number beside them does not disturb."""
    for seq in (None, 7):
        text = render(event, Dialect.DUPLEX, server_event_seq=seq)
        assert text is not None
        found = read_event(text)
        assert type(found) is type(event)
        assert render(found, Dialect.DUPLEX, server_event_seq=seq) == text
