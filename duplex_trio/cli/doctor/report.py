"""What the person at the terminal sees: each finding as it is made, what to do below it, and a last word."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from duplex_trio.cli.doctor.finding import Finding, State

_MARKS: dict[State, tuple[str, str, str]] = {
    "ok": ("✓", "+", "green"),
    "note": ("·", "-", "cyan"),
    "warning": ("!", "!", "yellow"),
    "problem": ("✗", "x", "red"),
}
"""The sign, the one of a terminal that knows ASCII alone, and the colour."""


def show(finding: Finding, console: Console) -> None:
    """Print one finding."""
    mark, plain, colour = _MARKS[finding.state]
    arrow = "→"
    if console.options.ascii_only:
        mark, arrow = plain, "->"
    console.print(f"[{colour}]{mark}[/]", end=" ")
    console.print(f"{finding.title}: {finding.said}", highlight=False, markup=False, soft_wrap=True)
    if finding.remedy:
        console.print(f"    {arrow} {finding.remedy}", highlight=False, markup=False, soft_wrap=True)


def sum_up(findings: Sequence[Finding], console: Console) -> None:
    """Print the last word."""
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    if problems:
        text = f"{_counted(problems, 'problem')}: do what stands behind the arrows, from above."
    elif warnings:
        text = f"It works, with {_counted(warnings, 'warning')}."
    else:
        text = "All is well. Talk to it with: duplex-trio talk"
    console.print(f"\n{text}", highlight=False, markup=False, soft_wrap=True)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
