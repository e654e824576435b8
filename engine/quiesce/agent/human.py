"""How does a body ask a person: `pause` and `ask_human`, typed, with a deadline.

Outside any body `ask_human` asks whoever sits at the terminal.

Source: spec agent, "Body and lifecycle"; cases agent S3 to S7, S31 to S34, B11.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from quiesce import codec
from quiesce.agent.body import CURRENT, Body, this_body
from quiesce.agent.traps import Ask
from quiesce.errors import GraphError, InputRejected, PauseOutsideBody
from quiesce.graph.transitions import Deadline, OnDeadline, check_deadline

__all__ = ["ask_human", "pause"]

T = TypeVar("T")


@overload
def pause(
    reason: str | None = None,
    *,
    expects: type[T],
    payload: object = None,
    key: str | None = None,
    deadline: Deadline = None,
    on_deadline: OnDeadline = "hold",
) -> T: ...
@overload
def pause(
    reason: str | None = None,
    *,
    expects: Any = None,
    payload: object = None,
    key: str | None = None,
    deadline: Deadline = None,
    on_deadline: OnDeadline = "hold",
) -> Any: ...
def pause(
    reason: str | None = None,
    *,
    expects: Any = None,
    payload: object = None,
    key: str | None = None,
    deadline: Deadline = None,
    on_deadline: OnDeadline = "hold",
) -> Any:
    """Suspend the body that calls, with its whole call stack, until somebody answers or resumes.

    Args:
        reason: what is waited for, in words for a person.
        expects: the type of the answer. Without one any JSON value is, and a plain resume gives None.
        payload: what the person who answers should see.
        key: names the hold, where a body asks several different things.
        deadline: an aware datetime, a timedelta, or float seconds from now.
        on_deadline: "hold", "fail" (`Expired` is raised here) or ("answer", value).

    Raises:
        Rejected: somebody said no. Expired: the deadline passed, with on_deadline="fail".
        PauseOutsideBody, WrongThread: there is no body here.
    """
    body = this_body("pause()")
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"the reason of a pause is text, not {type(reason).__name__}: {reason!r}")
    if key is not None and not isinstance(key, str):
        raise TypeError(f"the key of a pause is text, not {type(key).__name__}: {key!r}")
    try:
        check_deadline(deadline, on_deadline)
    except GraphError as wrong:
        raise ValueError(str(wrong)) from None
    return body.suspend(Ask(reason, expects, payload, key, _instant(body, deadline), on_deadline))


def _instant(body: Body, deadline: Deadline) -> datetime | None:
    if deadline is None or isinstance(deadline, datetime):
        return deadline
    return body.clock.now() + (deadline if isinstance(deadline, timedelta) else timedelta(seconds=deadline))


@overload
def ask_human(
    question: str,
    *,
    expects: type[T],
    payload: object = None,
    key: str | None = None,
    deadline: Deadline = None,
    on_deadline: OnDeadline = "hold",
) -> T: ...
@overload
def ask_human(
    question: str,
    *,
    expects: Any = None,
    payload: object = None,
    key: str | None = None,
    deadline: Deadline = None,
    on_deadline: OnDeadline = "hold",
) -> Any: ...
def ask_human(
    question: str,
    *,
    expects: Any = None,
    payload: object = None,
    key: str | None = None,
    deadline: Deadline = None,
    on_deadline: OnDeadline = "hold",
) -> Any:
    """Ask a person: in a body this is `pause(question, …)`, elsewhere a line is read from the terminal.

    Raises:
        TypeError: the question is no text. PauseOutsideBody: nobody can answer, since stdin is closed.
        Rejected, Expired, WrongThread: as for `pause`.
    """
    if not isinstance(question, str):
        raise TypeError(f"a question is text, not {type(question).__name__}: {question!r}")
    if CURRENT.get(None) is not None:
        return pause(
            question, expects=expects, payload=payload, key=key, deadline=deadline, on_deadline=on_deadline
        )
    return _ask_the_terminal(question, expects)


def _ask_the_terminal(question: str, expects: Any) -> Any:
    print(question)
    while True:
        try:
            line = input("> ")
        except (EOFError, ValueError, RuntimeError) as error:  # at its end, closed, or there is none
            raise PauseOutsideBody(
                f"ask_human({question!r}) was called outside an agent's body, where it reads a line from "
                f"stdin, but stdin is closed ({type(error).__name__}); run it in an agent, or give it input"
            ) from None
        if expects is None:
            return line
        try:
            return codec.coerce_text(line, expects, place="answer")
        except InputRejected as refused:
            print(refused)
