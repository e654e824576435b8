"""What of a graph do its runs depend on, and what has changed of it?

A paused run is tied to this: nodes with their kinds and types, declared transitions, start and default
concurrency. It is JSON, equal in every process for equal code, and kept with the run. What a handler
does inside is not in it; nor are names of types that say nothing (`Any`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quiesce.codec import type_name

if TYPE_CHECKING:
    from quiesce.graph.decisions import Decision
    from quiesce.graph.definition import Graph

__all__ = ["diff", "digest_of", "signature_of"]


def signature_of(graph: Graph) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    for name, ref in graph.nodes.items():
        nodes[name] = {
            "kind": ref.node.kind,
            "input": ref.node.input.text,
            "output": ref.node.output.text,
        }
        if ref.gate is not None:
            nodes[name]["expects"] = None if ref.gate.expects is None else type_name(ref.gate.expects)
        if ref.flow is not None:
            nodes[name]["flow"] = f"{ref.flow.kind} {ref.flow.name}"
    return {
        "start": None if graph.start_node is None else graph.start_node.name,
        "concurrency": graph.concurrency.value,
        "nodes": nodes,
        "transitions": {
            name: _transition(graph.decisions[name]) for name in nodes if name in graph.decisions
        },
        "rejections": {
            name: _transition(graph.rejections[name]) for name in nodes if name in graph.rejections
        },
    }


def digest_of(signature: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that stand for it."""
    text = json.dumps(signature, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed from one signature to the other, a line each; empty if nothing did."""
    lines = []
    before, after = old["nodes"], new["nodes"]
    lines += [f"node {name!r} was removed" for name in before if name not in after]
    lines += [f"node {name!r} was added" for name in after if name not in before]
    kept = [name for name in before if name in after]
    for name in kept:
        for fact in sorted(before[name].keys() | after[name].keys()):
            was, now = before[name].get(fact), after[name].get(fact)
            if was != now:
                lines.append(f"node {name!r}: {fact} {_shown(was)} -> {_shown(now)}")
    for what, kind in (("transition", "transitions"), ("rejection", "rejections")):
        for name in kept:
            was, now = old.get(kind, {}).get(name), new.get(kind, {}).get(name)
            if was != now:
                lines.append(f"node {name!r}: {what} {_told(was)} -> {_told(now)}")
    for fact in ("start", "concurrency"):
        if old[fact] != new[fact]:
            lines.append(f"{fact} {_shown(old[fact])} -> {_shown(new[fact])}")
    return lines


def _transition(decision: Decision) -> dict[str, Any]:
    return {
        "kind": decision.kind,
        "to": None if decision.to is None else list(decision.to),
        "maps": decision.kind != "handler" and decision.function is not None,
    }


def _told(transition: Mapping[str, Any] | None) -> str:
    if transition is None:
        return "none"
    to = transition["to"]
    told = str(transition["kind"]) + (f" to {', '.join(map(repr, to))}" if to else "")
    return told + (" with a map" if transition["maps"] else "")


def _shown(fact: object) -> str:
    return "unknown" if fact is None else str(fact)
