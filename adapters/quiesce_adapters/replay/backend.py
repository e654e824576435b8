"""How are graphs suspended? By node replay: a branch keeps its node and that node's input.

On resume the node is evaluated again with the same input, and then its transition. Nothing of a Python
stack is kept, so any process can continue a durable run. `driver.py` drives one run.

Source: spec graph; seed "graph pause and resume".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiesce import codec
from quiesce.backend import Capabilities, Driver, Host
from quiesce.errors import NoSteps
from quiesce.graph import Graph
from quiesce.graph.signature import diff
from quiesce.records import HoldRecord, ParticipantRow, RunRecord
from quiesce.rules.claims import MAX_LOST
from quiesce.store import Store, Transaction

from .asking import answer_type, check_answer
from .driver import ReplayDriver
from .frontier import copy_before

__all__ = ["Replay"]


class Replay:
    """The mechanism for runs of graphs."""

    kind = "graph"

    def capabilities(self, store: Store) -> Capabilities:
        return Capabilities(
            survives_restart=store.durable,
            resumes_mid_statement=False,
            pauses_from_outside=True,
            cross_process=store.shared,
            atomic_tree_fence=True,
        )

    def prepare(self, flow: Graph) -> None:
        """Check the graph and freeze it."""
        if not flow.frozen:
            flow.validate()
            flow.freeze()

    def entry(self, flow: Graph) -> str:
        if flow.start_node is None:
            raise NoSteps(f"graph {flow.name!r} has no start node")
        return flow.start_node.name

    def check_input(self, flow: Graph, value: Any) -> Any:
        return value if flow.input_type is None else codec.validate(value, flow.input_type, place="input")

    def input_type(self, flow: Graph) -> Any:
        return flow.input_type

    def output_type(self, flow: Graph, run: RunRecord) -> Any:
        return flow.output_type

    def version(self, flow: Graph) -> str:
        return flow.version if flow.version is not None else flow.version_digest()

    def signature(self, flow: Graph) -> Any:
        return flow.signature()

    def changes(self, old: Any, new: Any) -> Sequence[str]:
        return diff(old, new)

    def differs(self, host: Host, run: RunRecord, flow: Graph) -> None:
        """Nothing of a graph is executed over a record: a visit that is over is not evaluated again."""

    def check_answer(
        self, host: Host, run: RunRecord, flow: Graph, hold: HoldRecord, value: Any, *, dry: bool
    ) -> None:
        check_answer(answer_type(flow, hold.path), value)

    def fork(self, tx: Transaction, run: RunRecord, new_id: str, flow: Graph, at: int) -> None:
        copy_before(tx, run, new_id, flow, at)

    def participants(self, flow: Any) -> Sequence[ParticipantRow]:
        return ()

    def max_lost_attempts(self, flow: Any) -> int:
        return MAX_LOST

    def parts(self, flow: Any) -> Mapping[str, Any]:
        return {}

    def node(self, flow: Graph, name: str) -> Any:
        ref = flow.nodes.get(name)
        return None if ref is None else ref.body

    def driver(self, host: Host, run: RunRecord, flow: Graph) -> Driver:
        self.prepare(flow)
        return ReplayDriver(host, run, flow)
