"""Messages that nobody thought of, against sessions of all models.

A short run of what anybody can run for longer.
"""

from __future__ import annotations

import json

import pytest

from duplex_trio.protocol.duplex import COMMAND_CLASSES, TYPE_ALIASES, decode_command
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.fuzz.program import Say
from duplex_trio.testing.fuzz.run import MODELS
from duplex_trio.testing.fuzz.structure import play_alone, try_programs
from duplex_trio.testing.fuzz.vocabulary import MessageKind, message_kinds

SEED = 20_261_130


EXAMPLES: dict[str, tuple[tuple[DialectName, int], ...]] = {
    "scripted": (("duplex", 20), ("ga", 8), ("beta", 4)),
    "turns": (("duplex", 8), ("ga", 4)),
    "native": (("duplex", 6), ("ga", 2)),
    "lockstep": (("duplex", 3), ("ga", 1)),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.slow
def test_a_session_survives_any_messages(model: str) -> None:
    print(f"seed {SEED}")
    for dialect, examples in EXAMPLES[model]:
        try_programs(model, dialect, number=SEED, examples=examples)


def test_every_message_there_is_is_covered() -> None:
    kinds = {kind.type: kind for kind in message_kinds()}
    assert kinds.keys() == {*COMMAND_CLASSES, *TYPE_ALIASES}
    assert {"audio", "delta", "vad", "is_speech"} <= set(kinds["input_audio_buffer.append"].keys)
    assert kinds["conversation.item.truncate"].required == {"item_id", "audio_end_ms"}


@pytest.mark.parametrize("kind", message_kinds(), ids=lambda kind: kind.type)
def test_what_a_reader_takes_makes_a_message(kind: MessageKind) -> None:
    """Each value alone, with whatever else there must be. Some fields are checked further, or with others."""
    needed = {key: kind.values[key][-1] for key in kind.required}
    if kind.type == "input_audio_buffer.append":
        needed["audio"] = "AAAA"
    for key in set(kind.keys) - {"payload", "event", "audio", "delta"}:
        for value in kind.values[key]:
            message = {"type": kind.type, **needed, key: value}
            if json.loads(json.dumps(message)) == message:
                decode_command(json.dumps(message))


def test_a_program_that_is_refused_all_the_way() -> None:
    """Nothing of it is a message, and the session answers afterwards."""
    play_alone(
        [Say(("", "[]", '{"type": 5}', '{"type": "x", "event_id": "<event id>"}'))], "scripted", "duplex"
    )
