from __future__ import annotations

from typing import Any

import pytest

from duplex_trio.stages.units import ChatMessage, ChatPrompt, PromptUpdate
from duplex_trio.stages.vllm_segments import UPDATES_MAX, Segments, update_tokens
from duplex_trio.stages.worker import UnitRefused

PROMPT = ChatPrompt(messages=[ChatMessage(role="user", content="Hello.")])


def update(*token_ids: int) -> PromptUpdate:
    return PromptUpdate(token_ids=token_ids)


def run_segment(segments: Segments, read: list[int], said: list[int]) -> int | None:
    segments.take()
    segments.begin(read)
    segments.made(said)
    return segments.end()


def refusal(segments: Segments, unit: Any, final: bool = False) -> str:
    with pytest.raises(UnitRefused) as caught:
        segments.offer(unit, final, 0.0)
    return caught.value.code


def test_what_was_said_is_read_by_the_next_segment_but_for_its_last_token() -> None:
    segments = Segments(resumable=True)
    segments.offer(PROMPT, False, 0.0)
    assert run_segment(segments, [1, 2, 3], [10, 11, 12]) == 12
    assert segments.context == [1, 2, 3, 10, 11]
    segments.offer(update(4), False, 1.0)
    segments.take()
    assert segments.begin([4]) == [1, 2, 3, 10, 11, 4]
    segments.made([20])
    assert segments.end() == 20
    assert segments.context == [1, 2, 3, 10, 11, 4]


def test_a_segment_without_a_token_drops_none() -> None:
    segments = Segments(resumable=True)
    segments.offer(update(1), False, 0.0)
    assert run_segment(segments, [1], []) is None
    assert segments.context == [1]


def test_tokens_arrive_in_pieces() -> None:
    segments = Segments(resumable=True)
    segments.offer(update(1), False, 0.0)
    segments.take()
    segments.begin([1])
    for piece in ([5], [], [6, 7], [8]):
        segments.made(piece)
    assert segments.end() == 8
    assert segments.context == [1, 5, 6, 7]


def test_updates_wait_for_the_segment_and_keep_their_order() -> None:
    segments = Segments(resumable=True)
    for number in range(3):
        segments.offer(update(number), number == 2, float(number))
    order, during = [], []
    while segments.ready:
        waiting = segments.take()
        order.append((waiting.unit, waiting.arrived_s))
        segments.begin([0])
        during.append((segments.ready, segments.over))
        segments.made([9])
        segments.end()
    assert order == [(update(0), 0.0), (update(1), 1.0), (update(2), 2.0)]
    assert during == [(False, False)] * 3
    assert segments.over


def test_the_end_of_the_input_lets_the_segment_finish() -> None:
    segments = Segments(resumable=True)
    segments.offer(PROMPT, False, 0.0)
    segments.take()
    segments.begin([1])
    segments.offer(None, True, 0.0)
    segments.offer(None, True, 0.0)
    assert not segments.over
    segments.made([2])
    segments.end()
    assert segments.over


def test_a_request_that_waits_ends_with_its_input() -> None:
    segments = Segments(resumable=True)
    segments.offer(PROMPT, False, 0.0)
    run_segment(segments, [1], [2])
    assert not segments.over
    segments.offer(None, True, 0.0)
    assert segments.over


def test_an_ordinary_request_is_over_after_one_segment() -> None:
    segments = Segments(resumable=False)
    assert not segments.over
    segments.offer(PROMPT, False, 0.0)
    assert segments.ready
    run_segment(segments, [1], [2])
    assert segments.over


def test_too_many_waiting_updates_are_refused_and_the_rest_stays() -> None:
    segments = Segments(resumable=True)
    segments.offer(PROMPT, False, 0.0)
    segments.take()
    segments.begin([1])
    for number in range(UPDATES_MAX):
        segments.offer(update(number), False, 0.0)
    assert refusal(segments, update(1)) == "input_backpressure"
    segments.made([2])
    segments.end()
    segments.take()
    segments.offer(update(1), False, 0.0)


def test_units_of_the_wrong_kind_are_refused() -> None:
    assert refusal(Segments(resumable=False), update(1)) == "invalid_value"
    for unit in ("text", 3, None):
        assert refusal(Segments(resumable=True), unit) == "invalid_value"
    for resumable in (True, False):
        segments = Segments(resumable=resumable)
        segments.offer(PROMPT, False, 0.0)
        assert refusal(segments, PROMPT) == "unsupported"


def test_nothing_follows_the_final_unit() -> None:
    segments = Segments(resumable=True)
    segments.offer(PROMPT, True, 0.0)
    assert refusal(segments, update(1)) == "invalid_value"


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (PromptUpdate(), "either"),
        (PromptUpdate(text="a", token_ids=[1]), "either"),
        (PromptUpdate(text=""), "at least one token"),
        (PromptUpdate(token_ids=[]), "at least one token"),
        (PromptUpdate(text=3), "text must be a string"),  # type: ignore[arg-type]
        (PromptUpdate(token_ids="12"), "sequence"),  # type: ignore[arg-type]
        (PromptUpdate(token_ids=7), "sequence"),  # type: ignore[arg-type]
        (PromptUpdate(token_ids=[1, -1]), "-1"),
        (PromptUpdate(token_ids=[100]), "100"),
        (PromptUpdate(token_ids=[True]), "True"),
        (PromptUpdate(token_ids=[1.0]), "1.0"),  # type: ignore[list-item]
    ],
)
def test_bad_updates_are_named(bad: PromptUpdate, named: str) -> None:
    with pytest.raises(UnitRefused, match=named) as caught:
        update_tokens(bad, lambda text: [ord(letter) for letter in text], 100)
    assert caught.value.code == "invalid_value"


def test_tokens_of_an_update() -> None:
    def encode(text: str) -> list[int]:
        return [ord(letter) for letter in text]

    assert update_tokens(PromptUpdate(text="ab"), encode, 100) == [97, 98]
    assert update_tokens(PromptUpdate(token_ids=(0, 99)), encode, 100) == [0, 99]
