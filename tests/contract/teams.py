"""The flows of the contract as teams: the coordinator's turn does what an agent's body does, and finishes.

What else a team has (members, tasks, queues) is in `tests/adapters/receipts`; here it must behave like
everything else that can be paused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from quiesce import Team, Turn, agent

from .agents import Agents

__all__ = ["Teams"]


async def _member(turn: Turn) -> None:
    """Nobody has anything for it to do."""


class Teams(Agents):
    """Makes teams of one coordinator; `evaluated` has the names of the places that were come by, in order."""

    name = "team"

    def tree(self, run_id: str) -> list[str]:
        return [run_id, f"{run_id}.1"]  # the body of the coordinator's first turn

    def agent(self, name: str, function: Callable[..., Any]) -> Any:
        self._made += 1
        if inspect.iscoroutinefunction(function):

            async def plan(turn: Turn) -> None:
                turn.finish(await function(turn.prompt))

            coordinator: Any = plan
        else:

            @agent(name=name)
            def plan_at_once(turn: Turn) -> None:
                turn.finish(function(turn.prompt))

            coordinator = plan_at_once
        takes = next(iter(get_type_hints(function).values()))
        return Team(
            f"{name} {self._made}",
            coordinator=coordinator,
            members={"member": _member},
            input=None if takes is object else takes,
        )
