"""Does a run on disk, continued by another process after each pause, do what it does in memory?

Random graphs of fan-outs, races, chains and gates; every node logs what it is evaluated with. The order of
evaluations is the specification (spec graph, "Scheduling" and "Pause"), so it may not depend on the store.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from quiesce import Completed, Concurrency, Graph, Paused, Runtime, Transition


@dataclass(frozen=True)
class Plan:
    """What follows a node: `gate` pauses so often first; then it ends, or fans out."""

    pauses: int
    fan: tuple[Plan, ...] = ()
    how: Concurrency | None = None
    most: int | None = None
    race: bool = False


@st.composite
def plans(draw: st.DrawFn, depth: int = 2) -> Plan:
    pauses = draw(st.integers(0, 2))
    fan = draw(st.lists(plans(depth - 1), max_size=3)) if depth else []
    return Plan(
        pauses,
        tuple(fan),
        draw(st.sampled_from([None, *Concurrency])),
        draw(st.sampled_from([None, None, 1, 2])),
        race=bool(fan) and draw(st.booleans()),
    )


def build(plan: Plan, default: Concurrency) -> tuple[Graph, list[str]]:
    """The graph of a plan: a node for each of its parts, named by the way to it, and a join for each fan."""
    graph, log = Graph("plan", concurrency=default), list[str]()

    def add(part: Plan, name: str) -> None:
        left = [part.pauses]

        def evaluate(x: Any) -> Any:
            log.append(f"{name}({x})")
            return x

        def decide(x: Any) -> Transition:
            if left[0]:
                left[0] -= 1
                return Transition.pause(name)
            if not part.fan:
                return Transition.finish([name, x])
            return Transition.fan_out(
                [(f"{name}.{n}", n) for n in range(len(part.fan))],
                join=None if part.race else f"{name} joined",
                concurrency=part.how,
                max_parallelism=part.most,
            )

        graph.transition(graph.node(evaluate, name=name, start=name == "S"))(decide)
        for n, inner in enumerate(part.fan):
            add(inner, f"{name}.{n}")
        if part.fan and not part.race:
            joined = graph.node(lambda brought: list(brought), name=f"{name} joined")
            graph.finish(joined)

    add(plan, "S")
    return graph, log


async def through(plan: Plan, default: Concurrency, target: Path | None) -> tuple[Any, list[str], list[Any]]:
    """Run it to its end by plain resumes: the value, the evaluations, and what each pause showed."""
    graph, log = build(plan, default)
    shown = []
    async with Runtime(target, flows=[graph], durability="normal") as rt:
        outcome = await rt.run(graph, 0, run_id="run")
        while isinstance(outcome, Paused) and target is None:
            shown.append(sorted(hold.path for hold in outcome.holds))
            outcome = await outcome.resume()
    while isinstance(outcome, Paused):
        shown.append(sorted(hold.path for hold in outcome.holds))
        async with Runtime(target, flows=[graph], durability="normal") as rt:
            run = await rt.get("run")
            await run.resume()
            outcome = await run.settled()
    assert isinstance(outcome, Completed)
    return outcome.value, log, shown


@settings(max_examples=10, deadline=None)
@given(plans(), st.sampled_from(list(Concurrency)))
def test_another_process_after_each_pause_evaluates_the_same_in_the_same_order(
    plan: Plan, default: Concurrency
) -> None:
    """Spec graph, "Durable graphs"."""
    with tempfile.TemporaryDirectory() as folder:
        on_disk = anyio.run(through, plan, default, Path(folder) / "flows.db")
    assert on_disk == anyio.run(through, plan, default, None)
