"""How does the frontier of a graph become rows, and a walk again?

A durable run keeps one row per branch, one per open fan-out and one per payload that has arrived; each
applied transition writes the rows that it touched and no other. Values are kept apart (`put_value`), so a
branch that moves does not rewrite what it carries. A run in memory keeps no rows: `LiveFrontier` shows
the walk itself to the rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from quiesce import codec
from quiesce.errors import FlowChanged, NotSerializable, QuiesceError
from quiesce.graph import Graph
from quiesce.graph.history import StoredValue, frontier_before
from quiesce.graph.rows import Branch, BranchState, Changes, Counters, Group
from quiesce.graph.transitions import Concurrency, FanOut, Finish, Join, JoinInput, Next
from quiesce.graph.walk import Walk
from quiesce.records import ArrivalRow, GroupRow, PieceRow, RunRecord
from quiesce.store import Reader, Transaction

__all__ = [
    "Links",
    "LiveFrontier",
    "Packed",
    "Refs",
    "copy_before",
    "pack",
    "pack_payload",
    "pack_result",
    "restore",
    "save",
]

_TO_ROW = {"paused": "held"}
_TO_BRANCH = {"held": "paused", "failed": "queued"}
_GATHERED = b"~gathered "  # no value that the codec writes begins so


class Links:
    """What goes with a walk: the hold that a branch asks, the run it waits for, how often it was lost."""

    __slots__ = ("child", "hold", "lost", "visits")

    def __init__(self) -> None:
        self.hold: dict[int, str] = {}
        self.child: dict[int, str] = {}
        self.lost: dict[int, int] = {}
        self.visits = 0
        """How many visits this execution has had."""


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

    def wake(self, pieces: Collection[int] | None, *, child: str | None = None) -> int:
        """Queue paused or waiting branches again."""
        ids = [branch.id for branch in self.walk.paused] if pieces is None else sorted(pieces)
        woken = 0
        for branch_id in ids:
            if child is not None and self.links.child.get(branch_id) != child:
                continue
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


Packed = dict[tuple[int, str], bytes]
"""The bytes of values by `id` and the node that they go to, whose type says how they are written."""
Refs = dict[tuple[int, str], int]
"""Where those bytes are in the store."""


def pack_result(graph: Graph, walk: Walk, branch: Branch, result: object) -> Packed:
    """The values that the result of a visit hands on, as bytes. Raises NotSerializable."""
    match result:
        case Next(node, value):
            return {(id(value), node): pack(graph, node, value)}
        case FanOut(targets):
            return {
                (id(target.value), target.node): pack(graph, target.node, target.value) for target in targets
            }
        case Join(node, value):
            return {(id(value), node): pack_payload(graph, branch.node, node, value)}
        case Finish(value):
            into = walk.arrives_at(branch.id)
            if into is not None:
                return {(id(value), into): pack_payload(graph, branch.node, into, value)}
            place = f"result of node {branch.node!r}"
            return {(id(value), ""): codec.encode(value, graph.output_type, place=place)}
    return {}


def save(tx: Transaction, run_id: str, graph: Graph, changes: Changes, links: Links, packed: Packed) -> Refs:
    """Write what changed; returns where the values went."""
    refs: Refs = {}
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
        key = (id(branch.input), branch.node)
        if isinstance(branch.input, JoinInput):
            refs[key] = _put_gathered(tx, run_id, graph, branch.node, branch.input, refs)
        elif key not in refs:
            refs[key] = tx.put_value(run_id, packed.get(key) or pack(graph, branch.node, branch.input))
        rows.append(_row(branch, links, refs[key]))
    tx.put_pieces(run_id, rows)
    tx.move_pieces(run_id, [_row(branch, links, None) for branch in changes.moved])
    if changes.dropped:
        tx.drop_pieces(run_id, changes.dropped)
    if changes.arrivals:
        arrivals = []
        for item in changes.arrivals:
            for key in [key for key in packed if key[0] == id(item.payload)]:
                refs[key] = tx.put_value(run_id, packed[key])
                arrivals.append(ArrivalRow(item.group, item.index, item.source, refs[key]))
        tx.put_arrivals(run_id, arrivals)
    if changes.closed:
        tx.drop_groups(run_id, changes.closed)
    counters = changes.counters
    tx.put_counters(run_id, [counters.next_branch, counters.next_order, counters.next_group, links.visits])
    return refs


def restore(tx: Reader, run: RunRecord, graph: Graph) -> tuple[Walk, Links]:
    """The walk that the rows of a run describe; what was in flight counts as queued.

    A branch that a verb has woken still counts as paused, so that its driver queues it where it belongs.

    Raises:
        FlowChanged: a branch stands at a node, or will join at one, that the graph does not have any
            more; or what is stored for a node does not fit it any more.
    """
    links = Links()
    branches = []
    rows = tx.pieces(run.id)
    groups = {
        row.group: Group(row.group, row.join, row.size, Concurrency(row.detail[0]), row.detail[1])
        for row in tx.groups(run.id)
    }
    places = {row.name for row in rows} | {group.join for group in groups.values() if group.join is not None}
    if gone := sorted(places - graph.nodes.keys()):
        names = ", ".join(map(repr, gone))
        raise FlowChanged(
            f"{run.flow} has changed since run {run.id!r} came to {names}, which it does not have any more; "
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
            state=_state_of(row),
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
    for arrival in tx.arrivals(run.id):
        group = groups[arrival.group]
        group.arrived[arrival.index] = _payload(
            tx, run, graph, arrival.source, group.join or "", arrival.value
        )
        group.sources[arrival.index] = arrival.source
    stored = tx.counters(run.id)
    counters = Counters(*stored[:3]) if stored else Counters(2, 2, 1)
    links.visits = stored[3] if stored else 0
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


def _state_of(row: PieceRow) -> BranchState:
    if row.woken:
        return "paused"
    return "queued" if row.state == "running" else _TO_BRANCH.get(row.state, row.state)  # type: ignore[return-value]


def _unpack(tx: Reader, run: RunRecord, graph: Graph, row: PieceRow) -> Any:
    if row.value is None:
        return None
    data = tx.value(run.id, row.value)
    if data.startswith(_GATHERED):
        parts = json.loads(data[len(_GATHERED) :])
        return JoinInput(
            (_payload(tx, run, graph, source, row.name, ref) for source, ref in parts),
            sources=[source for source, _ in parts],
        )
    return _decoded(run, row.name, data, graph.nodes[row.name].input_type)


def _payload(tx: Reader, run: RunRecord, graph: Graph, source: str, join: str, ref: int) -> Any:
    return _decoded(run, join, tx.value(run.id, ref), graph.payload_type(source, join))


def _decoded(run: RunRecord, node: str, data: bytes, declared: Any) -> Any:
    try:
        return codec.decode(data, declared)
    except NotSerializable as error:
        raise FlowChanged(
            f"{run.flow} has changed since run {run.id!r} came to {node!r}, and what is stored for that node "
            f"does not fit it any more: {error}; bring its type back, or reset the run",
            diff=[f"node {node!r}: {error}"],
        ) from error


def pack_payload(graph: Graph, source: str, join: str, payload: Any) -> bytes:
    """What a branch brings to a join, as bytes. Raises NotSerializable."""
    declared = graph.payload_type(source, join)
    return codec.encode(payload, declared, place=f"payload of node {source!r}")


def _put_gathered(
    tx: Transaction, run_id: str, graph: Graph, join: str, gathered: JoinInput[Any], refs: Refs
) -> int:
    """A join's input as references to what arrived, so that no payload is written twice."""
    parts = []
    for source, payload in zip(gathered.sources, gathered, strict=True):
        ref = tx.put_value(run_id, pack_payload(graph, source, join, payload))
        refs[id(payload), join] = ref
        parts.append([source, ref])
    return tx.put_value(run_id, _GATHERED + json.dumps(parts).encode())


