"""A small agent that handles cases: it looks things up, asks a person above a limit, and pays exactly once.

    python examples/refund_desk.py                       the story, with a folder of its own
    flowctl run examples/refund_desk.py:desk FOLDER      exits with 75 when it asks

In the folder are `cases.csv` (case, order, amount) and `orders.csv` (order, customer, paid). For each case
what was paid and who bought are looked up at the same time. A refund above the limit is an action that a
person sees with its exact arguments, and approves, changes or rejects. Paying appends a line to
`ledger.jsonl`, under the idempotency key of the call: a key that is there is not written again, whatever
died in between.
"""

import csv
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio

from quiesce import Completed, Paused, Runtime, action, agent, current_step, gather, step
from quiesce.errors import Rejected

LIMIT = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A line of `cases.csv`."""

    case: str
    order: str
    amount: int


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a case."""

    case: str
    outcome: str


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@step
def read_cases(folder: Path) -> list[Case]:
    return [Case(row["case"], row["order"], int(row["amount"])) for row in rows(folder / "cases.csv")]


@step
def paid_for(folder: Path, order: str) -> int:
    """What was paid for an order; 0 for one that nobody knows."""
    return sum(int(row["paid"]) for row in rows(folder / "orders.csv") if row["order"] == order)


@step
def buyer_of(folder: Path, order: str) -> str | None:
    return next((row["customer"] for row in rows(folder / "orders.csv") if row["order"] == order), None)


def ledger(folder: Path) -> list[dict[str, str | int]]:
    path = folder / "ledger.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


@action(approval=lambda folder, case, customer, amount: amount > LIMIT)
def refund(folder: Path, case: str, customer: str, amount: int) -> str:
    """Pay, and say so in the ledger: one line, once."""
    key = current_step().key
    if not any(line["key"] == key for line in ledger(folder)):
        line = json.dumps({"key": key, "case": case, "customer": customer, "amount": amount}) + "\n"
        with (folder / "ledger.jsonl").open("ab", buffering=0) as file:
            file.write(line.encode())
            os.fsync(file.fileno())
    return f"refunded {amount}"


@agent
def desk(folder: Path) -> list[Handled]:
    return [Handled(case.case, handle(folder, case)) for case in read_cases(folder)]


def handle(folder: Path, case: Case) -> str:
    paid, customer = gather(paid_for.call(folder, case.order), buyer_of.call(folder, case.order))
    if customer is None or case.amount > paid:
        return f"refused: {paid} was paid for {case.order}"
    try:
        return refund(folder, case.case, customer, case.amount)
    except Rejected as no:
        return f"refused: {no}"


def prepare(folder: Path) -> None:
    """Cases and orders for the story."""
    (folder / "cases.csv").write_text(
        "case,order,amount\nc1,o1,40\nc2,o2,500\nc3,o3,30\nc4,o2,900\n", "utf-8"
    )
    (folder / "orders.csv").write_text("order,customer,paid\no1,ann,50\no2,ben,900\no3,cid,20\n", "utf-8")


async def main(folder: Path) -> None:
    answers = iter([{"approve": True, "arguments": {"amount": 450}}, None])
    async with Runtime(folder / "flows.db") as rt:
        outcome = await rt.run(desk, folder)
        while isinstance(outcome, Paused):
            (hold,) = outcome.holds
            asked, answer = hold.payload["arguments"], next(answers)
            print(f"{asked['case']}: refund {asked['amount']} to {asked['customer']}?")
            if answer is None:
                await rt.reject(hold.id, "one refund an order", actor="bob")
            else:
                await rt.answer(hold.id, answer, actor="alice")
            outcome = await outcome.run.settled()
        if isinstance(outcome, Completed):
            for item in outcome.value:
                print(f"{item.case}: {item.outcome}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        anyio.run(main, Path(name))
        print(f"the ledger: {[(line['case'], line['amount']) for line in ledger(Path(name))]}")
