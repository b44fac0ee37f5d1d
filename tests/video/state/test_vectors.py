"""The timeline vectors of video.md 4.1, in the order of the chapter and in its notation, with exact fractions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from attrs import field, frozen

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.protocol.video import SessionInteraction, VideoRefused
from duplex_trio.video.state.steering import VideoSteering
from duplex_trio.video.state.timeline import PromptTimeline, ResolvedChunk

Weights = Mapping[str, Fraction]
"""A state as what each prompt weighs in it."""
DEFAULT_TRANSITION_CHUNKS = 3


@frozen
class Vector:
    """One table.

    Attributes:
        name: in the chapter.
        title: there too.
        ready: updates that become ready before a chunk, in order: "A(3)" is A with N = 3.
        rows: of each chunk: started | active | completed | prompt state used.
        outcomes: of those updates that are not completed; the code of the error for one that is refused.
        targets: prompts of those updates whose prompt is another one's.
    """

    name: str
    title: str
    ready: Mapping[int, str]
    rows: Sequence[str]
    outcomes: Mapping[str, str]
    targets: Mapping[str, str] = field(factory=dict)


VECTORS = [
    Vector(
        "V1",
        "No interaction",
        {},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "- | - | - | P0",
        ),
        {},
    ),
    Vector(
        "V2",
        "Hard update",
        {2: "A(0)"},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "A | A | A | A",
            "- | - | - | A",
        ),
        {},
    ),
    Vector(
        "V3",
        "N = 1 equals a hard update on the wire",
        {2: "A(1)"},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "A | A | A | A",
            "- | - | - | A",
        ),
        {},
    ),
    Vector(
        "V4",
        "The three-chunk example of the record",
        {1: "A(3)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "- | A | - | 1/3 P0 + 2/3 A",
            "- | A | A | A",
            "- | - | - | A",
        ),
        {},
    ),
    Vector(
        "V5",
        "Default transition (plugin default 3)",
        {1: "A(default)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "- | A | - | 1/3 P0 + 2/3 A",
            "- | A | A | A",
            "- | - | - | A",
        ),
        {},
    ),
    Vector(
        "V6",
        "Update ready before chunk 0",
        {0: "A(2)"},
        (
            "A | A | - | 1/2 P0 + 1/2 A",
            "- | A | A | A",
            "- | - | - | A",
            "- | - | - | A",
        ),
        {},
    ),
    Vector(
        "V7",
        "Hard update before chunk 0",
        {0: "A(0)"},
        (
            "A | A | A | A",
            "- | - | - | A",
        ),
        {},
    ),
    Vector(
        "V8",
        "Two updates in one window: the newer one wins",
        {1: "A(3), B(0)"},
        (
            "- | - | - | P0",
            "B | B | B | B",
            "- | - | - | B",
            "- | - | - | B",
        ),
        {"A": "superseded"},
    ),
    Vector(
        "V9",
        "Burst of four in one window",
        {1: "A(0), B(2), C(0), D(2)"},
        (
            "- | - | - | P0",
            "D | D | - | 1/2 P0 + 1/2 D",
            "- | D | D | D",
        ),
        {"A": "superseded", "B": "superseded", "C": "superseded"},
    ),
    Vector(
        "V10",
        "Soft update interrupts a running transition",
        {1: "A(3)", 2: "B(2)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "B | A, B | - | 1/6 P0 + 1/3 A + 1/2 B",
            "- | B | B | B",
            "- | - | - | B",
            "- | - | - | B",
        ),
        {"A": "interrupted"},
    ),
    Vector(
        "V11",
        "Soft update interrupts exactly on the last step",
        {1: "A(3)", 3: "B(2)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "- | A | - | 1/3 P0 + 2/3 A",
            "B | A, B | A | 1/2 A + 1/2 B",
            "- | B | B | B",
            "- | - | - | B",
        ),
        {},
    ),
    Vector(
        "V12",
        "Hard update interrupts a running transition",
        {1: "A(3)", 2: "B(0)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "B | B | B | B",
            "- | - | - | B",
            "- | - | - | B",
        ),
        {"A": "interrupted"},
    ),
    Vector(
        "V13",
        "Hard update on what would be the last step",
        {1: "A(3)", 3: "B(0)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "- | A | - | 1/3 P0 + 2/3 A",
            "B | B | B | B",
            "- | - | - | B",
        ),
        {"A": "interrupted"},
    ),
    Vector(
        "V14",
        "N = 1 interrupts a running transition",
        {1: "A(4)", 3: "B(1)"},
        (
            "- | - | - | P0",
            "A | A | - | 3/4 P0 + 1/4 A",
            "- | A | - | 1/2 P0 + 1/2 A",
            "B | B | B | B",
            "- | - | - | B",
        ),
        {"A": "interrupted"},
    ),
    Vector(
        "V15",
        "Chain of interruptions",
        {1: "A(4)", 2: "B(4)", 3: "C(2)"},
        (
            "- | - | - | P0",
            "A | A | - | 3/4 P0 + 1/4 A",
            "B | A, B | - | 3/8 P0 + 3/8 A + 1/4 B",
            "C | B, C | - | 1/8 P0 + 1/8 A + 1/4 B + 1/2 C",
            "- | C | C | C",
            "- | - | - | C",
            "- | - | - | C",
        ),
        {"A": "interrupted", "B": "interrupted"},
    ),
    Vector(
        "V16",
        "New update in the chunk after completion",
        {1: "A(2)", 3: "B(2)"},
        (
            "- | - | - | P0",
            "A | A | - | 1/2 P0 + 1/2 A",
            "- | A | A | A",
            "B | B | - | 1/2 A + 1/2 B",
            "- | B | B | B",
            "- | - | - | B",
        ),
        {},
    ),
    Vector(
        "V17",
        "Pending superseded while a transition runs",
        {1: "A(4)", 3: "B(3), C(2)"},
        (
            "- | - | - | P0",
            "A | A | - | 3/4 P0 + 1/4 A",
            "- | A | - | 1/2 P0 + 1/2 A",
            "C | A, C | - | 1/8 P0 + 3/8 A + 1/2 C",
            "- | C | C | C",
            "- | - | - | C",
        ),
        {"B": "superseded", "A": "interrupted"},
    ),
    Vector(
        "V18",
        "Back to the first prompt",
        {1: "A(2)", 3: "B(2)"},
        (
            "- | - | - | P0",
            "A | A | - | 1/2 P0 + 1/2 A",
            "- | A | A | A",
            "B | B | - | 1/2 A + 1/2 P0",
            "- | B | B | P0",
            "- | - | - | P0",
        ),
        {},
        targets={"B": "P0"},
    ),
    Vector(
        "V19",
        "Same target again while its transition runs",
        {1: "A(3)", 2: "B(3)"},
        (
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
            "B | A, B | - | 2/9 P0 + 7/9 A",
            "- | B | - | 1/9 P0 + 8/9 A",
            "- | B | B | A",
            "- | - | - | A",
        ),
        {"A": "interrupted"},
        targets={"B": "A"},
    ),
    Vector(
        "V20",
        "Hard then hard in consecutive chunks",
        {1: "A(0)", 2: "B(0)"},
        (
            "- | - | - | P0",
            "A | A | A | A",
            "B | B | B | B",
            "- | - | - | B",
        ),
        {},
    ),
    Vector(
        "V21",
        "Transition longer than what is left",
        {2: "A(5)"},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "A | A | - | 4/5 P0 + 1/5 A",
            "- | A | - | 3/5 P0 + 2/5 A",
        ),
        {"A": "unfinished"},
    ),
    Vector(
        "V22",
        "Update ready for the very last boundary",
        {2: "A(0)"},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "A | A | A | A",
        ),
        {},
    ),
    Vector(
        "V23",
        "Soft update ready for the very last boundary",
        {2: "A(3)"},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "A | A | - | 2/3 P0 + 1/3 A",
        ),
        {"A": "unfinished"},
    ),
    Vector(
        "V24",
        "Update after the last boundary",
        {3: "A(0)"},
        (
            "- | - | - | P0",
            "- | - | - | P0",
            "- | - | - | P0",
        ),
        {"A": "interaction_failed"},
    ),
    Vector(
        "V25",
        "Single-chunk generation",
        {0: "A(0)", 1: "B(0)"},
        ("A | A | A | A",),
        {"B": "interaction_failed"},
    ),
    Vector(
        "V26",
        "Very long transition, exact fractions",
        {0: "A(7)"},
        (
            "A | A | - | 6/7 P0 + 1/7 A",
            "- | A | - | 5/7 P0 + 2/7 A",
            "- | A | - | 4/7 P0 + 3/7 A",
        ),
        {"A": "unfinished"},
    ),
    Vector(
        "V27",
        "Interrupt at the first step of the old one (same id order)",
        {0: "A(2)", 1: "B(3)"},
        (
            "A | A | - | 1/2 P0 + 1/2 A",
            "B | A, B | A | 2/3 A + 1/3 B",
            "- | B | - | 1/3 A + 2/3 B",
            "- | B | B | B",
            "- | - | - | B",
        ),
        {},
    ),
    Vector(
        "V28",
        "Hard update right after a soft one in the same window",
        {1: "A(5), B(0)"},
        (
            "- | - | - | P0",
            "B | B | B | B",
            "- | - | - | B",
        ),
        {"A": "superseded"},
    ),
]

vectors = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


def blend(source: Weights, target: Weights, alpha: Fraction) -> Weights:
    mixed: Counter[str] = Counter()
    for name, weight in source.items():
        mixed[name] += weight * (1 - alpha)
    for name, weight in target.items():
        mixed[name] += weight * alpha
    return dict(mixed)


def weights(text: str) -> Weights:
    """`2/3 P0 + 1/3 A` as a mapping."""
    terms = [term.split() for term in text.split(" + ")]
    return {term[-1]: Fraction(term[0]) if len(term) == 2 else Fraction(1) for term in terms}


def ids(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(", "))


def updates(vector: Vector, chunk: int) -> list[tuple[str, Weights, int | None]]:
    """Id, target and N of what becomes ready before a chunk; N is None where it is left to the default."""
    found = re.findall(r"(\w)\((\w+)\)", vector.ready.get(chunk, ""))
    return [
        (name, {vector.targets.get(name, name): Fraction(1)}, None if chunks == "default" else int(chunks))
        for name, chunks in found
    ]


def row(chunk: ResolvedChunk[Weights]) -> tuple[object, ...]:
    return chunk.started, chunk.active, chunk.completed, chunk.state


def expected(text: str) -> tuple[object, ...]:
    started, active, completed, state = text.split(" | ")
    return ids(started), ids(active), ids(completed), weights(state)


def names(vector: Vector) -> list[str]:
    return re.findall(r"[A-Z]", " ".join(vector.ready.values()))


@vectors
def test_the_steering_gives_the_tables_of_the_chapter(vector: Vector) -> None:
    """Updates are admitted, prepared and resolved as in a video, and each one comes to the end that is told there."""
    steering = VideoSteering[Weights](
        blend,
        default_transition_chunks=DEFAULT_TRANSITION_CHUNKS,
        supports_updates=True,
        limits=VideoSessionDeploy(),
    )
    steering.begin({"P0": Fraction(1)})
    told: dict[str, str] = {}
    resolved = []
    for index in range(len(vector.rows) + 1):
        for event_id, target, chunks in updates(vector, index):
            asked = SessionInteraction(
                event_id=event_id, event={"prompt": event_id}, transition_chunks=chunks
            )
            try:
                steering.admit(asked, now_s=0.0, new_id=str)
            except VideoRefused as refused:
                told[event_id] = refused.code
            else:
                assert steering.prepared(event_id, target)
        if index < len(vector.rows):
            resolved.append(steering.next_chunk(last=index == len(vector.rows) - 1))
    assert steering.end(stopped=False) == ()
    told.update(steering.outcomes())
    assert [row(chunk) for chunk in resolved] == [expected(text) for text in vector.rows]
    assert [chunk.index for chunk in resolved] == list(range(len(vector.rows)))
    assert told == dict.fromkeys(names(vector), "completed") | dict(vector.outcomes)


@vectors
def test_the_timeline_alone_gives_them_too(vector: Vector) -> None:
    """What a chunk says of change is what its state says."""
    timeline = PromptTimeline[Weights]({"P0": Fraction(1)}, blend)
    before: Weights | None = None
    for index, text in enumerate(vector.rows):
        superseded = []
        for event_id, target, chunks in updates(vector, index):
            length = DEFAULT_TRANSITION_CHUNKS if chunks is None else chunks
            superseded.append(timeline.offer(event_id, target, length))
            hard = length <= 1
        chunk = timeline.resolve()
        assert row(chunk) == expected(text)
        assert chunk.changed == (chunk.state != before)
        assert chunk.hard == (bool(superseded) and hard)
        assert [name for name in superseded if name] == [
            name for name, _, _ in updates(vector, index) if vector.outcomes.get(name) == "superseded"
        ]
        before = chunk.state


def test_no_vector_is_missing() -> None:
    """The chapter has 28."""
    assert [vector.name for vector in VECTORS] == [f"V{number}" for number in range(1, 29)]
