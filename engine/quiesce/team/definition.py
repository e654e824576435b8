"""What is a team: a coordinator that plans tasks, and members that do them, as a flow.

    release = Team("release", coordinator=plan, members={"builder": build, "tester": test})

The body of a participant is an agent, a graph or an async function, and receives a `Turn`. An async
function runs as the body of an agent. Each body is found as `module:team.participant`, so a worker that can
import the team can run its turns. What of the definition runs depend on is kept when a run starts.

Source: spec team, "Model".
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from quiesce.agent.definition import Agent
from quiesce.flows import DefinedIn, is_flow
from quiesce.graph import Graph
from quiesce.team.turn import Turn

__all__ = ["MAX_MEMBERS", "Team"]

MAX_MEMBERS = 50


class Team:
    """A flow whose runs are worked on by a coordinator and members, turn by turn.

    Args:
        name: what a person calls it.
        coordinator: the body of the coordinator's turns, which plan, look at what ended, and finish.
        members: 1 to 50 bodies, by the name under which tasks and messages reach them.
        input: the type of the input of a run, which the first coordinator turn has as its `prompt`; without
            one any value will do.
        retries: how often a body that raised is gone on with, before its task fails.
        version: what runs are tied to; default is a digest of the bodies' signatures.

    Raises:
        ValueError: no members or too many, or a name that cannot be used.
        TypeError: a body that is no agent, graph or async function of one `Turn`.
    """

    kind = "team"

    def __init__(
        self,
        name: str,
        *,
        coordinator: Any,
        members: Mapping[str, Any],
        input: Any = None,
        retries: int = 0,
        version: str | None = None,
    ) -> None:
        if not name or not name.isprintable():
            raise ValueError(f"a team's name is printable text, not {name!r}")
        if not 1 <= len(members) <= MAX_MEMBERS:
            raise ValueError(f"team {name!r} has {len(members)} members; a team has 1 to {MAX_MEMBERS}")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ValueError(f"retries of team {name!r} is a number of times, 0 or more, not {retries!r}")
        frame = sys._getframe(1)
        self.name = name
        self.version = version
        self.retries = retries
        self.input_type = input
        self.defined_in = DefinedIn.of(frame.f_globals)
        self.coordinator = "coordinator"
        self.participants: dict[str, Agent[..., Any] | Graph] = {
            self.coordinator: _body(name, self.coordinator, coordinator, frame.f_locals)
        }
        """The bodies by name, the coordinator's first."""
        for member, body in members.items():
            if not isinstance(member, str) or not member.isidentifier():
                raise ValueError(f"a member of team {name!r} is named {member!r}; use a name like `builder`")
            if member == self.coordinator:
                raise ValueError(
                    f"team {name!r}: the name 'coordinator' is the coordinator's, not a member's"
                )
            self.participants[member] = _body(name, member, body, frame.f_locals)

    def __repr__(self) -> str:
        return f"<team {self.name}>"

    @property
    def members(self) -> list[str]:
        """The names of the members, in the order of the definition."""
        return [name for name in self.participants if name != self.coordinator]


def _body(team: str, name: str, body: Any, names: Mapping[str, Any]) -> Agent[..., Any] | Graph:
    if inspect.iscoroutinefunction(body):
        body = Agent(body, None, None, names)
    if not is_flow(body) or not isinstance(body, Agent | Graph):
        raise TypeError(
            f"team {team!r}: the body of {name!r} is {body!r}; it must be an @agent, a Graph or an async "
            "function that takes a Turn"
        )
    takes = body.input_type
    if takes is not Turn:
        raise TypeError(
            f"team {team!r}: the body of {name!r} takes {_shown(takes)}; its one parameter is declared "
            "`turn: Turn`" + (" (of its start node)" if isinstance(body, Graph) else "")
        )
    return body


def _shown(declared: Any) -> str:
    return (
        "nothing that is declared"
        if declared in (None, type(None))
        else getattr(declared, "__name__", str(declared))
    )
