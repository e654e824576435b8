"""What can this machine do? Measured beside everything else, since a disk is what everything is held to.

- fsync: one page of a file that does not grow, written and brought to the disk.
- One commit: a small row in a transaction of its own.
- The bare fence: the transaction of `bare.py` for a run with so many pieces.
- Pause to quiescent: that transaction, then a task woken for each piece, then one transaction that says that
  all of them have yielded.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from .bare import BareFence, Commits, Disk, Rows
from .series import Effort, Series

__all__ = ["measure"]

ROUNDS = 1_000
SIZES = (1, 10, 100, 1_000, 10_000)
DURABILITIES = ("full", "normal")


def measure(effort: Effort) -> Iterator[Series]:
    """The disk and the commits, the fences by size, the pause by hand."""
    with tempfile.TemporaryDirectory(dir=effort.folder) as name, ExitStack() as stack:
        folder = Path(name)
        disk = stack.enter_context(closing(Disk(folder / "disk")))
        commits = {
            durability: stack.enter_context(closing(Commits(folder / f"{durability}.db", durability)))
            for durability in DURABILITIES
        }
        taken: dict[str, list[float]] = {"fsync": [], **{f"commit, {name}": [] for name in commits}}
        for _ in range(effort.times(ROUNDS, at_least=5)):
            taken["fsync"].append(disk.sync())
            for durability, connection in commits.items():
                taken[f"commit, {durability}"].append(connection.commit())
        for subject, samples in taken.items():
            yield Series("limits", "the disk", subject, "s", tuple(samples))
    for size in SIZES:
        if size <= SIZES[-1] * effort.scale or size == SIZES[0]:
            yield from _fences(effort, size)
    for size in (10, 100):
        yield from _by_hand(effort, size)


def _fences(effort: Effort, size: int) -> Iterator[Series]:
    with tempfile.TemporaryDirectory(dir=effort.folder) as name, ExitStack() as stack:
        fences = {
            durability: stack.enter_context(
                closing(BareFence(Path(name, f"{durability}.db"), durability, Rows(running=size)))
            )
            for durability in DURABILITIES
        }
        taken: dict[str, list[float]] = {durability: [] for durability in DURABILITIES}
        for _ in range(effort.times(ROUNDS // max(1, size // 100), at_least=5)):
            for durability, fence in fences.items():
                taken[durability].append(fence.pause())
                fence.resume()
        for durability, samples in taken.items():
            note = str(fences[durability].rows)
            yield Series(
                "limits", f"the bare fence, {durability}", "by hand", "s", tuple(samples), size, note=note
            )


def _by_hand(effort: Effort, size: int) -> Iterator[Series]:
    with (
        tempfile.TemporaryDirectory(dir=effort.folder) as name,
        closing(BareFence(Path(name, "flows.db"), "full", Rows(running=size))) as fence,
        asyncio.Runner() as loop,
    ):
        samples = []
        for _ in range(effort.times(ROUNDS // 4, at_least=3)):
            samples.append(loop.run(fence.pause_to_quiescent()))
            fence.resume()
    yield Series("limits", "pause to quiescent, full", "by hand", "s", tuple(samples), size)
