"""Who may change what of a team's work, and what does an order leave behind?

Structure (which tasks there are, whose, after which others) is changed by the coordinator's turns and from
outside; a task's progress by its owner's turn alone. A turn's order counts only while the run is running at
the turn's generation, which is asked in the same transaction (N7). While the team is paused every order is
refused with `Fenced`, except a user-directed turn and a message, which is stored unread and resumes nothing.

Source: spec team, "Model"; cases team 94 to 99; bad input of issue "teams".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quiesce.errors import Fenced, IllegalTransition, QuiesceError, StaleGeneration
from quiesce.records import RunRecord, TaskRow, TurnRow
from quiesce.rules import ending, turns
from quiesce.rules.claims import current
from quiesce.rules.requests import Request, finish, found, replay
from quiesce.states import ACTIVE, ENDED, RunEvent, RunState, advance
from quiesce.store import Transaction
from quiesce.team.orders import (
    Assign,
    CancelTask,
    Complete,
    CreateTask,
    Direct,
    Fail,
    FinishTeam,
    Order,
    SendTo,
    TakeInbox,
)
from quiesce.team.values import OPEN_TASKS, OrderAck

__all__ = ["By", "carry_out"]

MAX_TITLE = 200
MAX_GOAL = 100_000


@dataclass(frozen=True, slots=True)
class By:
    """Who gives an order: a turn's body, in the run `giver` inside it, under that run's lease."""

    body: str
    giver: str
    holder: int
    epoch: int


def carry_out(tx: Transaction, request: Request, run_id: str, order: Order, by: By | None) -> OrderAck:
    """Do what an order says, once.

    Args:
        by: the body whose turn gives it; None for somebody outside.

    Raises:
        IllegalTransition: the run is no team, or is not under way. Fenced: it is paused.
        StaleGeneration, StaleLease: the turn that gives it is not current any more.
        QuiesceError: the order names what is not there, or what this turn may not change.
    """
    if (known := replay(tx, request, OrderAck)) is not None:
        return known
    run = found(tx, run_id)
    if run.kind != "team":
        raise IllegalTransition(
            run.id,
            run.state,
            order.verb,
            f"run {run.id!r} is of kind {run.kind}, which takes no {order.verb}",
        )
    turn = _giver(tx, run, by) if by is not None else None
    _check_state(run, order)
    ack = _carry_out(tx, request, run, order, turn)
    if not isinstance(order, TakeInbox | Direct):
        _wake(tx, run)
    return finish(tx, request, ack)


def _giver(tx: Transaction, run: RunRecord, by: By) -> TurnRow:
    """The turn of the body that gives an order, if it is current."""
    current(tx, by.giver, by.holder, by.epoch)
    child = found(tx, by.body)
    turn = tx.turn(run.id, child.parent_piece) if child.parent_piece is not None else None
    if turn is None or turn.ended_as is not None:
        raise StaleGeneration(f"the turn of {child.id!r} in run {run.id!r} is over; nothing was changed")
    if turn.generation is not None and run.state is RunState.RUNNING and turn.generation != run.generation:
        raise StaleGeneration(
            f"turn {turn.number} of run {run.id!r} is of generation {turn.generation}, and the run is at "
            f"{run.generation}; nothing was changed",
            expected=turn.generation,
            actual=run.generation,
        )
    return turn


def _check_state(run: RunRecord, order: Order) -> None:
    if run.state not in ACTIVE:
        raise IllegalTransition(
            run.id, run.state, order.verb, f"cannot {order.verb} in run {run.id!r}: it is {run.state}"
        )
    if run.state is RunState.PAUSED and not isinstance(order, Direct | SendTo):
        raise Fenced(
            f"run {run.id!r} is paused by {', '.join(sorted(run.locks))}, so its tasks stay as they are; "
            "resume it first"
        )


def _wake(tx: Transaction, run: RunRecord) -> None:
    """New formal work makes an idle team run again."""
    run = found(tx, run.id)
    if run.state is not RunState.IDLE:
        return
    seen = run.generation
    run.state = advance(run.id, run.state, RunEvent.WORK)
    run.generation += 1
    run.updated_at = tx.now
    tx.save_run(run, generation=seen)
    tx.log(run, "woken", None, None, {})


def _carry_out(
    tx: Transaction, request: Request, run: RunRecord, order: Order, turn: TurnRow | None
) -> OrderAck:
    if isinstance(order, CreateTask | Assign | CancelTask | FinishTeam):
        _must_be_coordinator(tx, run, order, turn)
    match order:
        case CreateTask():
            return _ack(tx, request, run, order, task=_create(tx, run, order))
        case Assign():
            return _ack(tx, request, run, order, task=_assign(tx, run, order))
        case CancelTask(number, reason):
            task = _open_task(tx, run, number)
            turns.end_task(tx, run, task, "cancelled", reason=reason)
            _end_turn_of(tx, run, task, reason or "its task was cancelled")
            return _ack(tx, request, run, order, task=number)
        case Complete(result, number):
            task = _own_task(tx, run, order, turn, number)
            turns.end_task(tx, run, task, "completed", result=tx.put_value(run.id, result))
            return _ack(tx, request, run, order, task=task.number)
        case Fail(reason, number):
            task = _own_task(tx, run, order, turn, number)
            turns.end_task(tx, run, task, "failed", reason=reason)
            return _ack(tx, request, run, order, task=task.number)
        case SendTo(message, to):
            number = _send(tx, run, to, turn.participant if turn else request.actor, message)
            return _ack(tx, request, run, order, messages=(number,))
        case TakeInbox():
            if turn is None:
                raise QuiesceError("only a turn reads its inbox, in its body")
            taken = tx.read_mail(run.id, turn.participant, turn.number)
            return _ack(tx, request, run, order, turn=turn.number, messages=tuple(taken))
        case Direct(member, prompt):
            who = _member(tx, run, member)
            made = turns.admit(tx, run, who, "user_directed", "direct", prompt=tx.put_value(run.id, prompt))
            return _ack(tx, request, run, order, turn=made.number)
        case FinishTeam(result):
            turns.note(tx, run, finish=tx.put_value(run.id, result))
            return _ack(tx, request, run, order)
    raise AssertionError(f"nothing carries out {type(order).__name__}")


def _ack(
    tx: Transaction,
    request: Request,
    run: RunRecord,
    order: Order,
    *,
    task: int | None = None,
    turn: int | None = None,
    messages: tuple[int, ...] = (),
) -> OrderAck:
    told = {"task": task, "turn": turn, "messages": list(messages) or None, "reason": request.reason}
    tx.log(run, order.verb, request.actor, request.id, told)
    return OrderAck(request.id, run.id, True, run.generation, task=task, turn=turn, messages=messages)


# --- who may -----------------------------------------------------------------------------------------------


def _must_be_coordinator(tx: Transaction, run: RunRecord, order: Order, turn: TurnRow | None) -> None:
    if turn is None:
        if isinstance(order, FinishTeam):
            raise QuiesceError(f"only the coordinator finishes run {run.id!r}; cancel it from outside")
        return
    if turn.kind != "coordinator":
        raise QuiesceError(
            f"turn {turn.number} of {turn.participant!r} may not {order.verb}: which tasks there are, and "
            "whose, is changed by the coordinator's turns and from outside"
        )


def _own_task(
    tx: Transaction, run: RunRecord, order: Order, turn: TurnRow | None, number: int | None
) -> TaskRow:
    """The task that a turn says something of: its own."""
    if turn is None:
        raise QuiesceError(f"a task's progress is its owner's: {order.verb} is called in a turn's body")
    if turn.task is None or (number is not None and number != turn.task):
        raise QuiesceError(
            f"turn {turn.number} of {turn.participant!r} may not {order.verb} task "
            f"{number if number is not None else '(it has none)'}: a turn says that of its own task only"
        )
    task = _open_task(tx, run, turn.task)
    if task.owner != turn.participant:
        raise QuiesceError(f"task {task.number} is {task.owner}'s now, not {turn.participant!r}'s")
    return task


# --- tasks -------------------------------------------------------------------------------------------------


def _create(tx: Transaction, run: RunRecord, order: CreateTask) -> int:
    _check_text("title", order.title, MAX_TITLE)
    if order.goal is not None and len(order.goal) > MAX_GOAL:
        raise QuiesceError(
            f"the goal of task {order.title!r} has {len(order.goal)} characters; at most {MAX_GOAL} are kept "
            "with a task: put the text into a file, and its path into the goal"
        )
    if order.owner is not None:
        _member(tx, run, order.owner)
    number = tx.next_task(run.id)
    _check_after(tx, run, number, order.after)
    after = tuple(dict.fromkeys(order.after))
    tx.put_task(run.id, TaskRow(number, run.execution, order.title, order.goal, order.owner, after=after))
    return number


def _assign(tx: Transaction, run: RunRecord, order: Assign) -> int:
    task = _open_task(tx, run, order.task)
    _member(tx, run, order.owner)
    if order.after is not None:
        _check_after(tx, run, task.number, order.after)
    was = task.state
    if task.owner != order.owner:
        _end_turn_of(tx, run, task, f"its task was given to {order.owner}")
        task.owner, task.state = order.owner, "pending"  # also while the body of an old turn still drains
    elif tx.live_turn(run.id, task.number) is None:
        task.state = "pending"
    if order.after is not None:
        task.after = tuple(dict.fromkeys(order.after))
    tx.save_task(run.id, task, was=was)
    return task.number


def _end_turn_of(tx: Transaction, run: RunRecord, task: TaskRow, reason: str) -> None:
    """The turn that works on a task is not wanted any more, nor is its body."""
    turn = tx.live_turn(run.id, task.number)
    if turn is None:
        return
    turns.end(tx, run, turn, "cancelled", reason)
    child = tx.run(turn.child) if turn.child is not None else None
    if child is not None and child.state not in ENDED:
        ending.end_body(tx, child, reason)


def _open_task(tx: Transaction, run: RunRecord, number: int) -> TaskRow:
    task = tx.task(run.id, number)
    if task is None or task.execution != run.execution:
        known = [str(row.number) for row in tx.tasks(run.id) if row.execution == run.execution]
        raise QuiesceError(f"run {run.id!r} has no task {number}; it has {', '.join(known) or 'none'}")
    if task.state not in OPEN_TASKS:
        raise QuiesceError(
            f"task {number} ({task.title}) is {task.state}, which is final; nothing was changed"
        )
    return task


def _check_text(what: str, text: str, most: int) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > most or not text.isprintable():
        shown = f"{len(text)} characters" if isinstance(text, str) else repr(text)[:40]
        raise QuiesceError(f"a {what} is one line of 1 to {most} printable characters, not {shown}")


def _check_after(tx: Transaction, run: RunRecord, number: int, after: tuple[int, ...]) -> None:
    """Dependencies must be there, and must not lead back to the task itself."""
    known: dict[int, TaskRow | None] = {needed: _task_of(tx, run, needed) for needed in after}
    for needed, row in known.items():
        if row is None and needed != number:
            have = ", ".join(str(one.number) for one in tx.tasks(run.id) if one.execution == run.execution)
            raise QuiesceError(
                f"task {number} cannot come after task {needed}: there is none; there are {have or 'none'}"
            )
    paths = [[number, needed] for needed in after]
    seen: set[int] = set()
    while paths:
        path = paths.pop()
        if path[-1] == number:
            raise QuiesceError(
                f"task {number} would have to come after itself: {' after '.join(map(str, path))}; "
                "leave one of these out"
            )
        if path[-1] not in seen:
            seen.add(path[-1])
            row = known.get(path[-1]) or _task_of(tx, run, path[-1])
            paths += [[*path, needed] for needed in row.after] if row is not None else []


def _task_of(tx: Transaction, run: RunRecord, number: int) -> TaskRow | None:
    """A task of this execution; those of an earlier one are not there any more."""
    row = tx.task(run.id, number)
    return row if row is not None and row.execution == run.execution else None


# --- participants ------------------------------------------------------------------------------------------


def _member(tx: Transaction, run: RunRecord, name: str) -> Any:
    everybody = tx.participants(run.id)
    who = next((row for row in everybody if row.name == name and not row.gone), None)
    members = ", ".join(row.name for row in everybody if row.place != turns.COORDINATOR and not row.gone)
    if who is None:
        raise QuiesceError(f"run {run.id!r} has no member {name!r}; its members are {members}")
    if who.place == turns.COORDINATOR:
        raise QuiesceError(f"{name!r} is the coordinator, who owns no task; its members are {members}")
    return who


def _send(tx: Transaction, run: RunRecord, to: str | None, sender: str, message: Any) -> int:
    name = turns.coordinator(tx, run).name
    if to is not None and to != name:
        name = _member(tx, run, to).name
    else:
        turns.tell(tx, run)
    return tx.put_mail(run.id, name, sender, message)
