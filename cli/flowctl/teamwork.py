"""How is a team told to a person: its tasks, its turns, its queues, and what a user-directed turn came to?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from flowctl import exits, render, settling, wiring
from flowctl.options import Settings
from quiesce.backend import Asked
from quiesce.errors import QuiesceError
from quiesce.runs import Receipt
from quiesce.team.orders import Direct
from quiesce.team.values import Task, TurnStatus

if TYPE_CHECKING:
    from quiesce.local import LocalBackend
    from quiesce.runtime import Runtime

__all__ = ["direct", "known_team", "queue_lines", "receipt_table", "task_table", "turn_table"]

_LIVE = ("queued", "running", "waiting")


def known_team(backend: LocalBackend, run: str) -> str:
    """The id of a team's run. Raises QuiesceError for a run of another kind."""
    run_id = wiring.known_run(backend, run)
    status = backend.status(run_id)
    if status.kind != "team":
        raise QuiesceError(f"run {run_id!r} is of the kind {status.kind}; only a team has tasks and turns")
    return run_id


def task_table(tasks: Sequence[Task]) -> None:
    """The tasks, a row each."""
    rows = [
        (
            task.id,
            task.state,
            task.owner or "(nobody)",
            ", ".join(map(str, task.after)),
            task.attempts or "",
            task.title,
            _outcome(task),
        )
        for task in tasks
    ]
    render.table(("task", "state", "owner", "after", "attempts", "title", "outcome"), rows, style_by="state")


def _outcome(task: Task) -> str:
    if task.reason is not None:
        return task.reason.partition("\n")[0]
    return "" if task.state != "completed" else render.as_json(task.result)


def turn_table(turns: Sequence[TurnStatus]) -> None:
    """The turns, a row each."""
    rows = [
        (
            turn.id,
            turn.participant,
            turn.kind + ("" if turn.task is None else f" {turn.task}"),
            turn.state,
            turn.sequence,
            turn.generation or "",
            "" if turn.original is None else turn.original,
            (turn.reason or "").partition("\n")[0],
        )
        for turn in turns
    ]
    header = ("turn", "participant", "for", "state", "place", "generation", "continues", "why")
    render.table(header, rows, style_by="state")


def receipt_table(receipts: Sequence[Receipt], turns: Sequence[TurnStatus], now: datetime) -> None:
    """Each turn that a pause holds: who, which task, how its drain goes and since when."""
    by_id = {turn.id: turn for turn in turns}
    rows = []
    for item in receipts:
        turn = by_id.get(item.piece)
        task = "" if turn is None or turn.task is None else turn.task
        since = item.released_at or item.overdue_at or item.at
        rows.append(
            (item.piece, item.name, task, item.was, item.drain, render.ago(since, now), item.outcome or "")
        )
    header = ("turn", "participant", "task", "was", "drain", "since", "outcome")
    render.table(header, rows, style_by="drain")


def queue_lines(turns: Sequence[TurnStatus]) -> Iterator[str]:
    """Each participant's queue, in its order: what runs, what waits for an answer, what is behind."""
    names = dict.fromkeys(turn.participant for turn in turns)
    for name in names:
        live = sorted(
            (turn for turn in turns if turn.participant == name and turn.state in _LIVE),
            key=lambda turn: turn.sequence,
        )
        if live:
            told = ", ".join(f"turn {turn.id} {turn.state}" + _for(turn) for turn in live)
            yield f"  {render.safe(name)}: {told}"


def _for(turn: TurnStatus) -> str:
    if turn.task is not None:
        return f" (task {turn.task})"
    return " (user-directed)" if turn.kind == "user_directed" else ""


async def direct(rt: Runtime, settings: Settings, run_id: str, member: str, prompt: str, drives: bool) -> int:
    """Give a member a user-directed turn, and wait for what becomes of that turn alone."""
    asked = Asked(**settings.asked)
    ack = await rt.backend.order(run_id, Direct(member, prompt), asked)
    if not drives:
        return await settling.recorded(rt, settings, ack, f"turn {ack.turn} of {member} is queued")
    run = await rt.get(run_id)
    while True:
        newest = rt.backend.host.read(lambda tx: tx.last_event())
        turns = await run.turns()
        turn = _turn(turns, ack.turn)
        ahead = _waits_ahead(turns, turn)
        if turn.state not in ("queued", "running") or ahead is not None:
            break
        await settling.next_event(rt, run_id, newest)
    if settings.json:
        status = await run.status()
        told: dict[str, Any] = {"ack": ack.model_dump(mode="json"), "turn": turn.model_dump(mode="json")}
        render.say_json(told | {"status": status.model_dump(mode="json")})
    elif turn.state == "completed" and turn.child is not None:
        render.say(f"turn {turn.id} of {member} completed")
        render.say(render.as_json((await rt.status(turn.child)).result))
    else:
        why = f": {turn.reason}" if turn.reason else ""
        if ahead is not None:
            why = f": turn {ahead.id}, which is ahead of it, waits for an answer"
        render.say(render.safe(f"turn {turn.id} of {member} is {turn.state}{why}"))
    codes = {"completed": exits.DONE, "waiting": exits.PAUSED, "queued": exits.PAUSED}
    return codes.get(turn.state, exits.FAILED)


def _waits_ahead(turns: Sequence[TurnStatus], turn: TurnStatus) -> TurnStatus | None:
    """What keeps a queued turn from beginning: one of its participant that waits for an answer."""
    if turn.state != "queued":
        return None
    of_it = (item for item in turns if item.participant == turn.participant and item.state == "waiting")
    return next(of_it, None)


def _turn(turns: Sequence[TurnStatus], number: int | None) -> TurnStatus:
    return next(turn for turn in turns if turn.id == number)
