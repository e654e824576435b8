"""Does the code of a flow still fit a run that was started with it, and an answer what was asked?

A run is tied to its flow's signature and version. If they changed while it was paused, a resume says what
changed and refuses; going on with the new code is somebody's decision, recorded by a retry.

Source: spec graph (durable graphs); cases failures-agent-frameworks 42.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiesce import codec
from quiesce.errors import AnswerRejected, FlowChanged, FlowNotFound, InputRejected, QuiesceError
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules import holds, release
from quiesce.rules.starting import Definition

if TYPE_CHECKING:
    from quiesce.hosting import Hosting

__all__ = ["check_sole", "check_typed", "code_changed", "new_code", "standing_fault"]


def code_changed(host: Hosting, run: RunRecord, flow: Any) -> FlowChanged | None:
    if run.signature is None:
        return None
    mechanism = host.mechanism(run.kind)
    ref = run.signature
    stored = host.read(lambda tx: tx.value(run.id, ref))
    old = codec.decode(stored) if isinstance(stored, bytes) else stored
    new = mechanism.signature(flow)
    lines = list(mechanism.changes(old, new)) if old != new else []
    version = mechanism.version(flow)
    if not lines and version != run.version:
        lines = [f"version {run.version} -> {version}"]
    if not lines:
        return None
    return FlowChanged(
        f"{run.flow} has changed since run {run.id!r} was started: {'; '.join(lines)}; "
        f"go on with the new code by retry(accept_changes=True) (flowctl retry {run.id} "
        "--accept-changes), or bring the old code back",
        diff=lines,
    )


def standing_fault(host: Hosting, run: RunRecord) -> str | None:
    lock = run.locks.get("fault")
    if lock is None:
        return None
    try:
        changed = code_changed(host, run, host.flows.get(run.flow))
    except FlowNotFound as error:
        return str(error)
    if changed is not None:
        return str(changed)
    if "has changed since" in (lock.reason or ""):
        return None
    if "of the journal" not in (lock.reason or ""):
        return lock.reason
    different = host.mechanism(run.kind).differs(host, run, host.flows.get(run.flow))
    return None if different is None else str(different)


def new_code(host: Hosting, run: RunRecord) -> Definition:
    """The definition of the run's flow as it is now."""
    return host.define(host.flows.get(run.flow), run.flow)


def check_typed(host: Hosting, hold: HoldRecord, value: Any) -> None:
    """Hold an answer against what was declared: its schema, and the type itself where that is known here.

    Where it is not, whoever drives the run holds it against the type, and asks again if it does not fit.

    Raises:
        AnswerRejected: with the validator's message; nothing was changed.
    """
    host.read(lambda tx: holds.check_answer(hold, value))
    driver = host.drivers.get(hold.run_id)
    declared = driver.expects(hold) if driver is not None else None
    if declared is not None:
        try:
            codec.validate_json(value, declared)
        except InputRejected as refused:
            raise AnswerRejected(str(refused)) from None


def check_sole(host: Hosting, run: RunRecord, hold_id: str | None, value: Any) -> None:
    """The same for an answer that comes with a resume, if it is clear which hold it is for."""
    try:
        hold, _ = host.read(lambda tx: release.sole_hold(tx, run, hold_id))
    except QuiesceError:
        return  # what is wrong is told by the verb itself
    check_typed(host, hold, value)
