"""What do the series of a measure say: percentiles, how many times the others, and is the budget kept?"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from flowctl import render

__all__ = ["OURS", "Budget", "budget", "show", "summary"]

OURS = "quiesce"
"""The subject that the others of a case are beside."""
SUBJECT = 25
COLUMN = 9
SHOWN = (("P50", 50), ("P90", 90), ("P99", 99), ("max", 100))


@dataclass(frozen=True, slots=True)
class Budget:
    """What a series was to keep to, and what it did: `ratio` beside `limit`, in the statistic `of`."""

    beside: str
    limit: float
    ratio: float
    of: str
    faster: bool

    @property
    def kept(self) -> bool:
        return self.ratio >= self.limit if self.faster else self.ratio <= self.limit

    def __str__(self) -> str:
        """In words."""
        wanted = f"at least {self.limit:g} times faster than" if self.faster else f"at most {self.limit:g} x"
        if self.limit == 1:
            wanted = "at most"
        told = f"{wanted} {self.beside} ({self.of.upper()}): {_round(self.ratio)}"
        if self.kept:
            return f"{told}, kept"
        by = 1 - self.ratio / self.limit if self.faster else self.ratio / self.limit - 1
        return f"{told}, missed by {by:.0%}"


def budget(series: Any, all_series: Sequence[Any]) -> Budget | None:
    """How a series stands to its limit; None if it has none, or what it is beside was not measured."""
    limit = series.limit
    if limit is None:
        return None
    for other in all_series:
        if _case(other) == _case(series) and other.subject == limit.beside:
            ours, theirs = _statistic(series, limit.of), _statistic(other, limit.of)
            above, below = (theirs, ours) if limit.faster else (ours, theirs)
            if below > 0:
                return Budget(limit.beside, limit.ratio, above / below, limit.of, limit.faster)
    return None


def _case(series: Any) -> tuple[str, str, int | None]:
    return series.measure, series.case, series.size


def _statistic(series: Any, of: str) -> float:
    return float(series.p50 if of == "p50" else series.at(float(of[1:])))


def summary(series: Any, all_series: Sequence[Any]) -> dict[str, Any]:
    """A series for a program: seconds, bytes or a count."""
    found = budget(series, all_series)
    return {
        "measure": series.measure,
        "case": series.case,
        "subject": series.subject,
        "size": series.size,
        "unit": series.unit,
        "samples": len(series.samples),
        "p50": series.p50,
        "p90": series.at(90),
        "p99": series.at(99),
        "max": series.at(100),
        "budget": None
        if found is None
        else {
            "beside": found.beside,
            "of": found.of,
            "limit": found.limit,
            "faster": found.faster,
            "ratio": found.ratio,
            "kept": found.kept,
        },
        "note": series.note or None,
    }


def show(all_series: Sequence[Any]) -> None:
    """Print all series, for a person: case by case, ours and what it is beside."""
    for measure, of_measure in groupby(all_series, lambda series: series.measure):
        render.say()
        render.say(render.paint(measure.upper(), bold=True))
        of_this = list(of_measure)
        sized = sorted(of_this, key=lambda series: (_place(series, of_this), series.size or 0))
        for case, of_case in groupby(sized, lambda series: series.case):
            render.say()
            for line in textwrap.wrap(render.safe(case), 80):
                render.say(render.paint(line, bold=True))
            for line in _rows(list(of_case), of_this):
                render.say(line)
        for line in _notes(of_this):
            render.say(line)
    _tell_budgets(all_series)


def _place(series: Any, of_measure: Sequence[Any]) -> int:
    """Where its case stands first, so that the sizes of a case come together."""
    return next(place for place, other in enumerate(of_measure) if other.case == series.case)


def _rows(of_case: Sequence[Any], of_measure: Sequence[Any]) -> Iterator[str]:
    ours = {series.size: series for series in of_case if series.subject == OURS}
    beside = len({series.subject for series in of_case}) > 1 and bool(ours)
    sized = any(series.size is not None for series in of_case)
    heads = [name for name, _ in SHOWN]
    yield render.paint(
        _line("size" if sized else "", "", heads, "ours is" if beside else ""), dim=True
    ).rstrip()
    for series in of_case:
        size = f"{series.size:,}" if series.size is not None else ""
        numbers = [
            _shown(series.at(percent) if percent != 50 else series.p50, series.unit) for _, percent in SHOWN
        ]
        mine = ours.get(series.size)
        times = ""
        if beside and mine is not None and mine is not series and series.p50 > 0:
            times = f"{_round(mine.p50 / series.p50)} x"
        yield _line(size, render.safe(series.subject), numbers, times).rstrip()
        found = budget(series, of_measure)
        if found is not None:
            told = textwrap.wrap(str(found), 70, initial_indent="budget: ", subsequent_indent="  ")
            for line in told:
                yield " " * 8 + render.paint(line, fg="green" if found.kept else "red")


def _line(size: str, subject: str, numbers: Sequence[str], times: str) -> str:
    first = f"{size:>6}  " + subject
    room = 8 + SUBJECT
    if len(first) >= room:  # the numbers begin a line of their own
        first = f"{first}\n".ljust(len(first) + 1 + room)
    return f"{first:<{room}}{''.join(f'{number:>{COLUMN}}' for number in numbers)}  {times:>8}"


def _notes(of_measure: Sequence[Any]) -> Iterator[str]:
    notes = dict.fromkeys(
        f"{series.subject}: {series.note}" for series in of_measure if series.note and series.size is None
    )
    if notes:
        yield ""
    for note in notes:
        yield from textwrap.wrap(render.safe(note), 80, subsequent_indent="  ")


def _tell_budgets(all_series: Sequence[Any]) -> None:
    told = [(series, found) for series in all_series if (found := budget(series, all_series)) is not None]
    if not told:
        return
    missed = [(series, found) for series, found in told if not found.kept]
    render.say()
    render.say(render.paint(f"BUDGETS: {len(told) - len(missed)} of {len(told)} kept", bold=True))
    for series, found in missed:
        size = "" if series.size is None else f", {series.size:,}"
        line = f"{series.measure}, {series.case}{size}: {found}"
        for part in textwrap.wrap(render.safe(line), 80, subsequent_indent="  "):
            render.say(render.paint(part, fg="red"))


def _round(number: float) -> str:
    """Three digits, without an exponent."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _shown(number: float, unit: str) -> str:
    if unit == "1" or number == 0:
        return _round(number)
    units = (
        (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if unit == "s" else (("MB", 1e6), ("kB", 1e3), ("B", 1.0))
    )
    name, size = next((each for each in units if number >= each[1]), units[-1])
    return f"{_round(number / size)} {name}"
