"""The proof: conversations over a network that breaks all the time are the same as over one that does not.

A real server, a real client library, real sockets, and between them a proxy that breaks every connection after so
many bytes. What the server wrote into each session's journal must be what its client was told, event by event; what
the client sent must be what the session took, command by command; and what was said must be what is said in the
same conversation over an unbroken connection.
"""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
import pytest
import structlog
import trio
from attrs import Factory, define

from duplex_trio.clients import DuplexClient, DuplexConnectionError, ReconnectPolicy, SessionConfig
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.serving.options import ServeOptions, Transport
from duplex_trio.serving.run import run_server
from duplex_trio.session.dispatch import SessionDispatch
from duplex_trio.session.state.journal import EventJournal
from duplex_trio.testing.chaos import ChaosPlan, ChaosProxy
from duplex_trio.testing.chaos import talk as steps
from duplex_trio.testing.chaos.talk import Talk

CONVERSATIONS = 10
PATIENCE_S = 240
REPLIES = {
    "short": "alpha bravo",
    "middle": "delta echo foxtrot",
    "long": " ".join(f"word{number}" for number in range(40)),
}
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
CONFIG = SessionConfig(
    overlap_policy="barge_in_on_speech", playback_commit_policy="commit_all_on_done", tools=[TOOL]
)
POLICY = ReconnectPolicy(max_attempts=10_000, backoff_s=(0.005, 0.05), attempt_timeout_s=3.0)
SPOKEN = (steps.speak, steps.write, steps.write_twice, steps.cancel, steps.interrupt)
CALLED = (steps.call, steps.speak, steps.cancel, steps.write_twice)
OF_THE_CONNECTION = ("session.heartbeat", "session.close")


@define(eq=False)
class Records:
    """What the server did, by session."""

    journals: dict[int, list[dict[str, Any]]] = Factory(lambda: defaultdict(list))
    commands: dict[str, list[tuple[str, str | None]]] = Factory(lambda: defaultdict(list))

    def journal_of(self, session_id: str) -> list[dict[str, Any]]:
        (journal,) = (events for events in self.journals.values() if events[0]["session"]["id"] == session_id)
        return journal


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Records:
    found = Records()
    record, submit = EventJournal.record, SessionDispatch.submit

    def recording(self: EventJournal, text: bytes, now_s: float) -> bool:
        found.journals[id(self)].append(orjson.loads(text))
        return record(self, text, now_s)

    def submitting(self: SessionDispatch, command: Any) -> None:
        if command.type not in OF_THE_CONNECTION:
            found.commands[self._core.state.session_id].append((command.type, command.event_id))
        submit(self, command)

    monkeypatch.setattr(EventJournal, "record", recording)
    monkeypatch.setattr(SessionDispatch, "submit", submitting)
    return found


async def converse(url: str, plan: Sequence[steps.StepFunction], done: Callable[[], bool]) -> Talk:
    """Hold a conversation: the steps of the plan over and over, at least once, until it is done."""
    while True:
        client = DuplexClient(url, config=CONFIG, reconnect=POLICY, heartbeat_interval_s=0.5)
        talk = Talk(client)
        try:
            async with client:
                await talk.until("conversation.created")
                count = 0
                while count < len(plan) or not done():
                    await talk.play(plan[count % len(plan)])
                    count += 1
        except DuplexConnectionError:
            if client.session_id is not None:
                raise
            # To open a session is tried once, and that may be cut too.
            continue
        await talk.listen_to_the_end()
        return talk


def check(talk: Talk, whole: Talk, records: Records) -> None:
    """Nothing of a conversation is lost or doubled, in neither direction, and it is like one that was not cut."""
    assert talk.client.session_id is not None
    journal = records.journal_of(talk.client.session_id)
    told = [event for event in talk.events if "server_event_seq" in event]
    assert [event["server_event_seq"] for event in told] == list(range(1, len(journal) + 1))
    assert told == journal
    assert records.commands[talk.client.session_id] == talk.sent
    expected = {step.name: step for step in whole.steps()}
    for step in talk.steps():
        assert step.kinds == expected[step.name].kinds, step.name
        for said, wanted in zip(step.said, expected[step.name].said, strict=True):
            assert said.is_like(wanted), step.name


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("transport", "pipeline", "plan"),
    [("native", ScriptedPipeline, SPOKEN), ("asgi", TurnsPipeline, CALLED)],
    ids=["native, spoken", "asgi, with tools"],
)
async def test_two_hundred_and_fifty_cuts(
    nursery: trio.Nursery,
    records: Records,
    transport: Transport,
    pipeline: Callable[..., Pipeline],
    plan: Sequence[steps.StepFunction],
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    script = Script(otherwise=lambda text: REPLIES.get(text.split()[-1], "golf hotel india"), word_ms=250)
    omni = partial(DuplexOmni, pipeline(script=script), max_sessions=100, warm_up=False)
    address = await nursery.start(run_server, omni, ServeOptions(port=0, ws=transport))
    chaos = ChaosPlan(seed=secrets.randbits(32), cuts_max=250)
    print("seed", chaos.seed)
    port = await nursery.start(ChaosProxy(address.port, chaos).run)
    cut: list[Talk] = []

    async def hold(number: int) -> None:
        turned = [*plan[number % len(plan) :], *plan[: number % len(plan)]]
        cut.append(await converse(f"ws://127.0.0.1:{port}", turned, lambda: chaos.over))

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as many:
            for number in range(CONVERSATIONS):
                many.start_soon(hold, number)
            whole = await converse(address.ws_url, plan, lambda: True)
    assert chaos.cuts >= 250
    for talk in (whole, *cut):
        check(talk, whole, records)
    nursery.cancel_scope.cancel()
