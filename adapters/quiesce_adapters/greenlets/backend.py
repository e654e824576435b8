"""How are agents suspended? By greenlet continuations: the call stack itself is kept, in a living process.

`continuation.py` knows greenlet, `body.py` one body, `driver.py` a run, `serving.py` what a body asks for.

Source: spec agent; seed "agent pause and resume".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quiesce.agent.definition import Agent, changes
from quiesce.backend import Capabilities, Driver, Host
from quiesce.errors import NonDeterminism, QuiesceError
from quiesce.graph.signature import digest_of
from quiesce.records import HoldRecord, ParticipantRow, RunRecord
from quiesce.store import Store, Transaction

from .driver import GreenletDriver
from .rehearsal import asked, rehearse
from .support import unsupported
from .watchdog import Watchdog

__all__ = ["Greenlets"]


class Greenlets:
    """The mechanism for runs of agents."""

    kind = "agent"

    def __init__(self) -> None:
        self._watchdog = Watchdog()

    def capabilities(self, store: Store) -> Capabilities:
        return Capabilities(
            survives_restart=store.durable,
            resumes_mid_statement=True,
            pauses_from_outside=True,
            cross_process=store.shared,
            atomic_tree_fence=True,
        )

    def prepare(self, flow: Agent[..., Any]) -> None:
        """Whether bodies can be suspended here; `@agent` refused what cannot be one."""
        why = unsupported()
        if why is not None:
            raise QuiesceError(why)

    def entry(self, flow: Agent[..., Any]) -> str:
        return flow.name

    def check_input(self, flow: Agent[..., Any], value: Any) -> Any:
        return flow.check_input(value)

    def input_type(self, flow: Agent[..., Any]) -> Any:
        return flow.input_type

    def output_type(self, flow: Agent[..., Any], run: RunRecord) -> Any:
        return flow.output_type

    def version(self, flow: Agent[..., Any]) -> str:
        return flow.version if flow.version is not None else digest_of(flow.signature())

    def signature(self, flow: Agent[..., Any]) -> Any:
        return flow.signature()

    def changes(self, old: Any, new: Any) -> Sequence[str]:
        return changes(old, new)

    def differs(self, host: Host, run: RunRecord, flow: Agent[..., Any]) -> NonDeterminism | None:
        return rehearse(host, run, flow) if host.store.durable and unsupported() is None else None

    def check_answer(
        self, host: Host, run: RunRecord, flow: Agent[..., Any], hold: HoldRecord, value: Any, *, dry: bool
    ) -> None:
        if dry and host.store.durable and unsupported() is None:
            check = asked(host, run, flow).get(hold.id)
            if check is not None:
                check(value)

    def fork(self, tx: Transaction, run: RunRecord, new_id: str, flow: Agent[..., Any], at: int) -> None:
        raise QuiesceError(
            f"run {run.id!r} is an agent's, whose body has no visits to fork from; "
            "use run.restart_from(position)"
        )

    def participants(self, flow: Any) -> Sequence[ParticipantRow]:
        return ()

    def max_lost_attempts(self, flow: Agent[..., Any]) -> int:
        return flow.max_lost_attempts

    def parts(self, flow: Any) -> Mapping[str, Any]:
        return {}

    def node(self, flow: Agent[..., Any], name: str) -> Any:
        return None

    def driver(self, host: Host, run: RunRecord, flow: Agent[..., Any]) -> Driver:
        self.prepare(flow)
        return GreenletDriver(host, run, flow, self._watchdog)
