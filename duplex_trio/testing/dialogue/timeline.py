"""What happened, as text: one line for each thing that was said, heard or done, with its time.

step 2 of 3 failed: expects_reply("It is sunny")

  expected  the assistant says "It is sunny"
  instead   it said "It is rainy"

      ms
       0  user       says "what is the weather" (1200 ms)
     140  server     hears speech
    1660  server     the user's turn is over
    1660  server     understood "what is the weather"
    1660  assistant  answer 1: "It is rainy" (900 ms of sound, 900 ms heard)
    2260  assistant  answer 1 is complete
>>  2260  check      expects_reply("It is sunny")

  not reached: after_hearing(ms=600)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from duplex_trio.testing.dialogue.account import Account, Entry
from duplex_trio.testing.dialogue.judge import Missed
from duplex_trio.testing.dialogue.words import quoted

LINES_MAX = 30
"""Lines of a timeline that are shown; of a longer one the first few and the last."""
_FIRST = 6
FAILED = ">>"


def timeline(account: Account, now_ms: float) -> list[str]:
    """The lines of a timeline, without a heading."""
    lines: list[str] = []
    for entry, repeated in _folded(account.entries):
        again = f" ({repeated} times)" if repeated > 1 else ""
        lines.append(_line(entry, account, now_ms) + again)
    left_out = len(lines) - LINES_MAX
    if left_out > 1:
        lines[_FIRST : _FIRST + left_out] = [f"{'...':>8}  ({left_out} lines left out)"]
    return lines


def whole_timeline(account: Account) -> str:
    """The timeline of a conversation that nobody finds fault with, as of its last line."""
    now_ms = max((entry.at_ms for entry in account.entries), default=0.0)
    return "\n".join(["in ms:", *(timeline(account, now_ms) or ["(nothing happened)"])])


def failure(
    number: int, steps: Sequence[object], missed: Missed, account: Account, now_ms: float, reached: int
) -> str:
    """All that is said of a conversation that went wrong.

    Args:
        number: the step that failed, 1 being the first.
        steps: all steps.
        missed: what was expected, and what came instead.
        account: what happened.
        now_ms: when the conversation ended.
        reached: how many steps were done or begun.
    """
    what = f"step {number} of {len(steps)} failed: {steps[number - 1]}" if number else "failed at its end"
    lines = [
        what,
        "",
        f"  expected  {missed.expected}",
        f"  instead   {missed.instead}",
        "",
        "  what happened, in ms:",
    ]
    shown = timeline(account, now_ms)
    lines += shown or ["          (nothing happened)"]
    if not number or number < reached:
        lines += ["", "  The step had passed; what came later contradicts it."] if number else []
    behind = [str(step) for step in steps[reached:]]
    if behind:
        lines += ["", f"  not reached: {_list(behind)}"]
    return "\n".join(lines)


def _folded(entries: Sequence[Entry]) -> Iterator[tuple[Entry, int]]:
    """Entries, and how often each comes in a row."""
    for _, group in groupby(entries, key=lambda entry: (entry.who, entry.text, entry.answer)):
        first, *others = group
        yield first, 1 + len(others)


def _line(entry: Entry, account: Account, now_ms: float) -> str:
    mark = FAILED if entry.text.startswith(FAILED) else "  "
    text = entry.text.removeprefix(FAILED).strip()
    answer = entry.answer
    if answer is not None:
        heard = f"{account.heard_ms(answer, now_ms):.0f} of {answer.sound_ms:.0f} ms"
        end = {"completed": "complete"}.get(answer.status or "", answer.status or "")
        reason = f" ({answer.reason})" if answer.reason and end != "complete" else ""
        text = {
            "speaks": f"answer {answer.number}: {quoted(answer.text)} ({answer.sound_ms:.0f} ms of sound)",
            "is cut": f"answer {answer.number} is cut off, {heard} heard{reason}",
            "ends": f"answer {answer.number} is {end}{reason}",
        }[text]
    return f"{mark}{entry.at_ms:6.0f}  {entry.who:<9}  {text}"


def _list(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:4])
    return shown if len(texts) <= 4 else f"{shown} and {len(texts) - 4} more"