def copy_before(tx: Transaction, old: RunRecord, new_id: str, graph: Graph, at: int) -> None:
    """Give the run `new_id` the frontier that `old` had before its visit number `at`.

    Raises:
        QuiesceError: the run has no such visit.
    """
    visits = [row[8] for row in _all_events(tx, old.id) if row[5] == "visit" and row[3] == old.execution]
    try:
        walk = frontier_before(graph.concurrency, old.entry, old.input, visits, at)
    except ValueError as error:
        raise QuiesceError(f"run {old.id!r} cannot be forked at visit {at}: {error}") from None
    copied: dict[int, int] = {}

    def copy(ref: int | None) -> int | None:
        if ref is None:
            return None
        if ref not in copied:
            data = tx.value(old.id, ref)
            if data.startswith(_GATHERED):
                parts = [[source, copy(part)] for source, part in json.loads(data[len(_GATHERED) :])]
                data = _GATHERED + json.dumps(parts).encode()
            copied[ref] = tx.put_value(new_id, data)
        return copied[ref]

    changes, links = walk.drain(), Links()
    links.visits = at - 1
    if changes.opened:
        tx.put_groups(
            new_id,
            [
                GroupRow(group.id, group.join, group.size, [group.concurrency.value, group.max_parallelism])
                for group in changes.opened
            ],
        )
    rows = []
    for branch in changes.put:
        if isinstance(branch.input, JoinInput):
            parts = [
                [source, copy(value.ref)]
                for source, value in zip(branch.input.sources, branch.input, strict=True)
            ]
            ref: int | None = tx.put_value(new_id, _GATHERED + json.dumps(parts).encode())
        else:
            assert isinstance(branch.input, StoredValue)
            ref = copy(branch.input.ref)
        rows.append(_row(branch, links, ref))
    tx.put_pieces(new_id, rows)
    arrivals = []
    for item in changes.arrivals:
        assert isinstance(item.payload, StoredValue)
        payload = copy(item.payload.ref)
        assert payload is not None
        arrivals.append(ArrivalRow(item.group, item.index, item.source, payload))
    tx.put_arrivals(new_id, arrivals)
    counters = changes.counters
    tx.put_counters(new_id, [counters.next_branch, counters.next_order, counters.next_group, links.visits])


def _all_events(tx: Transaction, run_id: str) -> Iterator[tuple[Any, ...]]:
    after = 0
    while rows := tx.events(run_id, after, 1000):
        yield from rows
        after = rows[-1][0]
