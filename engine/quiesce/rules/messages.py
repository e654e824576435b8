"""What does a message to a run leave behind?

It is kept in the box of the run until a body takes it, whatever state the run is in; it never resumes
anything. What was sent before the `receive`, or before the start, counts.

Source: spec agent, "Concurrency"; spec engine, 4 (fresh work); cases agent S46.
"""

from __future__ import annotations

from typing import Any

from quiesce.errors import IllegalTransition
from quiesce.rules.requests import Request, finish, found, replay
from quiesce.runs import Ack
from quiesce.states import ENDED
from quiesce.store import Transaction

__all__ = ["send"]


def send(tx: Transaction, request: Request, run_id: str, value: Any) -> Ack:
    """Put a message into the box of a run.

    Raises:
        IllegalTransition: the run has ended, or is of a kind that takes no messages.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = found(tx, run_id)
    if run.kind == "graph":
        raise IllegalTransition(
            run.id, run.state, "send", f"run {run.id!r} is a graph, which takes no messages; answer its holds"
        )
    if run.state in ENDED:
        raise IllegalTransition(
            run.id,
            run.state,
            "send",
            f"cannot send to run {run.id!r}: it is {run.state}, so nobody would receive it",
        )
    tx.put_message(run.id, value)
    tx.log(run, "message", request.actor, request.id, {})
    return finish(tx, request, Ack(request.id, run.id, False, run.generation))
