"""How are teams suspended? By receipts: a durable fence first, bounded teardown second.

The fence captures every formal turn in one transaction, with a receipt each. Teardown is that of the turns'
bodies, which are runs of their own and yield at their own safe points. A resume gives each receipt that is
still valid at most one turn that continues it. All of that is rows; `driver.py` only says when to look.

Source: spec team; seed "durable handoff".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiesce import codec
from quiesce.agent.definition import Agent
from quiesce.agent.definition import changes as agent_changes
from quiesce.backend import Capabilities, Driver, Host
from quiesce.errors import QuiesceError
from quiesce.graph import Graph
from quiesce.graph.signature import diff, digest_of
from quiesce.records import HoldRecord, ParticipantRow, RunRecord
from quiesce.rules.claims import MAX_LOST
from quiesce.store import Store, Transaction
from quiesce.team.definition import Team

from .driver import ReceiptsDriver

__all__ = ["Receipts"]


class Receipts:
    """The mechanism for runs of teams."""

    kind = "team"

    def capabilities(self, store: Store) -> Capabilities:
        return Capabilities(
            survives_restart=store.durable,
            resumes_mid_statement=True,  # of a body that is an agent, where its continuation lives
            pauses_from_outside=True,
            cross_process=store.shared,
            atomic_tree_fence=True,
        )

    def prepare(self, flow: Team) -> None:
        """Check the graphs among its bodies, and freeze them."""
        for body in flow.participants.values():
            if isinstance(body, Graph) and not body.frozen:
                body.validate()
                body.freeze()

    def entry(self, flow: Team) -> str:
        return flow.coordinator

    def check_input(self, flow: Team, value: Any) -> Any:
        declared = flow.input_type
        return value if declared is None else codec.validate(value, declared, place="input")

    def input_type(self, flow: Team) -> Any:
        return flow.input_type

    def output_type(self, flow: Team, run: RunRecord) -> Any:
        return None

    def version(self, flow: Team) -> str:
        return flow.version if flow.version is not None else digest_of(self.signature(flow))

    def signature(self, flow: Team) -> Any:
        return {
            "participants": {name: _signature(body) for name, body in flow.participants.items()},
            "input": None if flow.input_type is None else codec.type_name(flow.input_type),
            "retries": flow.retries,
        }

    def changes(self, old: Any, new: Any) -> Sequence[str]:
        before, after = old["participants"], new["participants"]
        lines = [f"participant {name!r} was removed" for name in before if name not in after]
        lines += [f"participant {name!r} was added" for name in after if name not in before]
        for name in before:
            if name in after and before[name] != after[name]:
                lines += [f"{name}: {line}" for line in _body_changes(before[name], after[name])]
        if old["input"] != new["input"]:
            lines.append(f"input {old['input'] or 'anything'} -> {new['input'] or 'anything'}")
        if old["retries"] != new["retries"]:
            lines.append(f"retries {old['retries']} -> {new['retries']}")
        return lines

    def differs(self, host: Host, run: RunRecord, flow: Team) -> None:
        """A team's rows are not executed over anything; its bodies' runs are asked themselves."""

    def check_answer(
        self, host: Host, run: RunRecord, flow: Team, hold: HoldRecord, value: Any, *, dry: bool
    ) -> None:
        """A team asks nothing itself."""

    def fork(self, tx: Transaction, run: RunRecord, new_id: str, flow: Team, at: int) -> None:
        raise QuiesceError(f"run {run.id!r} is a team's, which has no visits to fork from; start another run")

    def participants(self, flow: Team) -> Sequence[ParticipantRow]:
        return [
            ParticipantRow(name, place, digest_of(_signature(body)), retries=flow.retries)
            for place, (name, body) in enumerate(flow.participants.items())
        ]

    def max_lost_attempts(self, flow: Team) -> int:
        return MAX_LOST

    def parts(self, flow: Team) -> Mapping[str, Any]:
        return flow.participants

    def node(self, flow: Team, name: str) -> Any:
        return None

    def driver(self, host: Host, run: RunRecord, flow: Team) -> Driver:
        self.prepare(flow)
        return ReceiptsDriver(host, run, flow)


def _signature(body: Agent[..., Any] | Graph) -> Any:
    return {"kind": body.kind, "version": body.version, "code": body.signature()}


def _body_changes(old: Any, new: Any) -> list[str]:
    if old["kind"] != new["kind"]:
        return [f"it was a {old['kind']} and is a {new['kind']}"]
    told = agent_changes if old["kind"] == "agent" else diff
    lines = list(told(old["code"], new["code"])) if old["code"] != new["code"] else []
    if old["version"] != new["version"]:
        lines.append(f"version {old['version']} -> {new['version']}")
    return lines
