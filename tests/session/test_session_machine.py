"""Whatever a client sends, however the stages fail, in any order: a session keeps its invariants.

Hypothesis makes programs (see `duplex_trio.testing.program`), each is played on a clock of its own, and the
shortest one that breaks something is printed as it can be pasted into `test_programs_that_once_broke`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
import trio
from attrs import frozen
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    AppendHints,
    AppendText,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    FunctionCallItem,
    FunctionCallOutputItem,
    Heartbeat,
    InputAudioPart,
    InputTextPart,
    ItemReference,
    MessageItem,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputTextDelta,
    SignalTurn,
    UpdateSession,
)
from duplex_trio.testing import Talker
from duplex_trio.testing.kept_logs import Logs
from duplex_trio.testing.program import (
    Ack,
    AckEvents,
    Append,
    Break,
    Cancel,
    Close,
    Delete,
    Fail,
    Flush,
    Heal,
    Kill,
    Leave,
    Program,
    Retrieve,
    Return,
    Send,
    Slow,
    Stall,
    Step,
    Stick,
    Talk,
    Truncate,
    Turn,
    Unstick,
    Wait,
    Write,
    play,
)

LIMITS = SessionLimits(pending_input_bytes_max=1 << 20, unit_timeout_s=4.0, cleanup_timeout_s=0.5)
TIGHT = attrs.evolve(
    LIMITS,
    pending_commands_max=2,
    pending_turns_max=1,
    pending_input_bytes_max=100_000,
    speech_s_max=1.0,
    conversation_items_max=5,
    history_messages_max=2,
    units_waiting_max=1,
    units_unanswered_max=1,
    silence_units_max=2,
    media_ms_max=100.0,
    media_bytes_max=5000,
    ended_responses_max=1,
    disconnect_grace_s=2.0,
)
"""Everything is full soon."""

# ------------------------------------------------------------------ what may happen

IDS = st.sampled_from(["a", "b", "c", ""])
PLACES = st.sampled_from([None, "a", "b", "root", "nowhere"])
SECONDS = st.sampled_from([0.0, 0.001, 0.02, 0.1, 0.3, 0.3, 1.0, 1.0, 3.0, 8.0])
MILLISECONDS = st.integers(1, 3000)
POSITIONS_MS = st.sampled_from([0, 1, 100, 350, 1000, 5000, 10**9])
BACK = st.sampled_from([0, 0, 0, 1, 2])
PLACE = st.sampled_from([-1, -1, -2, 0, 1, 9])
SOUND = base64.b64encode(bytes(9600)).decode()

PATCHES: list[dict[str, Any]] = [
    {"instructions": "Be brief."},
    {"turn_detection": None},
    {"turn_detection": {"type": "server_vad", "interrupt_response": False}},
    {"turn_detection": {"type": "server_vad", "create_response": False}},
    {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000, "silence_duration_ms": 200}},
    {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}},
    {"turn_detection": {"type": "psychic_vad"}},
    {"overlap_policy": "by_duration", "overlap_barge_in_ms": 500},
    {"input_audio_format": "g711_ulaw"},
    {"input_audio_format": "mp3"},
    {"output_audio_format": "g711_alaw"},
    {"modalities": ["text"]},
    {"voice": "another"},
    {"overlap_policy": "listen_only"},
    {"overlap_policy": "barge_in_on_speech"},
    {"extra_body": {"knob": 1}},
    {"initial_user_text": "good morning"},
    {"tools": [{"type": "function", "name": "look_up", "parameters": {"type": "object"}}]},
]
HINTS: list[dict[str, Any]] = [
    {"overlap_action": "barge_in"},
    {"overlap_action": "listen"},
    {"overlap_action": "drop"},
    {"force_barge_in": True},
    {"force_listen": True},
    {"is_speech": False},
    {"transcript": "yes"},
    {"transcript": "stop that", "is_speech": True, "duration_ms": 2000.0},
]
OPTIONS = [
    ResponseCreateOptions(),
    ResponseCreateOptions(conversation="none"),
    ResponseCreateOptions(output_modalities=("text",)),
    ResponseCreateOptions(max_output_tokens=2),
    ResponseCreateOptions(speed=9.0),
    ResponseCreateOptions(input=(ItemReference(id="a"),)),
    ResponseCreateOptions(instructions="Shout."),
]


def texts() -> st.SearchStrategy[MessageItem]:
    return st.builds(
        lambda item_id, role: MessageItem(id=item_id, role=role, content=(InputTextPart("words"),)),
        IDS,
        st.sampled_from(["user", "system"]),
    )


ITEMS = st.one_of(
    texts(),
    st.builds(
        lambda item_id: MessageItem(id=item_id, role="user", content=(InputAudioPart(audio=SOUND),)), IDS
    ),
    st.builds(lambda call: FunctionCallItem(id="", call_id=call, name="f", arguments="{}"), IDS),
    st.builds(lambda call: FunctionCallOutputItem(id="", call_id=call, output="1"), IDS),
)
COMMANDS = st.one_of(
    st.builds(CreateItem, item=ITEMS, previous_item_id=PLACES),
    st.builds(CreateResponse, options=st.sampled_from(OPTIONS)),
    st.builds(
        Commit, response_create=st.sampled_from([None, True, False]), is_speech=st.sampled_from([None, False])
    ),
    st.builds(UpdateSession, patch=st.sampled_from(PATCHES)),
    st.sampled_from(
        [
            CancelResponse(),
            BargeIn(),
            CancelInput(),
            ClearInput(),
            ClearOutputAudio(),
            Heartbeat(),
            AppendText(text="x"),
            AppendAudio(),
            AppendAudio(audio=bytes(333), format="g711_ulaw"),
            AppendAudio(audio=b"\xff" * 400, format="pcm_f32le", sample_rate_hz=16_000),
            AppendAudio(audio=bytes(801), sample_rate_hz=48_000),
            AppendAudio(audio=bytes(4800), video_frames=(bytes(3000), bytes(5000))),
            AppendAudio(video_frames=(bytes(400_000),)),
        ]
    ),
    st.builds(
        SignalTurn,
        event=st.sampled_from(
            ["user_started", "assistant_done", "user_committed", "playback_ack", "barge_in"]
        ),
    ),
    st.builds(
        AppendAudio,
        audio=st.sampled_from([bytes(24_000), b"\x00\x20\x00\xe0" * 12_000]),
        hints=st.builds(
            AppendHints,
            is_speech=st.sampled_from([None, True, False]),
            overlap_action=st.sampled_from([None, "listen", "ack", "drop", "barge_in"]),
            force_listen=st.booleans(),
            force_barge_in=st.booleans(),
            transcript=st.sampled_from([None, "yes", "wait"]),
        ),
    ),
    st.builds(AckPlayback, played_ms=POSITIONS_MS),
)
TROUBLE = st.one_of(
    st.builds(Slow, st.integers(0, 3), st.sampled_from([0.0, 0.5, 2.0])),
    st.builds(Stick, st.integers(0, 3)),
    st.builds(Kill, st.integers(0, 3)),
    st.builds(Fail, st.integers(0, 2)),
)
WEIGHTED: list[tuple[int, st.SearchStrategy[Step]]] = [
    (4, st.builds(Turn, st.sampled_from([0.3, 1.0]))),
    (4, st.builds(Write, st.sampled_from(["hello", "tell me everything", "look_up"]))),
    (6, st.builds(Wait, SECONDS)),
    (3, st.builds(Talk, st.sampled_from([0.1, 0.4, 1.0]), st.booleans())),
    (3, st.builds(Append, MILLISECONDS, st.booleans())),
    (2, st.builds(Append, MILLISECONDS, st.booleans(), st.sampled_from(HINTS))),
    (6, st.builds(Send, COMMANDS)),
    (2, st.builds(Ack, BACK, POSITIONS_MS)),
    (1, st.builds(Truncate, PLACE, POSITIONS_MS)),
    (1, st.builds(Delete, PLACE)),
    (1, st.builds(Retrieve, PLACE)),
    (1, st.builds(Cancel, BACK)),
    (1, st.builds(Flush, BACK)),
    (1, st.builds(AckEvents, st.sampled_from([0, 1, 5]))),
    (1, TROUBLE),
    (1, st.sampled_from([Unstick(), Heal()])),
    (2, st.sampled_from([Leave(), Return(), Return(), Return(), Break(), Stall()])),
]
STEPS = st.sampled_from([kind for weight, kind in WEIGHTED for _ in range(weight)]).flatmap(lambda kind: kind)
ENDS: list[Step | None] = [Stall(), Break(), Leave(), Close(), Send(CloseSession())]


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Some steps, and in half of all programs an end with a little behind it."""
    some = st.lists(STEPS, max_size=12)  # of a longer one hypothesis would make five on average as well
    steps = [*draw(some), *draw(some), *draw(some)]
    end = draw(st.sampled_from([None] * len(ENDS) + ENDS))
    return steps if end is None else [*steps, end, *draw(st.lists(STEPS, max_size=4))]


