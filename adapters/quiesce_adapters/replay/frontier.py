"""How does the frontier of a graph become rows, and a walk again?

A durable run keeps one row per branch, one per open fan-out and one per payload that has arrived; each
applied transition writes the rows that it touched and no other. Values are kept apart (`put_value`), so a
branch that moves does not rewrite what it carries. A run in memory keeps no rows: `LiveFrontier` shows
the walk itself to the rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from quiesce import codec
from quiesce.errors import FlowChanged
from quiesce.graph import Graph
from quiesce.graph.rows import Branch, Changes, Counters, Group
from quiesce.graph.transitions import Concurrency, JoinInput
from quiesce.graph.walk import Walk
from quiesce.store import ArrivalRow, GroupRow, PieceRow, Reader, RunRecord, Transaction

__all__ = ["Links", "LiveFrontier", "pack", "restore", "save"]

_TO_ROW = {"paused": "held"}
_TO_BRANCH = {"held": "paused", "failed": "queued"}
_GATHERED = b"~gathered "  # no value that the codec writes begins so


class Links:
    """What a branch hangs on beside its node: the hold it asks, the child run it waits for, its losses."""

    __slots__ = ("child", "hold", "lost")

    def __init__(self) -> None:
        self.hold: dict[int, str] = {}
        self.child: dict[int, str] = {}
        self.lost: dict[int, int] = {}


class LiveFrontier:
    """The frontier of a run that keeps no rows, as the rules see it."""

    def __init__(self, walk: Walk, links: Links) -> None:
        self.walk = walk
        self.links = links

    def rows(self) -> Iterable[PieceRow]:
        """Every branch, by id."""
        return [_row(branch, self.links, None) for branch in self.walk.branches]

    def counts(self) -> Mapping[str, int]:
        """How many branches are in each state."""
        return {_TO_ROW.get(state, state): count for state, count in self.walk.counts.items()}

    def wake(self, pieces: Collection[int] | None) -> int:
        """Queue paused or waiting branches again."""
        ids = [branch.id for branch in self.walk.paused] if pieces is None else sorted(pieces)
        woken = 0
        for branch_id in ids:
            if branch_id in self.walk and self.walk[branch_id].state in ("paused", "waiting"):
                self.walk.wake(branch_id)
                woken += 1
        return woken

    def requeue(self) -> int:
        """Queue again whatever is in flight."""
        running = self.walk.running
        for branch in running:
            self.walk.requeue(branch.id)
        return len(running)


def pack(graph: Graph, node: str, value: Any) -> bytes:
    """The input of a node as bytes. Raises NotSerializable."""
    ref = graph.nodes.get(node)
    return codec.encode(value, ref.input_type if ref else None, place=f"input of node {node!r}")


def save(
    tx: Transaction, run_id: str, graph: Graph, changes: Changes, links: Links, packed: dict[int, bytes]
) -> dict[int, int]:
    """Write what changed; `packed` has the bytes of values by `id`. Returns value references by `id`."""
    refs: dict[int, int] = {}
    if changes.opened:
        tx.put_groups(
            run_id,
            [
                GroupRow(group.id, group.join, group.size, [group.concurrency.value, group.max_parallelism])
                for group in changes.opened
            ],
        )
    rows = []
    for branch in changes.put:
        ref = refs.get(id(branch.input))
        if ref is None or isinstance(branch.input, JoinInput):
            data = _join_bytes(tx, run_id, graph, branch) if isinstance(branch.input, JoinInput) else None
            data = data or packed.get(id(branch.input)) or pack(graph, branch.node, branch.input)
            ref = refs[id(branch.input)] = tx.put_value(run_id, data)
        rows.append(_row(branch, links, ref))
    tx.put_pieces(run_id, rows)
    tx.move_pieces(run_id, [_row(branch, links, None) for branch in changes.moved])
    if changes.dropped:
        tx.drop_pieces(run_id, changes.dropped)
    if changes.arrivals:
        arrivals = []
        for item in changes.arrivals:
            data = packed.get(id(item.payload)) or _payload_bytes(graph, tx, item.source, item.payload, None)
            ref = refs[id(item.payload)] = tx.put_value(run_id, data)
            arrivals.append(ArrivalRow(item.group, item.index, item.source, ref))
        tx.put_arrivals(run_id, arrivals)
    if changes.closed:
        tx.drop_groups(run_id, changes.closed)
    counters = changes.counters
    tx.put_counters(run_id, [counters.next_branch, counters.next_order, counters.next_group])
    return refs


def restore(tx: Reader, run: RunRecord, graph: Graph) -> tuple[Walk, Links]:
    """The walk that the rows of a run describe; what was in flight counts as queued.

    Raises:
        FlowChanged: a branch stands at a node that the graph does not have any more.
    """
    links = Links()
    branches = []
    rows = tx.pieces(run.id)
    gone = sorted({row.name for row in rows if row.name not in graph.nodes})
    if gone:
        names = ", ".join(map(repr, gone))
        raise FlowChanged(
            f"run {run.id!r} stands at {names}, which {run.flow} does not have any more; "
            "bring the node back, or reset the run",
            diff=[f"node {name!r} was removed" for name in gone],
        )
    for row in rows:
        concurrency, places = row.detail if row.detail is not None else [graph.concurrency.value, []]
        branch = Branch(
            id=row.piece,
            node=row.name,
            input=_unpack(tx, run, graph, row),
            concurrency=Concurrency(concurrency),
            groups=tuple((group, index) for group, index in places),
            state="queued" if row.state == "running" else _TO_BRANCH.get(row.state, row.state),  # type: ignore[arg-type]
            order=row.position,
            attempt=row.attempt or 1,
        )
        branches.append(branch)
        if row.hold is not None:
            links.hold[row.piece] = row.hold
        if row.child is not None:
            links.child[row.piece] = row.child
        if row.lost:
            links.lost[row.piece] = row.lost
    groups = {
        row.group: Group(row.group, row.join, row.size, Concurrency(row.detail[0]), row.detail[1])
        for row in tx.groups(run.id)
    }
    for arrival in tx.arrivals(run.id):
        group = groups[arrival.group]
        declared = graph.payload_type(arrival.source, group.join or "")
        group.arrived[arrival.index] = codec.decode(tx.value(run.id, arrival.value), declared)
        group.sources[arrival.index] = arrival.source
    stored = tx.counters(run.id)
    counters = Counters(*stored) if stored else Counters(2, 2, 1)
    return Walk.restore(graph.concurrency, branches, groups.values(), counters), links


def _row(branch: Branch, links: Links, ref: int | None) -> PieceRow:
    return PieceRow(
        piece=branch.id,
        kind="branch",
        state=_TO_ROW.get(branch.state, branch.state),
        name=branch.node,
        position=branch.order,
        value=ref,
        detail=[branch.concurrency.value, branch.groups],
        attempt=branch.attempt,
        lost=links.lost.get(branch.id, 0),
        child=links.child.get(branch.id),
        hold=links.hold.get(branch.id),
    )


def _unpack(tx: Reader, run: RunRecord, graph: Graph, row: PieceRow) -> Any:
    if row.value is None:
        return None
    data = tx.value(run.id, row.value)
    if data.startswith(_GATHERED):
        node = row.name
        parts = json.loads(data[len(_GATHERED) :])
        return JoinInput(
            (codec.decode(tx.value(run.id, ref), graph.payload_type(source, node)) for source, ref in parts),
            sources=[source for source, _ in parts],
        )
    return codec.decode(data, graph.nodes[row.name].input_type)


def _payload_bytes(graph: Graph, tx: Reader, source: str, payload: Any, join: str | None) -> bytes:
    declared = graph.payload_type(source, join or "")
    return codec.encode(payload, declared, place=f"payload of node {source!r}")


def _join_bytes(tx: Transaction, run_id: str, graph: Graph, branch: Branch) -> bytes | None:
    """A join's input as references to what arrived, so that no payload is written twice."""
    gathered = branch.input
    assert isinstance(gathered, JoinInput)
    if len(gathered.sources) != len(gathered):
        return None
    parts = [
        [source, tx.put_value(run_id, _payload_bytes(graph, tx, source, payload, branch.node))]
        for source, payload in zip(gathered.sources, gathered, strict=True)
    ]
    return _GATHERED + json.dumps(parts).encode()
