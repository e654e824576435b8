"""How is a visit evaluated? The two functions that a driver calls for it, and what they return.

    ctx = NodeContext(...)                       # only if needs_context(node)
    output = evaluate(input, ctx)                # evaluate = bind(node); await it if it is awaitable
    returned = decide(output, ctx)               # decide = bind_transition(node); likewise
    case = resolve(graph, node.name, returned, walk.arrives_at(branch_id))
    applied = walk.apply(branch_id, case)

Neither catches anything: what a node raises is the driver's to wrap, with the branch and the attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quiesce.errors import GraphError, Rejected
from quiesce.graph.checks import resolve
from quiesce.graph.decisions import Decide, make_decide
from quiesce.graph.gates import RejectedAnswer
from quiesce.graph.nodes import NodeRef
from quiesce.graph.transitions import Error, Pause

__all__ = ["bind", "bind_transition", "needs_context", "resolve"]


def needs_context(node: NodeRef[Any, Any]) -> bool:
    """Whether the node or its transition looks at the context; if not, None will do."""
    decision = node.graph.decisions.get(node.name)
    return node.takes_context or (decision is not None and decision.takes_context)


def bind(node: NodeRef[Any, Any]) -> Callable[[Any, Any], Any]:
    """(input, context) -> the node's output, or an awaitable of it.

    Raises:
        GraphError: it is a flow; its visit is a child run.
    """
    if node.flow is not None:
        raise GraphError(f"node {node.name!r} is the flow {node.flow.name!r}: its visit is a run of it")
    call = node.node.call
    return call if node.takes_context else lambda input, ctx: call(input)


def bind_transition(node: NodeRef[Any, Any]) -> Decide:
    """(output, context) -> what its transition returns, or an awaitable of it; see `resolve`.

    A gate's transition gets `(input, answer)`. Without an answer the gate pauses; a rejection goes to
    `graph.rejected(gate)`, or else fails the branch with `Rejected`.
    """
    graph = node.graph
    decide = make_decide(graph.decisions[node.name], graph.family)
    if node.gate is None:
        return decide
    rejection = graph.rejections.get(node.name)
    rejected = None if rejection is None else rejection.function

    def decide_gate(output: Any, ctx: Any) -> Any:
        if isinstance(output, Pause):
            return output
        if isinstance(output, RejectedAnswer):
            return (
                Error(Rejected(output.message))
                if rejected is None
                else rejected(output.input, output.message)
            )
        return decide(output, ctx)

    return decide_gate
