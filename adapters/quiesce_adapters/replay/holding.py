"""What does a branch do in its run's transaction when it asks, waits for a child run, or has lost?

Source: spec graph, "Pause" and "Model" (flows as nodes); spec engine, 4 (holds).
"""

from __future__ import annotations

from datetime import timedelta

from quiesce.backend import Host
from quiesce.flows import Flow
from quiesce.graph.rows import Branch
from quiesce.graph.transitions import Pause
from quiesce.graph.walk import Walk
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules import ending, fence, holds, starting
from quiesce.rules.requests import Request
from quiesce.runs import Lock
from quiesce.states import ENDED, RunState
from quiesce.store import Transaction

from .asking import question
from .frontier import Links

__all__ = ["abandon", "ask", "fence_for", "hang", "is_open", "withdraw"]


def is_open(hold: HoldRecord | None) -> bool:
    """Whether somebody may still answer it."""
    return hold is not None and hold.state == "open"


def ask(host: Host, tx: Transaction, run: RunRecord, links: Links, branch: Branch, pause: Pause) -> None:
    """Open the hold of a branch. Raises InputRejected, NotSerializable."""
    asked = question(branch, pause, tx.now)
    links.hold[branch.id] = holds.ask(tx, run, asked, host.clock.new_id("hold")).id
    if asked.deadline is not None:
        host.deadline_changed()


def fence_for(host: Host, tx: Transaction, run: RunRecord, pause: Pause) -> None:
    """Pause the run of a branch that asks."""
    lock = Lock("holds", pause.reason, None, tx.now)
    if run.state is RunState.RUNNING:
        drain_until = tx.now + timedelta(seconds=host.drain_timeout)
        fence.fence(tx, run, lock, drain_until=drain_until, cause="pause")
    elif "holds" not in run.locks:
        run.locks["holds"] = lock
        run.updated_at = tx.now
        tx.save_run(run, generation=run.generation)


def withdraw(tx: Transaction, run: RunRecord, links: Links, branch_id: int, because: str) -> None:
    """Nobody asks any more what this branch asked."""
    hold_id = links.hold.pop(branch_id, None)
    hold = None if hold_id is None else tx.hold(hold_id)
    if hold is not None and is_open(hold):
        hold.state, hold.answered_at = "withdrawn", tx.now
        tx.settle_hold(hold)
        tx.log(run, "withdrawn", None, None, {"hold": hold.id, "because": because})


def abandon(tx: Transaction, run: RunRecord, links: Links, branch_id: int) -> None:
    """A branch lost its race while it asked or waited: nobody wants its answer any more."""
    withdraw(tx, run, links, branch_id, "its branch lost a race")
    child = tx.run(links.child.pop(branch_id, ""))
    if child is not None and child.state not in (RunState.COMPLETED, RunState.CANCELLED):
        request = Request("cancel", child.id, f"race in {run.id}", run.id, remember=False)
        ending.cancel(tx, request, child.id)


def hang(
    host: Host, tx: Transaction, run: RunRecord, walk: Walk, links: Links, branch: Branch, flow: Flow
) -> None:
    """Let a branch wait for its child run; start that if there is none, or if it was cancelled."""
    child = tx.run(links.child.get(branch.id, ""))
    if child is not None and child.state is not RunState.CANCELLED:
        if child.state in ENDED:
            walk.requeue(branch.id)  # while this was decided
        else:
            walk.hang(branch.id)
        return
    what, value = host.describe(flow, branch.input)
    child_id = f"{run.id}.{len(tx.children(run.id)) + 1}"
    links.child[branch.id] = child_id
    branch.attempt = 1
    walk.hang(branch.id)
    request = Request("start", "", "", run.id, remember=False)
    starting.start(tx, request, child_id, what, value, parent=(run.id, branch.id))
