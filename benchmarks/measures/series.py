"""What does a measurement say: the samples of one subject in one case, and what they are held against.

A measure (`fence.py`, `drain.py`, ...) is a module with

    def measure(effort: Effort) -> Iterator[Series]: ...

which yields the series of all subjects of a case side by side: they were sampled in turns, in one run, so
that their ratios mean something on a noisy machine. Absolute times do not.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Effort", "Limit", "Series"]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured, and where.

    `scale` is 1 for figures to publish, and small for a trial; `folder` is on the disk that is measured, for
    the databases; `backends` are the kinds of flow, `graph`, `agent` and `team`.
    """

    folder: Path
    scale: float = 1.0
    backends: tuple[str, ...] = ("graph", "agent", "team")

    def times(self, count: int, at_least: int = 1) -> int:
        """So many of `count` rounds at this scale."""
        return max(at_least, round(count * self.scale))


@dataclass(frozen=True, slots=True)
class Limit:
    """What a series is to keep to: at most `ratio` times what `beside` takes in the same case, in the
    statistic `of`; at least so many times less if `faster`.
    """

    beside: str
    ratio: float
    of: Literal["p50", "p90"] = "p50"
    faster: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one `subject` (`quiesce`, or what it is compared with) in one `case` of a measure.

    `unit`: seconds, bytes or a count. `size`: what grows from case to case, where a growth is to be seen.
    """

    measure: str
    case: str
    subject: str
    unit: Literal["s", "B", "1"]
    samples: tuple[float, ...]
    size: int | None = None
    limit: Limit | None = None
    note: str = ""

    def at(self, percent: float) -> float:
        """The percentile of the samples, of which there is at least one; 100 is the largest."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    @property
    def p50(self) -> float:
        return statistics.median(self.samples)
