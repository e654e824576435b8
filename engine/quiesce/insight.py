"""Where does a run stand, why does it not move, and what would a resume do? For a person at 3 a.m.

Facts, read in one view of the store; nothing is changed and nobody is told. Which piece a resume
evaluates again follows the rules of `release.py` and `claims.py`: what was in flight when its process
died is evaluated again, and so is a gate that is let go; what asks for a typed answer is carried.

Source: spec engine, 7 (`explain`, `show`); spec graph ("`flowctl explain` says what a resume will
evaluate again").
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from quiesce import journaling, standstill
from quiesce.errors import FlowNotFound
from quiesce.fitting import code_changed
from quiesce.hosting import Hosting
from quiesce.records import PieceRow, RunFilter, RunRecord
from quiesce.rules.requests import found
from quiesce.rules.starting import enclosing_fence, first_piece
from quiesce.rules.status import event_value, receipt_value, status
from quiesce.runs import Event, Receipt, RunStatus, Value
from quiesce.states import ENDED, RunState
from quiesce.store import Reader

__all__ = [
    "Code",
    "Explanation",
    "Overview",
    "Piece",
    "Process",
    "View",
    "explain",
    "overview",
    "view",
    "where",
]

PAGE = 500
"""Rows of the log that are read at once."""


@dataclass(frozen=True, slots=True)
class Piece(Value):
    """One piece of a run that is not done: a branch, a body or a turn, and where it stands.

    `state`: `queued`, `running`, `held` (it asks `hold`), `waiting` (for the run `child`) or `failed`.
    `lost` counts the processes that died while it ran.
    """

    piece: int
    kind: str
    name: str
    state: str
    attempt: int
    lost: int
    child: str | None
    hold: str | None


@dataclass(frozen=True, slots=True)
class Process(Value):
    """One incarnation of a process that drives runs. `alive` is the operating system's word."""

    incarnation: int
    pid: int
    host: str
    started_at: datetime
    alive: bool
    flows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View(Value):
    """A run in full: its snapshot, its pieces, the receipts of its episode, its newest events.

    `journal` is an agent's; `stands_at` is the line where its body stands, if it does.
    """

    status: RunStatus
    pieces: tuple[Piece, ...]
    receipts: tuple[Receipt, ...]
    events: tuple[Event, ...]
    journal: tuple[journaling.Line, ...] = ()
    stands_at: journaling.Place | None = None


@dataclass(frozen=True, slots=True)
class Code(Value):
    """Whether the flow's code still fits: True, False with `changes`, None if it cannot be `loaded`."""

    fits: bool | None
    changes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation(Value):
    """Why a run does not move, and what would happen if it were resumed (or retried, if it failed).

    `fenced_by` is the enclosing run that keeps this one. `overdue_since` is the bound of its drain, once
    that has passed. `served_by` are living workers that serve its flow and version. `again` are places
    that would be evaluated (again), `fresh` those that are queued and have not begun, `carried` those
    that keep their question.
    """

    status: RunStatus
    holder: Process | None
    served_by: tuple[Process, ...]
    fenced_by: str | None
    draining: tuple[str, ...]
    overdue: tuple[str, ...]
    drain_until: datetime | None
    again: tuple[str, ...]
    fresh: tuple[str, ...]
    carried: tuple[str, ...]
    waiting: tuple[str, ...]
    code: Code
    done: int = 0
    """How many places of an agent's journal are given back and not done again."""
    unknown: tuple[str, ...] = ()
    """Its steps that began, and of which nobody knows whether they happened."""
    team: standstill.Standing | None = None
    """The queues and tasks of a team, and what becomes of each turn that it goes on with."""


@dataclass(frozen=True, slots=True)
class Overview(Value):
    """A store at a glance: how many runs are in each state, and what needs somebody."""

    store: str
    counts: dict[str, int]
    open_holds: int
    draining: tuple[str, ...]
    dead: tuple[str, ...]
    """Runs whose process died, so that nobody drives them."""
    unclaimed: tuple[str, ...]
    """Running runs that nobody has claimed yet."""
    workers: tuple[Process, ...]


