"""Which flows does this process know, and how do their values get into the store and out?

Source: spec engine, 5 (references, versions) and 6 (values).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from typing import Any

from quiesce import codec
from quiesce.backend import Mechanism
from quiesce.errors import FlowNotFound, QuiesceError
from quiesce.flows import Flows, is_flow
from quiesce.records import RunRecord
from quiesce.rules import starting
from quiesce.rules.requests import found
from quiesce.store import Store

__all__ = ["Catalog"]


class Catalog:
    """The flows at hand, the mechanisms for them, and their values as the store keeps them."""

    def __init__(self, store: Store, flows: Iterable[Any]) -> None:
        self.store = store
        self.flows = Flows()
        self._mechanisms: dict[str, Mechanism] = {}
        self.serves: list[str] = []
        for flow in flows:
            text = self.flow_reference(flow)
            self.serves += [text, *self.know_parts(text, flow)]

    def mechanism(self, kind: str) -> Mechanism:
        """The mechanism for a kind of run, loaded on first use.

        Raises:
            FlowNotFound: none is installed.
        """
        known = self._mechanisms.get(kind)
        if known is None:
            for point in importlib.metadata.entry_points(group="quiesce.mechanisms", name=kind):
                found_here: Mechanism = point.load()()
                self._mechanisms[kind] = found_here
                return found_here
            raise FlowNotFound(f"nothing here can run a flow of kind {kind!r}")
        return known

    def served(self) -> list[tuple[str, str]]:
        """(reference, version) of the flows whose queued runs this process drives."""
        return [
            (text, self.mechanism((flow := self.flows.get(text)).kind).version(flow)) for text in self.serves
        ]

    def know_parts(self, text: str, flow: Any) -> list[str]:
        """Remember the flows that are part of this one, by the references that lead to them."""
        parts = self.mechanism(flow.kind).parts(flow) if is_flow(flow) else {}
        for name, part in parts.items():
            self.flows.put(f"{text}.{name}", part)
        return [f"{text}.{name}" for name in parts]

    def flow(self, text: str) -> Any:
        return self.flows.get(text)

    def flow_reference(self, flow: Any) -> str:
        """Raises FlowNotFound: it is none."""
        _check_flow(flow)
        return self.flows.add(flow)[0]

    def describe(
        self, flow: Any, value: Any, reference: str | None = None
    ) -> tuple[starting.Definition, Any]:
        what = self.define(flow, reference)
        mechanism = self.mechanism(flow.kind)
        checked = mechanism.check_input(flow, value)
        return what, self.pack(checked, mechanism.input_type(flow), f"input of {flow.name!r}")

    def value_of(self, run: RunRecord) -> Any:
        return self.result(run.id)

    def pack(self, value: Any, declared: Any, place: str) -> Any:
        """A value as the store keeps it. Raises NotSerializable."""
        return codec.encode(value, declared, place=place) if self.store.durable else value

    def define(self, flow: Any, reference: str | None = None) -> starting.Definition:
        """What the store keeps of a flow.

        Raises:
            FlowNotFound: it is none, or no other process could find it. GraphError and the like: it
                cannot run.
        """
        _check_flow(flow)
        mechanism = self.mechanism(flow.kind)
        mechanism.prepare(flow)
        if reference is not None:
            text, importable = reference, True
            self.flows.put(text, flow)
        else:
            text, importable = self.flows.add(flow)
            self.know_parts(text, flow)
        if self.store.durable and not importable and text not in self.serves:
            raise FlowNotFound(
                f"flow {flow.name!r} is no module-level name of {flow.defined_in.module}, so no other "
                f"process could continue its runs in {self.store.label}; assign it to one, or pass flows=",
                flow=text,
            )
        signature = mechanism.signature(flow)
        return starting.Definition(
            flow=text,
            version=mechanism.version(flow),
            kind=flow.kind,
            entry=mechanism.entry(flow),
            signature=self.pack(signature, None, "signature"),
            participants=tuple(mechanism.participants(flow)),
            max_lost=mechanism.max_lost_attempts(flow),
        )

    def result(self, run_id: str) -> Any:
        """The value of a completed run, restored by the type that its flow declares."""
        run = self.store.read(lambda tx: found(tx, run_id))
        ref = run.result
        if ref is None:
            raise QuiesceError(f"run {run_id!r} has no value: it is {run.state.value}")
        stored = self.store.read(lambda tx: tx.value(run_id, ref))
        if not isinstance(stored, bytes) or not self.store.durable:
            return stored
        flow = self.flows.get(run.flow)
        return codec.decode(stored, self.mechanism(run.kind).output_type(flow, run))


def _check_flow(flow: Any) -> None:
    if not is_flow(flow):
        raise FlowNotFound(f"{flow!r} is not a flow (a Graph, an @agent function or a Team)")
