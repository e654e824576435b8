"""What a body in a team has in hand: its turn, and what that may do.

A `Turn` says what the body is to do. It is the same for the turn that continues it after a pause: which
turn, generation and lease count is asked of the store whenever an order is given, so a body that goes on in
the middle of a statement is rebound before it runs.

Its verbs are plain calls, as `pause` is: the body is suspended until the order is carried out, and what came
of it is recorded. They work in the body of the participant and of agents inside it, by whatever depth.

Source: spec team, "Model" (Turn API).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quiesce.agent.body import checkpoint, this_body
from quiesce.agent.human import pause
from quiesce.agent.steps import step
from quiesce.agent.traps import Command, Launch, Look
from quiesce.team.jobs import GRACE, Job, make_job
from quiesce.team.orders import (
    Assign,
    CancelTask,
    Complete,
    CreateTask,
    Fail,
    FinishTeam,
    Order,
    SendTo,
    TakeInbox,
)
from quiesce.team.values import Message, Task, TurnKind, task_ids

__all__ = ["Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one participant is to do now.

    `kind`: `coordinator`, `task` (then `task` is what to do), `inbox` (there are messages) or
    `user_directed` (then `prompt` is what somebody asked for). The first coordinator turn has the input of
    the run as its `prompt`.
    """

    participant: str
    kind: TurnKind
    task: Task | None = None
    prompt: Any = None

    # --- structure: the coordinator's turns ------------------------------------------------------------

    def create_task(
        self,
        title: str,
        *,
        goal: str | None = None,
        owner: str | None = None,
        after: Sequence[int | Task] = (),
    ) -> Task:
        """A new task; its owner begins when all of `after` are completed.

        Raises:
            QuiesceError: an unknown owner or task, the coordinator as owner, a title that is no line of text.
            Fenced: the team is paused (in a user-directed turn; others stop until it goes on).
        """
        order = CreateTask(title, goal, owner, task_ids(after))
        task: Task = self._command(order, "task")
        return task

    def assign(self, task: int | Task, owner: str, *, after: Sequence[int | Task] | None = None) -> Task:
        """Another owner, and with `after` other dependencies, for a task that is open."""
        needs = None if after is None else task_ids(after)
        changed: Task = self._command(Assign(task_ids([task])[0], owner, needs), "task")
        return changed

    def cancel_task(self, task: int | Task, reason: str | None = None) -> Task:
        """End a task that is open; its turn is cancelled."""
        changed: Task = self._command(CancelTask(task_ids([task])[0], reason), "task")
        return changed

    def finish(self, result: Any = None) -> None:
        """The run is done: queued turns are cancelled, running ones waited for, this one included."""
        self._command(FinishTeam(result), None)

    # --- progress: the owner's turn --------------------------------------------------------------------

    def complete(self, result: Any = None) -> Task:
        """This turn's task is done, with this result; otherwise it is what the body returns."""
        changed: Task = self._command(Complete(result), "task")
        return changed

    def fail(self, reason: str) -> Task:
        """This turn's task cannot be done; no other attempt follows."""
        changed: Task = self._command(Fail(reason), "task")
        return changed

    # --- everybody -------------------------------------------------------------------------------------

    def send(self, message: Any, *, to: str | None = None) -> None:
        """Put a message into the inbox of a participant; without a name, of the coordinator."""
        self._command(SendTo(message, to), None)

    def inbox(self) -> list[Message]:
        """What this participant was sent and has not read, oldest first; read from now on."""
        found: list[Message] = self._command(TakeInbox(), "messages")
        return found

    def tasks(self) -> list[Task]:
        """Every task of this execution, as it is now."""
        found: list[Task] = this_body("tasks()").suspend(Look("tasks"))
        return found

    # --- what any body may do --------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """See `quiesce.checkpoint`."""
        checkpoint()

    def step(self, function: Any, *arguments: Any) -> Any:
        """See `quiesce.step`."""
        return step(function, *arguments)

    def job(
        self,
        *argv: str | os.PathLike[str],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        log: str | os.PathLike[str] | None = None,
        grace: float = GRACE,
    ) -> Job:
        """A process that runs while this body runs, in a process group of its own: see `quiesce.team.jobs`.

        It is ended when the body asks, waits for another run, yields to a fence, ends or is lost, and
        started again before the next effect when the turn goes on.

        Args:
            cwd, env: as for `subprocess`; by default those of this process.
            log: a file that its output is added to; by default it is dropped.
            grace: seconds between TERM and KILL for its group.

        Raises:
            ValueError: no program, or a grace that is no time. OSError: it cannot be started.
        """
        made = make_job(argv, cwd, env, log, grace)
        this_body("job()").suspend(Launch(made))
        return made

    def pause(self, reason: str | None = None, **question: Any) -> Any:
        """See `quiesce.pause`: the turn waits for an answer, and its participant's queue with it."""
        return pause(reason, **question)

    def _command(self, order: Order, gives: Literal["task", "messages"] | None) -> Any:
        return this_body(f"{order.verb}()").suspend(Command(order, gives))
