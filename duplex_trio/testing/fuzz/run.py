"""Plays programs of messages: an engine, its application and a client in a nursery of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trio
import trio.testing
from attrs import field, frozen

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app
from duplex_trio.testing.fuzz.judge import check_session_streams
from duplex_trio.testing.fuzz.program import Speak, Stage, Step
from duplex_trio.testing.fuzz.scene import FuzzClient
from duplex_trio.testing.invariants import check_engine, check_engine_at_rest, check_session
from duplex_trio.testing.run import scripted_omni

LIMITS = SessionLimits(
    pending_input_bytes_max=4 << 20, unit_timeout_s=4.0, cleanup_timeout_s=0.5, disconnect_grace_s=4.0
)
SETTLE_S = 30.0
ANSWER = "alpha bravo charlie delta echo foxtrot golf hotel. India juliet kilo lima."


@frozen(eq=False)
class Model:
    """A scripted model, and how to find out that it answers."""

    make: Callable[[], Pipeline]
    spoken_to: bool
    """It answers sound only."""
    patch: Mapping[str, Any] = field(factory=dict)


MODELS: Mapping[str, Model] = {
    "scripted": Model(lambda: ScriptedPipeline(script=Script(replies={"hello": ANSWER})), spoken_to=False),
    "turns": Model(lambda: TurnsPipeline(script=Script(replies={"hello": ANSWER})), spoken_to=False),
    "native": Model(lambda: NativePipeline(answer="one two three"), spoken_to=True),
    "lockstep": Model(LockstepPipeline, spoken_to=True),
}


async def play(program: Sequence[Step], model: Model, dialect: DialectName) -> FuzzClient:
    """Play a program, and check everything that can be.

    Raises:
        AssertionError: an answer, an invariant or a rule of streams is broken, or something was left behind.
    """
    async with scripted_omni(pipeline=model.make(), limits=LIMITS) as omni, trio.open_nursery() as nursery:
        app = make_app(omni, ServeOptions())
        client = FuzzClient(app, nursery.start_soon, dialect)
        stage = Stage(client)

        def check() -> None:
            check_engine(omni)
            for handle in list(omni.duplex_engine.manager._sessions.values()):
                check_session(handle, trio.current_time())

        await client.connect()
        for step in program:
            await step.play(stage)
            await stage.settle()
            check()
        await _answers_again(stage, model)
        check()
        client.leave()
        await trio.sleep(SETTLE_S)
        assert all(connection.over.is_set() for connection in client.connections), (
            "a connection was not let go of"
        )
        check_engine_at_rest(omni)
    if dialect == "duplex":
        check_session_streams(client.received)
    return client


async def _answers_again(stage: Stage, model: Model) -> None:
    """Whatever was done, the session answers, or a new one if it was ended."""
    client = stage.client
    await trio.sleep(SETTLE_S)
    if client.connection is None:
        await client.connect()
        await trio.testing.wait_all_tasks_blocked()
    for _ in range(3):
        begin = len(client.received)
        client.send(type="response.cancel")
        client.send(type="input_audio_buffer.clear")
        client.send(type="session.update", session={"input_audio_format": "pcm16", "sample_rate_hz": 24000,
            "turn_detection": {"type": "server_vad", "create_response": True} if model.spoken_to else None,
            "tool_choice": "auto", "tools": [], "max_output_tokens": "inf"})  # fmt: skip
        if model.spoken_to:
            await Speak(3.0, True).play(stage)
            await Speak(12.0, False).play(stage)
        else:
            text = {"type": "input_text", "text": "hello"}
            client.send(
                type="conversation.item.create", item={"type": "message", "role": "user", "content": [text]}
            )
            client.send(type="response.create")
            await client.wait_for("response.done", 1, after=begin)
        kinds = [event["type"] for event in client.since(begin)]
        done = [
            event["response"]["status"] for event in client.since(begin) if event["type"] == "response.done"
        ]
        spoke = sum(kind.endswith(".delta") for kind in kinds)
        if "completed" in done or "incomplete" in done or (model.make is LockstepPipeline and spoke):
            return
        await trio.sleep(10.0)
    raise AssertionError(f"the session does not answer any more: {[*client.since(begin)][-8:]}")