def view(host: Hosting, run_id: str, *, events: int) -> View:
    """The run in full, with its newest `events` events. Raises RunNotFound."""

    def work(tx: Reader) -> View:
        run = found(tx, run_id)
        receipts = tx.receipts(run.episode_id) if run.episode_id else []
        return View(
            status(tx, run, durable=host.store.durable),
            tuple(_piece(row) for row in _pieces(tx, run)),
            tuple(receipt_value(row) for row in receipts),
            tuple(_newest(tx, run_id, events)),
            journaling.lines(tx, run),
            journaling.stands_at(tx, run),
        )

    return host.read(work)


def _newest(tx: Reader, run_id: str, count: int) -> list[Event]:
    """The newest events of a run. The log is read from a place ever further back, not from its start."""
    last, back = tx.last_event(), max(64, 4 * count)
    while True:
        after = max(0, last - back)
        found: list[Event] = []
        while rows := tx.events(run_id, found[-1].seq if found else after, PAGE):
            found += map(event_value, rows)
        if len(found) >= count or after == 0:
            return found[-count:] if count else []
        back *= 8


def _pieces(tx: Reader, run: RunRecord) -> list[PieceRow]:
    if run.state is RunState.CREATED and run.has_input:
        return [first_piece(run)]
    return list(tx.pieces(run.id))


def _piece(row: PieceRow) -> Piece:
    return Piece(row.piece, row.kind, row.name, row.state, row.attempt, row.lost, row.child, row.hold)


def where(host: Hosting, run_id: str) -> dict[str, dict[str, int]]:
    """At which places the pieces of a run are, by place and state; a held piece is paused there."""

    def work(tx: Reader) -> dict[str, dict[str, int]]:
        run = found(tx, run_id)
        names = {"held": "paused", "failed": "paused"}
        counts: dict[str, Counter[str]] = {}
        for row in _pieces(tx, run):
            counts.setdefault(row.name, Counter())[names.get(row.state, row.state)] += 1
        return {name: dict(count) for name, count in counts.items()}

    return host.read(work)


def explain(host: Hosting, run_id: str) -> Explanation:
    """Why the run does not move, and what a resume would do; loads its flow to compare the code.

    Raises:
        RunNotFound: there is none of this id.
    """
    code = _code(host, host.read(lambda tx: found(tx, run_id)))

    def work(tx: Reader) -> Explanation:
        run = found(tx, run_id)
        now = status(tx, run, durable=host.store.durable)
        lives = run.lease_holder is not None and tx.alive(run.lease_holder)
        episode = tx.episode(run.episode_id) if run.episode_id else None
        receipts = tx.receipts(run.episode_id) if run.episode_id and now.phase == "draining" else []
        late = episode is not None and tx.now >= episode.drain_until
        still = [row for row in receipts if row.drain in ("pending", "overdue")]
        team = standstill.standing(tx, run) if run.kind == "team" else None
        again, fresh, carried, waiting = _next(tx, run, lives, now.phase == "quiescent")
        if team is not None:
            again, fresh, carried = _next_turns(team)
        workers = _processes(tx)
        return Explanation(
            status=now,
            holder=next((item for item in workers if item.incarnation == run.lease_holder), None),
            served_by=tuple(
                process
                for process, record in zip(workers, tx.workers(), strict=True)
                if process.alive and (run.flow, run.version) in record.flows
            ),
            fenced_by=enclosing_fence(tx, run),
            draining=tuple(
                _place(row.name, row.piece) for row in still if not late and row.drain == "pending"
            ),
            overdue=tuple(_place(row.name, row.piece) for row in still if late or row.drain == "overdue"),
            drain_until=episode.drain_until if episode is not None and still else None,
            again=again,
            fresh=fresh,
            carried=carried,
            waiting=waiting,
            code=code,
            done=journaling.done(tx, run),
            unknown=journaling.unknown(tx, run),
            team=team,
        )

    return host.read(work)


