"""What can a body do with other runs: start them inside its own, wait for them, and use the verbs on them.

Every handle is plain calls, like `pause`: the body is suspended until the verb is served. A child that waits
is waiting, never finished; what it asks suspends only what waits for it.

Source: spec agent, "Concurrency" (spawn); spec engine, 4 (nesting); cases agent S27, B15.
"""

from __future__ import annotations

from typing import Any, NoReturn

from quiesce.agent.body import CURRENT, this_body
from quiesce.agent.traps import Act, ContinueAsNew, Send, Spawn, Wait
from quiesce.errors import FlowNotFound
from quiesce.flows import is_flow
from quiesce.rules.requests import UNSET
from quiesce.runs import Ack, AnswerAck, Hold, PauseAck, ResumeAck, RunStatus

__all__ = ["RunHandle", "current_run", "spawn"]


class RunHandle:
    """Another run (or this one), for the body that holds it."""

    __slots__ = ("id",)

    def __init__(self, run_id: str) -> None:
        self.id = run_id

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def result(self) -> Any:
        """Wait for its value, through its pauses.

        Raises:
            Deadlock: it waits for this body, directly or through others.
            RunCancelled: it was cancelled; or the error that it failed with.
        """
        return this_body("result()").suspend(Wait(self.id))

    def settled(self) -> RunStatus:
        """Wait until it ends or is paused and nothing of it runs; returns its status then.

        Raises:
            Deadlock, RunCancelled, or the error that it failed with.
        """
        status: RunStatus = this_body("settled()").suspend(Wait(self.id, "settled"))
        return status

    def status(self) -> RunStatus:
        """What is stored of it now."""
        status: RunStatus = self._act("status")
        return status

    def holds(self) -> tuple[Hold, ...]:
        """What it asks, inner runs included."""
        return self.status().holds

    def pause(self, reason: str | None = None) -> PauseAck:
        """Fence it, as `Run.pause`."""
        ack: PauseAck = self._act("pause", reason)
        return ack

    def resume(self, answer: Any = UNSET, *, hold: str | None = None) -> ResumeAck:
        """Lift what keeps it, as `Run.resume`."""
        ack: ResumeAck = self._act("resume", answer, hold)
        return ack

    def answer(self, value: Any, *, hold: str | None = None) -> AnswerAck:
        """Answer its only open hold, or the named one, as `Run.answer`."""
        ack: AnswerAck = self._act("answer", value, hold)
        return ack

    def reject(self, message: str = "", *, hold: str | None = None) -> AnswerAck:
        """Say no to its only open hold, or the named one."""
        ack: AnswerAck = self._act("reject", message, hold)
        return ack

    def cancel(self, reason: str | None = None) -> Ack:
        """End it, as `Run.cancel`."""
        ack: Ack = self._act("cancel", reason)
        return ack

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """End this body here, and begin the same run again with another input and a fresh journal.

        For long loops, of the run whose body calls: `current_run().continue_as_new(…)`.

        Raises:
            InputRejected, NotSerializable: as a start does. ValueError: it is another run.
        """
        body = this_body("continue_as_new()")
        if self.id != body.run_id:
            raise ValueError(
                f"only run {body.run_id!r}, whose body calls, can be continued here, not {self.id!r}"
            )
        body.suspend(ContinueAsNew(input))
        raise AssertionError("a body that was continued as a new one goes on nowhere")

    def send(self, message: Any) -> None:
        """Put a message into its box."""
        this_body("send()").suspend(Send(self.id, message))

    def _act(self, verb: str, *arguments: Any) -> Any:
        return this_body(f"{verb}()").suspend(Act(verb, self.id, arguments))


def spawn(flow: Any, input: Any = None) -> RunHandle:
    """Start a run of a flow inside this one, and go on; `result()` of the handle waits for it.

    It is cancelled when this run ends before it.

    Raises:
        InputRejected, NotSerializable, FlowNotFound, GraphError: as a start does.
        PauseOutsideBody, WrongThread: there is no body here.
    """
    body = this_body("spawn()")
    if not is_flow(flow):
        raise FlowNotFound(f"{flow!r} is not a flow (a Graph, an @agent function or a Team)")
    return RunHandle(body.suspend(Spawn(flow, input)))


def current_run() -> RunHandle:
    """The run whose body this is; also in the tasks and threads that it started.

    Raises:
        PauseOutsideBody: no body is running here.
    """
    body = CURRENT.get(None)
    return RunHandle(body.run_id if body is not None else this_body("current_run()").run_id)
