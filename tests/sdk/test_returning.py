"""Clients that come back by themselves when their connection breaks."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("client", ["openai-returning", "npm-openai-returning"])
def test_a_client_whose_connection_broke_is_let_in_again(recording: Any) -> None:
    """It takes the break for one worth a new try, is greeted with a session at once, and talks on."""
    assert recording.returncode == 0, recording.story
    assert len(recording.connections) == 2, recording.story
    assert recording.facts["first"] == {"answer": "You said: hello there", "breaks": []}, recording.story
    assert recording.facts["second"] == {"answer": "You said: are you still there", "breaks": [1006]}, (
        recording
    )
    sessions = [event["session"]["id"] for event in recording.events if event["type"] == "session.created"]
    assert len(set(sessions)) == 2
    assert not [event for event in recording.events if event["type"] == "error"]