def _next(
    tx: Reader, run: RunRecord, holder_lives: bool, quiescent: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What a resume (of a failed run: a retry) would evaluate again, begin, carry and wait for."""
    again: list[str] = []
    fresh: list[str] = []
    carried: list[str] = []
    waiting: list[str] = []
    only_lifts = "operator" in run.locks
    failed = _failed_piece(tx, run)
    for row in _pieces(tx, run):
        place = _place(row.name, row.piece)
        hold = tx.hold(row.hold) if row.hold else None
        match row.state:
            case "queued":
                seen = hold is not None and hold.state != "open"
                begun = seen or row.lost or row.attempt > 1 or row.piece == failed or journaling.done(tx, run)
                begun = begun or (run.kind == "agent" and holder_lives)  # at a fence, where it stands
                (again if begun else fresh).append(place)
            case "running" if not holder_lives or quiescent:  # of a body that waits, in a living process
                again.append(place)
            case "failed":
                again.append(place)
            case "held" if hold is not None and hold.expects is None and not only_lifts:
                again.append(place)
            case "held":
                carried.append(place)
            case "waiting":
                waiting.append(f"{place} waits for run {row.child}")
    return tuple(again), tuple(fresh), tuple(carried), tuple(waiting)


def _next_turns(team: standstill.Standing) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Which turns of a team go on, begin and keep their question; what is skipped is none of them."""
    again: list[str] = []
    fresh: list[str] = []
    carried: list[str] = []
    for turn in team.next:
        place = _place(turn.participant, turn.turn)
        if turn.outcome == "carried":
            carried.append(place)
        elif turn.outcome != "skipped":
            (fresh if turn.how == "begins" else again).append(place)
    return tuple(again), tuple(fresh), tuple(carried)


def _failed_piece(tx: Reader, run: RunRecord) -> int | None:
    """The piece that failed a run, if the store keeps visits; it is queued again, for a retry."""
    if run.state is not RunState.FAILED:
        return None
    visits = [event for event in _newest(tx, run.id, 16) if event.kind == "visit"]
    return visits[-1].data.get("branch") if visits else None


def _place(name: str, piece: int) -> str:
    return name if piece == 1 else f"{name}#{piece}"


def _code(host: Hosting, run: RunRecord) -> Code:
    try:
        flow = host.flows.get(run.flow)
        changed = code_changed(host, run, flow)
    except FlowNotFound as error:
        return Code(None, problem=str(error))
    if changed is not None:
        return Code(False, tuple(changed.diff))
    different = host.mechanism(run.kind).differs(host, run, flow) if run.state not in ENDED else None
    return Code(True) if different is None else Code(False, (str(different),))


def _processes(tx: Reader) -> list[Process]:
    return [
        Process(
            item.incarnation,
            item.pid,
            item.host,
            item.started_at,
            tx.alive(item.incarnation),
            tuple(flow for flow, _ in item.flows),
        )
        for item in tx.workers()
    ]


def overview(host: Hosting) -> Overview:
    """The store at a glance."""

    durable = host.store.durable

    def work(tx: Reader) -> Overview:
        counts = tx.run_counts()
        draining = [
            run.id
            for run_id in tx.unquiet()
            if status(tx, run := found(tx, run_id), durable=durable, brief=True).phase == "draining"
        ]
        runs, _ = tx.runs(RunFilter(states=("running",)), counts.get("running", 0) or 1, None)
        dead = [run.id for run in runs if run.lease_holder is not None and not tx.alive(run.lease_holder)]
        return Overview(
            host.store.label,
            {state.value: counts[state.value] for state in RunState if counts.get(state.value)},
            tx.open_hold_count(),
            tuple(draining),
            tuple(dead),
            tuple(run.id for run in runs if run.lease_holder is None),
            tuple(_processes(tx)),
        )

    return host.read(work)
