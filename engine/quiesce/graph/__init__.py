"""Graphs: nodes, one transition each, and the pure walk along them.

`definition.py` is what a user writes, `transitions.py` what its handlers return, `visits.py` how one
visit is evaluated, `walk.py` what a transition does to the frontier of a run. Nothing here waits, reads
or writes: a driver evaluates the nodes and a store keeps the frontier's rows.
"""

from quiesce.graph.checks import resolve
from quiesce.graph.decisions import Decision
from quiesce.graph.definition import Graph
from quiesce.graph.drawing import dot, mermaid
from quiesce.graph.gates import Gate, NodeContext
from quiesce.graph.nodes import NodeRef, is_flow
from quiesce.graph.rows import Arrival, Branch, Changes, Counters, Group
from quiesce.graph.signature import diff, digest_of
from quiesce.graph.transitions import (
    Case,
    Concurrency,
    Error,
    FanOut,
    Finish,
    Join,
    JoinInput,
    Next,
    Pause,
    Transition,
)
from quiesce.graph.visits import bind, bind_transition, needs_context
from quiesce.graph.walk import Applied, Walk

__all__ = [
    "Applied",
    "Arrival",
    "Branch",
    "Case",
    "Changes",
    "Concurrency",
    "Counters",
    "Decision",
    "Error",
    "FanOut",
    "Finish",
    "Gate",
    "Graph",
    "Group",
    "Join",
    "JoinInput",
    "Next",
    "NodeContext",
    "NodeRef",
    "Pause",
    "Transition",
    "Walk",
    "bind",
    "bind_transition",
    "diff",
    "digest_of",
    "dot",
    "is_flow",
    "mermaid",
    "needs_context",
    "resolve",
]
