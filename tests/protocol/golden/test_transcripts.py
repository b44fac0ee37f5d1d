"""What each dialect says, message by message, in every scenario of a session: golden transcripts.

The files under `transcripts/` hold one line of JSON for each message of either side. Where the protocol is meant to
change, `python -m pytest tests/protocol/golden --renew-golden` writes them anew; the change then shows as a diff.

The order of the opening block is that of published clients (`response.output_item.added` before
`conversation.item.added`), which they were measured to need.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import trio.testing
from trio.testing import MockClock

from duplex_trio.protocol.dialects import Dialect
from duplex_trio.protocol.duplex import EVENT_CLASSES
from duplex_trio.testing import finish, scripted_omni
from duplex_trio.testing.openai_events import foreign_fields, openai_event_classes
from duplex_trio.testing.scenarios import SCENARIOS, STEPS_S, Scenario
from duplex_trio.testing.transcript import normalised, open_transcript

FOLDER = Path(__file__).parent / "transcripts"


async def transcript(scenario: Scenario, dialect: Dialect) -> tuple[list[bytes], list[bytes]]:
    """The normalised lines of a scenario, and the server's messages as they were."""
    async with scripted_omni(pipeline=scenario.pipeline(), step_s=STEPS_S) as omni:
        # The beta's SDK knows the models of its time only; any name is taken.
        patch = {"model": "gpt-4o-realtime-preview", **scenario.patch}
        talker = await open_transcript(omni, dialect, patch=patch)
        if not scenario.opening:
            talker.heard.lines.clear()
        await scenario.play(talker)
        await trio.testing.wait_all_tasks_blocked()
        lines, texts = normalised(talker.heard.lines), list(talker.heard.texts)
        await finish(omni, talker)
    return lines, texts


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.usefixtures("faults_expected")
async def test_what_is_said(
    autojump_clock: MockClock, name: str, dialect: Dialect, request: pytest.FixtureRequest
) -> None:
    """The transcript is the golden one, and each event that OpenAI has passes its SDK's strict validation.

    A GA session says nothing that OpenAI does not have.
    """
    lines, texts = await transcript(SCENARIOS[name], dialect)
    for text in texts:
        kind = orjson.loads(text)["type"]
        known = openai_event_classes(dialect).get(kind)
        if known is None:
            assert dialect is Dialect.DUPLEX, kind
            continue
        event = known.model_validate_json(text, strict=True)
        if dialect is Dialect.GA and kind not in ("session.created", "session.updated"):
            # OpenAI's own session object has fields that its SDK's class lacks.
            assert not foreign_fields(event), kind
    path = FOLDER / f"{name}.{dialect.value}.jsonl"
    if request.config.getoption("--renew-golden"):
        path.write_bytes(b"\n".join([*lines, b""]))
    assert path.read_bytes().splitlines() == lines, f"{path.name} differs; see {__name__} for how to renew it"


def test_there_is_no_transcript_of_nothing() -> None:
    """Files of scenarios that are gone are gone."""
    names = {f"{name}.{dialect.value}.jsonl" for name in SCENARIOS for dialect in Dialect}
    assert {path.name for path in FOLDER.iterdir()} == names


ELSEWHERE = {
    "session.resumed": "tests/session/test_resume.py",
    "session.replaced": "tests/session/test_resume.py",
    "session.resync_required": "tests/session/test_resume.py",
}
"""Events of a connection that is lost and comes back, and what shows that they are sent."""


def test_every_event_is_said_by_a_session() -> None:
    """None is only defined."""
    texts = b"".join(path.read_bytes() for path in FOLDER.glob("*.duplex.jsonl")).splitlines()
    messages = [orjson.loads(text) for text in texts]
    said = {message["server"]["type"] for message in messages if "server" in message}
    assert said | ELSEWHERE.keys() == {cls.type for cls in EVENT_CLASSES}
    for name, path in ELSEWHERE.items():
        camel = "".join(word.capitalize() for word in name.replace(".", "_").split("_"))
        assert camel in (Path(__file__).parents[3] / path).read_text(), (name, path)
