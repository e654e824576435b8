"""How is a visit told in the log, for people and for `graph.history`?

Values are told as references to where the store keeps them, so that the log never writes one twice.
"""

from __future__ import annotations

from typing import Any

from quiesce.graph.rows import Branch
from quiesce.graph.transitions import Error, FanOut, Finish, Join, Next, Pause

from .frontier import Refs
from .visiting import Result

__all__ = ["told"]


def told(number: int, branch: Branch, node: str, result: Result, refs: Refs) -> dict[str, Any]:
    """Where it was, and what followed."""
    data: dict[str, Any] = {"visit": number, "branch": branch.id, "node": node}
    match result:
        case Next(to, value, concurrency):
            data |= {"did": "next", "to": [[to, refs.get((id(value), to))]]}
            data["concurrency"] = concurrency.value if concurrency else None
        case FanOut(targets, into, concurrency, most):
            data |= {
                "did": "fan_out",
                "to": [[item.node, refs.get((id(item.value), item.node))] for item in targets],
            }
            data |= {"join": into, "most": most, "concurrency": concurrency.value if concurrency else None}
            if any(item.concurrency for item in targets):
                data["each"] = [item.concurrency.value if item.concurrency else None for item in targets]
        case Join(to, value):
            data |= {"did": "join", "to": [[to, refs.get((id(value), to))]]}
        case Finish(value):
            data |= {"did": "finish", "value": next((r for k, r in refs.items() if k[0] == id(value)), None)}
        case Pause(reason):
            data |= {"did": "pause", "reason": reason}
        case Error(cause):
            data |= {"did": "error", "error": str(cause)}
        case _:
            pass
    return data
