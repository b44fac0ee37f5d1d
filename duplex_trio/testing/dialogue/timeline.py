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
from textwrap import wrap

from duplex_trio.testing.dialogue.account import Account, Answer, Entry
from duplex_trio.testing.dialogue.judge import STATUSES, Missed
from duplex_trio.testing.dialogue.words import clipped, quoted

LINES_MAX = 30
"""Lines of a timeline that are shown; of a longer one the first few and the last."""
_FIRST = 6
WIDTH = 100
"""Characters in a line of what came instead; a line of the timeline is as long as that with its margin."""
SAID_MAX = 70
"""Characters of an answer."""
INSTEAD_LINES_MAX = 4


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
        number: the step that failed, 1 being the first; 0 for what is found at the end.
        steps: all steps.
        missed: what was expected, and what came instead.
        account: what happened.
        now_ms: when the conversation ended.
        reached: how many steps were done or begun.
    """
    what = f"step {number} of {len(steps)} failed: {steps[number - 1]}" if number else "failed at its end"
    lines = [what, "", f"  expected  {missed.expected}", f"  instead   {_indented(missed.instead)}"]
    if 0 < number < reached:
        lines.append("            (the step had passed before that came)")
    lines += ["", "  what happened, in ms:", *timeline(account, now_ms)]
    behind = [str(step) for step in steps[reached:]]
    if behind:
        lines += ["", f"  not reached: {_list(behind)}"]
    return "\n".join(lines)


def _indented(text: str) -> str:
    """A text in lines that are not too long, under the first of them."""
    lines = [piece for line in text.splitlines() for piece in wrap(line, WIDTH) or [""]]
    return f"\n{' ' * 12}".join(lines[:INSTEAD_LINES_MAX])


def _folded(entries: Sequence[Entry]) -> Iterator[tuple[Entry, int]]:
    """Entries, and how often each comes in a row."""
    for _, group in groupby(entries, key=lambda entry: (entry.who, entry.text, entry.answer)):
        first, *others = group
        yield first, 1 + len(others)


def _line(entry: Entry, account: Account, now_ms: float) -> str:
    text, answer = entry.text, entry.answer
    if answer is not None:
        text = _of_answer(text, answer, account.heard_ms(answer, now_ms))
    mark = ">>" if entry.who == "FAILED" else "  "
    return f"{mark}{entry.at_ms:6.0f}  {entry.who:<9}  {clipped(text, WIDTH + 12)}"


def _of_answer(what: str, answer: Answer, heard_ms: float) -> str:
    name = f"answer {answer.number}"
    reason = f" ({answer.reason})" if answer.reason and answer.status != "completed" else ""
    match what:
        case "speaks":
            sound = f"{answer.sound_ms:.0f} ms of sound" if answer.sound_ms else "written"
            return f"{name}: {quoted(answer.text, SAID_MAX)} ({sound})"
        case "is cut":
            return f"{name} is cut off after {heard_ms:.0f} of {answer.sound_ms:.0f} ms{reason}"
    return f"{name} {STATUSES.get(answer.status or '', f'is {answer.status}')}{reason}"


def _list(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:4])
    return shown if len(texts) <= 4 else f"{shown} and {len(texts) - 4} more"
