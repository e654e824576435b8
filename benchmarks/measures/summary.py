"""What goes beside a benchmark's own figures: the medians of all series, and how they keep their limits."""

from __future__ import annotations

from collections.abc import Iterable

from .series import Series

__all__ = ["summary"]

_SHOWN = {"s": ("us", 1e6), "B": ("B", 1.0), "1": ("", 1.0)}


def summary(series: Iterable[Series]) -> dict[str, dict[str, str]]:
    """By case and subject: the median, and its ratio to what the limit holds it against."""
    cases: dict[str, dict[str, Series]] = {}
    for one in series:
        cases.setdefault(one.case, {})[one.subject] = one
    return {
        case: {subject: _told(one, subjects) for subject, one in subjects.items()}
        for case, subjects in cases.items()
    }


def _told(one: Series, beside: dict[str, Series]) -> str:
    unit, factor = _SHOWN[one.unit]
    told = f"{one.p50 * factor:.1f} {unit}".strip()
    if one.limit is None:
        return told
    ratio = one.p50 / beside[one.limit.beside].p50
    wanted = f"{one.limit.ratio:g} wanted"
    if one.limit.faster:
        return f"{told}; {1 / ratio:.2f} times as fast as {one.limit.beside}, at least {wanted}"
    return f"{told}; {ratio:.2f} times {one.limit.beside}, at most {wanted}"
