"""Which runs does this process take up, and which does it leave to others?

A run that can go on is driven by whoever holds its lease; if nobody living does, by a living worker that
serves its flow and version; else by this process. Source: spec engine, 4 and 7 (who drives).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from quiesce.errors import FlowNotFound, NotSerializable, StoreBusy, StoreError
from quiesce.fitting import code_changed
from quiesce.records import RunRecord
from quiesce.rules import claims
from quiesce.rules.requests import found
from quiesce.states import ACTIVE, RunState
from quiesce.store import Reader, Transaction

if TYPE_CHECKING:
    from quiesce.hosting import Hosting

__all__ = [
    "claim_inside",
    "claim_run",
    "claim_waiting",
    "is_left_to",
    "is_mine_to_drive",
    "served_elsewhere",
    "wants",
]

log = logging.getLogger("quiesce")


def is_mine_to_drive(host: Hosting, tx: Reader, run: RunRecord) -> bool:
    return host.flows.known(run.flow) is not None and is_left_to(host, tx, run)


def is_left_to(host: Hosting, tx: Reader, run: RunRecord) -> bool:
    """Whether it could go on, and nobody else who lives drives it or would."""
    if run.id in host.drivers or not _has_work(tx, run):
        return False
    if run.lease_holder is not None and tx.alive(run.lease_holder):
        return False
    return run.id in host.taken or not served_elsewhere(host, tx, run)


def _has_work(tx: Reader, run: RunRecord) -> bool:
    """Whether somebody must drive it; of a team that does not run only what a user directed may begin."""
    if run.state is RunState.RUNNING or run.kind != "team":
        return run.state is RunState.RUNNING
    return run.state in ACTIVE and any(kind == "directed" for _, kind, _ in tx.queue_lengths(run.id))


def served_elsewhere(host: Hosting, tx: Reader, run: RunRecord) -> bool:
    """Whether another living process serves this flow and version; it will claim the run when rung."""
    if not host.store.shared or run.flow in host.serves:
        return False
    return any(
        (run.flow, run.version) in worker.flows
        and worker.incarnation != host.worker
        and tx.alive(worker.incarnation)
        for worker in tx.workers()
    )


async def claim_waiting(host: Hosting, run_ids: Iterable[str] = ()) -> None:
    """Claim running runs that nobody living drives: of the served flows, and of `run_ids`."""
    if not host.drive or host.closing:
        return
    served = set(host.serves)
    ids = host.read(lambda tx: tx.claimable(served)) if served else []
    wanted = set(run_ids)
    refused: StoreError | None = None
    for run_id in dict.fromkeys([*ids, *wanted]):
        try:
            if run_id in ids or wants(host, run_id):
                await claim_run(host, run_id)
        except StoreError as error:  # perhaps of this run alone: the others are claimed all the same
            log.warning("run %s is not claimed: %s", run_id, error)
            if run_id in wanted or isinstance(error, StoreBusy):
                refused = error
    if refused is not None:
        raise refused


async def claim_run(host: Hosting, run_id: str) -> None:
    run = host.read(lambda tx: tx.run(run_id))
    if run is None or run_id in host.drivers or run_id in host.broken:
        return
    try:
        fault = code_changed(host, run, host.flows.get(run.flow))
    except FlowNotFound:
        return
    except NotSerializable as error:  # what the store has of its code is damaged
        host.break_off(run_id, error)
        return

    def take(tx: Transaction) -> RunRecord | None:
        now = found(tx, run_id)
        if not _has_work(tx, now) or tx.alive(now.lease_holder):
            return None
        if fault is not None:
            claims.fault(tx, now, str(fault))
            return None
        return claims.claim(tx, run_id, host.worker)

    def committed(taken: RunRecord | None) -> None:
        if taken is not None:
            host.spawn(taken)
        host.tell([run_id])
        if fault is not None and host.store.shared:
            host.store.ring()

    await host.store.write(take, committed=committed)


async def claim_inside(host: Hosting, run_id: str) -> None:
    """Claim what is inside a run that this process took up: its flows may not have been loaded here yet."""
    inside = host.read(lambda tx: tx.children(run_id))
    await claim_waiting(host, [child.id for child in inside if child.state is RunState.RUNNING])


def wants(host: Hosting, run_id: str) -> bool:
    """Whether it is this process's to drive, of which somebody here wants to know or to go on."""
    run = host.read(lambda tx: tx.run(run_id))
    if run is None:
        return False
    if (
        host.flows.known(run.flow) is None
        and run_id not in host.waiters
        and run.parent_id not in host.drivers
    ):
        return False
    return host.read(lambda tx: is_left_to(host, tx, run))
