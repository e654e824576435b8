"""Does an answer fit what was asked: its schema, and the declared type itself?

The schema is stored with the hold, so any process can hold an answer against it. The type is code, and never
imported by a name in the store: it is known to the driver of the run, and to a process that has a graph. Of
an agent's body, a process that drives nothing (`flowctl answer`) finds it out by executing the body dry over
its journal up to the question; one that drives other runs does not: they would stand still meanwhile. Where
the type is not known, whoever drives the run holds the answer against it, and asks again with the reason if
it does not fit.

Source: spec engine, 4 (answer: validated against the declared type first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiesce.claiming import served_elsewhere
from quiesce.errors import AnswerRejected, FlowNotFound, InputRejected, QuiesceError
from quiesce.fitting import code_changed
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules import holds, release
from quiesce.rules.requests import found

if TYPE_CHECKING:
    from quiesce.hosting import Hosting

__all__ = ["check_answer", "check_sole"]


def check_answer(host: Hosting, hold: HoldRecord, value: Any) -> None:
    """Hold an answer against what was declared.

    Raises:
        AnswerRejected: with the validator's message; nothing was changed.
    """
    host.read(lambda tx: holds.check_answer(hold, value))
    if hold.expects is None:
        return
    driver = host.drivers.get(hold.run_id)
    try:
        if driver is not None:
            driver.check_answer(hold, value)
            return
        run = host.read(lambda tx: found(tx, hold.run_id))
        flow = _flow_at_hand(host, run)
        if flow is not None and code_changed(host, run, flow) is None:
            mechanism = host.mechanism(run.kind)
            mechanism.check_answer(host, run, flow, hold, value, dry=host.drive and not host.drivers)
    except InputRejected as refused:
        raise AnswerRejected(str(refused)) from None


def check_sole(host: Hosting, run: RunRecord, hold_id: str | None, value: Any) -> None:
    """The same for an answer that comes with a resume, if it is clear which hold it is for."""
    try:
        hold, _ = host.read(lambda tx: release.sole_hold(tx, run, hold_id))
    except QuiesceError:
        return  # what is wrong is told by the verb itself
    check_answer(host, hold, value)


def _flow_at_hand(host: Hosting, run: RunRecord) -> Any:
    """The flow of a run, if this process has it or is to drive the run; else None."""
    flow = host.flows.known(run.flow)
    if flow is not None or not host.drive:
        return flow
    if host.read(lambda tx: tx.alive(run.lease_holder) or served_elsewhere(host, tx, run)):
        return None
    try:
        return host.flows.get(run.flow)
    except FlowNotFound:
        return None  # nobody can go on with it here; if that matters, the verb says so