@st.composite
def deadly_programs(draw: st.DrawFn) -> list[Step]:
    """Steps with a runtime that dies between any two of them."""
    kills = st.builds(Kill, st.integers(0, 3))
    steps: list[Step] = []
    for step in draw(st.lists(STEPS, min_size=1, max_size=12)):
        steps += [step, draw(kills), draw(st.builds(Wait, SECONDS))]
    return steps


# ------------------------------------------------------------------ models


async def answers_in_writing(talker: Talker) -> None:
    """Asked, it answers; what is still under way may cut the first answer, but not one after another."""
    for _ in range(3):
        count = len(talker.heard.of(ResponseDone))
        talker.write("are you there")
        done = await talker.heard.nth(ResponseDone, count + 1)
        if done.response.status in ("completed", "incomplete"):
            return
        await trio.sleep(10.0)
    raise AssertionError("the session does not answer any more")


async def answers_in_its_turn(talker: Talker) -> None:
    """Spoken to, it answers when the user falls silent."""
    count = len(talker.heard.of(ResponseDone))
    await talker.speak(3.0)
    await talker.pause(12.0)
    statuses = [done.response.status for done in talker.heard.of(ResponseDone)[count:]]
    assert "completed" in statuses, f"the session does not answer any more: {statuses}"


async def answers_at_once(talker: Talker) -> None:
    """It speaks as long as it is spoken to; one that was told to write writes a word a second."""

    def said() -> int:
        return len(talker.heard.of(ResponseOutputAudioDelta)) + len(talker.heard.of(ResponseOutputTextDelta))

    count = said()
    await talker.speak(2.0)
    assert said() > count


