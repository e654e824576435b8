"""A flow fails in the middle; once the cause is mended, a retry goes on from there.

    index ──> read (one branch for each file, one after the other) ──> total

Reading a file stands for hours of work. When the second of three files is missing, the first has been read
and its figures are in the store: after the retry only the second and the third are read.

    python retry_from_failure.py                                the story, in a temporary folder
    flowctl run examples/retry_from_failure.py:graph FOLDER     exits with 1: the file that is missing
    flowctl retry RUN                                           when it is there
"""

import csv
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import anyio

from quiesce import Completed, Graph, JoinInput, Run, Runtime, Transition
from quiesce.errors import NodeError


@dataclass(frozen=True, slots=True)
class Sales:
    file: Path
    orders: int
    amount: Decimal


graph = Graph("monthly-sales")  # sequential: one file at a time


@graph.node(start=True)
def index(folder: Path) -> list[Path]:
    """The files that index.txt names, and so those that must be there."""
    return [folder / line for line in (folder / "index.txt").read_text().split()]


@graph.node
def read(file: Path) -> Sales:
    print(f"  reading {file.name}")
    with file.open(newline="") as lines:
        amounts = [Decimal(row["amount"]) for row in csv.DictReader(lines)]
    return Sales(file, len(amounts), sum(amounts, Decimal()))


@graph.node
def total(sales: JoinInput[Sales]) -> str:
    rows = [(one.file.stem, one.orders, one.amount) for one in sales]
    rows.append(("total", sum(orders for _, orders, _ in rows), sum((paid for *_, paid in rows), Decimal())))
    return "\n".join(f"{name:10} {orders:5} {paid:12}" for name, orders, paid in rows)


@graph.transition(index, to=[read, total])
def one_branch_each(files: list[Path]) -> Transition:
    return Transition.fan_out([read.next(file) for file in files], join=total)


graph.join(read, into=total)
graph.finish(total)


async def finish(run: Run) -> None:
    """Wait for a run, and say how it went."""
    try:
        match await run.settled():
            case Completed(value):
                print(value)
    except NodeError as error:
        status = await run.status()
        print(f"  {status.state}: {error}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "index.txt").write_text("north.csv south.csv west.csv")
        for region, amounts in {"north": ["12.50", "8.25"], "west": ["99.99"]}.items():
            (folder / f"{region}.csv").write_text("\n".join(["amount", *amounts]))
        async with Runtime(folder / "flows.db") as rt:
            print("The first time:")
            run = await rt.start(graph, folder)
            await finish(run)
            print("The missing file arrives, and the run is retried:")
            (folder / "south.csv").write_text("amount\n3.10\n4.00\n")
            await run.retry()
            await finish(run)


if __name__ == "__main__":
    anyio.run(main)
