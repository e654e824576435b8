"""How does a body have an effect that a person must approve: `action`.

An action is a step with a hold before it. The hold shows the exact arguments; the answer approves them,
changes them, or rejects the call. The approval belongs to this one call and to the digest of the arguments
that run, and is spent by one commit: `prepared -> waiting -> approved -> committing -> committed`, or
`rejected`, or `failed`; each move compares the state that was, before the effect.

Source: spec agent, "Actions that need approval"; cases agent S37 to S39, B7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, ParamSpec, TypeVar, overload

from quiesce.agent.steps import Options, Step, StepCall
from quiesce.agent.traps import Ask
from quiesce.errors import GraphError
from quiesce.graph.transitions import check_deadline

__all__ = ["Action", "action"]

P = ParamSpec("P")
R = TypeVar("R")


class Action(Step[P, R]):
    """A step that needs approval. Made by `@action`."""

    kind = "action"

    def __init__(
        self,
        function: Callable[P, R],
        options: Options,
        approval: bool | Callable[..., bool],
        deadline: timedelta | None,
    ) -> None:
        super().__init__(function, options)
        if not (isinstance(approval, bool) or callable(approval)):
            raise TypeError(f"approval= is True, False or a function of the arguments, not {approval!r}")
        self._approval = approval
        self.deadline = deadline

    def needs_approval(self, made: StepCall[Any]) -> bool:
        if callable(self._approval):
            args, kwargs = self.parameters.complete(made.args, made.kwargs)
            return bool(self._approval(*args, **kwargs))
        return self._approval

    def question(self, made: StepCall[Any]) -> Ask:
        """What a person is asked: the exact arguments, and how to answer."""
        what = f"action {self.name!r}"
        shown = self.parameters.shown(made.args, made.kwargs, what)
        told = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return Ask(
            reason=f"approve {self.name}({told})?",
            payload={"action": self.name, "arguments": shown, "digest": made.digest()},
            key=self.name,
            on_deadline="hold" if self.deadline is None else "fail",
        )

    def answers(self) -> dict[str, Any]:
        """The JSON schema of an answer that approves; a rejection is another verb."""
        return {
            "type": "object",
            "properties": {"approve": {"const": True}, "arguments": self.parameters.schema()},
            "required": ["approve"],
            "additionalProperties": False,
        }

    def approved(self, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name that were approved: those that were asked about, with the edits."""
        shown = {**asked["arguments"], **answer.get("arguments", {})}
        return self.parameters.read(shown, f"action {self.name!r}")


@overload
def action(function: Callable[P, R], /) -> Action[P, R]: ...
@overload
def action(
    *,
    approval: bool | Callable[..., bool] = True,
    deadline: float | timedelta | None = None,
    timeout: float | None = None,
    retries: int = 0,
    on_unknown: Literal["run", "hold"] = "run",
    verify: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Action[P, R]]: ...
def action(
    function: Any = None,
    /,
    *,
    approval: bool | Callable[..., bool] = True,
    deadline: float | timedelta | None = None,
    **options: Any,
) -> Any:
    """Make a function an action: called in a body, it runs once a person has approved its arguments.

    The hold is answered by `{"approve": true}`, or by `{"approve": true, "arguments": {…}}` with arguments
    to take instead; or it is rejected, which raises `Rejected` where the action was called.

    Args:
        approval: whether a person must approve; or a function of the same arguments that says so.
        deadline: seconds (or a timedelta) after which it raises `Expired` if nobody has answered.
        timeout, retries, on_unknown, verify: as for `step`. A person's time counts for none of them.
    """
    if isinstance(deadline, datetime):
        raise ValueError(
            f"the deadline of an action is seconds or a timedelta from its call, not {deadline!r}"
        )
    try:
        check_deadline(deadline, "fail")
    except GraphError as wrong:
        raise ValueError(str(wrong)) from None
    wait = timedelta(seconds=deadline) if isinstance(deadline, int | float) else deadline
    settled = Options(**options)
    if function is not None:
        return Action(function, settled, approval, wait)
    return lambda decorated: Action(decorated, settled, approval, wait)