@frozen(eq=False)
class Shape:
    """A kind of model."""

    make: Callable[[], Pipeline]
    answers: Callable[[Talker], Any]
    patch: Mapping[str, Any] = attrs.field(factory=dict)


ANSWER = "alpha bravo charlie delta echo foxtrot golf hotel. India juliet kilo lima."
SHAPES: dict[str, Shape] = {
    "cascade": Shape(
        lambda: ScriptedPipeline(script=Script(replies={"tell me everything": ANSWER * 4})),
        answers_in_writing,
    ),
    "native": Shape(
        lambda: NativePipeline(answer="one two three"),
        answers_in_its_turn,
        {"turn_detection": {"type": "server_vad"}},
    ),
    "lockstep": Shape(LockstepPipeline, answers_at_once),
    "turns": Shape(
        lambda: TurnsPipeline(script=Script(replies={"tell me everything": ANSWER * 4})), answers_in_writing
    ),
    "ahead": Shape(
        lambda: TurnsPipeline(script=Script(otherwise=lambda _: ANSWER)),
        answers_in_writing,
        {"turn_detection": {"type": "server_vad", "interrupt_response": False}},
    ),
}


def run(shape: str, program: Program, limits: SessionLimits = LIMITS) -> None:
    """Play a program on a clock of its own."""

    async def main() -> None:
        made = SHAPES[shape]
        await play(program, made.make(), answers=made.answers, patch=made.patch, limits=limits)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def any_program(examples: int, kind: Callable[[], Any] = programs) -> Callable[[Any], Any]:
    """Try so many programs, always the same ones."""

    def decorate(test: Any) -> Any:
        profile = settings(
            max_examples=examples,
            derandomize=True,
            deadline=None,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        return profile(given(program=kind())(test))

    return decorate


def faults_in(logs: Logs) -> set[str]:
    """The names of what was logged as an error."""
    return {entry["event"] for entry in logs if entry["log_level"] in ("error", "critical")}


@pytest.mark.parametrize("shape", SHAPES)
@any_program(6)
def test_a_session_keeps_its_invariants(shape: str, program: Program) -> None:
    """Between any two steps of any task; afterwards it answers, ends once, and leaves nothing behind."""
    run(shape, program)


@pytest.mark.usefixtures("faults_expected")
@pytest.mark.parametrize("shape", SHAPES)
@any_program(3, deadly_programs)
def test_a_session_outlives_its_stages(shape: str, program: Program, logs: Logs) -> None:
    """Whichever dies, and whenever."""
    run(shape, program)
    assert faults_in(logs) <= {"stage.keeps_breaking"}


@pytest.mark.slow
@pytest.mark.usefixtures("faults_expected")
@pytest.mark.parametrize("shape", SHAPES)
@any_program(40, deadly_programs)
def test_a_session_outlives_its_stages_at_length(shape: str, program: Program, logs: Logs) -> None:
    """The same with many more programs."""
    run(shape, program)
    assert faults_in(logs) <= {"stage.keeps_breaking"}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@any_program(40)
def test_a_session_keeps_its_invariants_at_length(shape: str, program: Program) -> None:
    """The same with many more programs."""
    run(shape, program)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@any_program(20)
def test_a_session_where_everything_is_full_soon(shape: str, program: Program) -> None:
    """The same with small bounds: what is full is refused, and makes room again."""
    run(shape, program, TIGHT)


ONCE_BROKE: list[tuple[str, Program]] = [
    ("cascade", [Append(65, True), Talk(0.4, False)]),
    ("cascade", [Turn(0.3), Append(200, True), Talk(0.3, False), Send(UpdateSession(patch=PATCHES[1]))]),
    ("native", [Talk(1.0, False), Send(UpdateSession(patch={"modalities": ["text"]})), Turn(1.0)]),
    ("native", [Append(3000, True), Stick(0), Append(3000, False), Wait(1.0), Send(BargeIn()), Unstick()]),
    ("lockstep", [Append(3000, True), Slow(0, 2.0), Wait(3.0), Send(CancelResponse()), Append(80, True)]),
]


@pytest.mark.parametrize(("shape", "program"), ONCE_BROKE)
def test_programs_that_once_broke(shape: str, program: Program) -> None:
    """And a few that look as if they might."""
    run(shape, program)
