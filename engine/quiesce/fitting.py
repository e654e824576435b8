"""Does the code of a flow still fit a run that was started with it?

A run is tied to its flow's signature and version. If they changed while it was paused, a resume says what
changed and refuses; going on with the new code is somebody's decision, recorded by a retry.

Source: spec graph (durable graphs); cases failures-agent-frameworks 42.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quiesce import codec
from quiesce.errors import FlowChanged, FlowNotFound
from quiesce.records import RunRecord
from quiesce.rules.starting import Definition

if TYPE_CHECKING:
    from quiesce.hosting import Hosting

__all__ = ["code_changed", "new_code", "standing_fault"]


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
