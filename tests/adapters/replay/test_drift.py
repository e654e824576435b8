"""What if a graph's code changes while a run of it waits? Two versions under one reference, on disk.

Source: spec graph, "Durable graphs": resume and retry say what changed and refuse, unless the changes are
accepted; a removed node is never silently finished. Spec engine, 2 (lock `fault`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from quiesce import Completed, Paused, Run, RunState, Runtime, flows
from quiesce.errors import FlowChanged, NodeError

pytestmark = pytest.mark.anyio

FIRST = """
    from quiesce import Graph, JoinInput, Transition

    graph = Graph("drift")

    @graph.node(start=True)
    def first(x: int) -> int:
        return x + 1

    gate = graph.gate("gate", asks="Go on?", expects=bool, takes=int)

    @graph.node
    def last(x: int) -> int:
        return x * 10

    @graph.node
    def spare(x: int) -> int:
        return x

    graph.edge(first, gate)

    @graph.transition(gate)
    def decide(answered):
        return last.next(answered[0])

    graph.finish(last)
    graph.finish(spare)
"""


class Module:
    """A flow file, of which each version is loaded as a new process would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""

    def load(self, text: str, *edits: tuple[str, str]) -> Any:
        """The graph of this text, with these replacements."""
        text = dedent(text)
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        if text != self.text:
            # A new file: bytecode is found by size and time, which two versions may share.
            self.path.unlink(missing_ok=True)
            self.path.write_text(text, encoding="utf-8")
            self.text = text
        self.forget()
        return flows.load(f"{self.path}:graph")

    def forget(self) -> None:
        for name, module in list(sys.modules.items()):
            if getattr(module, "__file__", None) == str(self.path):
                del sys.modules[name]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = Module(tmp_path / "drifting.py")
    yield module
    module.forget()


CHANGES = {
    "a node added": (
        ("graph.finish(last)", "graph.finish(last)\ngraph.finish(graph.node(first.body, name='extra'))"),
        ["node 'extra' was added"],
    ),
    "a node renamed": (("spare", "extra"), ["node 'spare' was removed", "node 'extra' was added"]),
    "a node retyped": (
        ("def last(x: int) -> int", "def last(x: float) -> float"),
        ["node 'last': input int -> float", "node 'last': output int -> float"],
    ),
    "an edge changed": (
        ("graph.edge(first, gate)", "graph.transition(first)(lambda x: gate.next(x))"),
        ["node 'first': transition edge to 'gate' -> handler"],
    ),
    "a finish changed": (
        ("graph.finish(spare)", "graph.edge(spare, last)"),
        ["node 'spare': transition finish -> edge to 'last'"],
    ),
    "the start changed": (
        ("graph.finish(spare)", "graph.finish(spare)\ngraph.start(spare)"),
        ["start first -> spare"],
    ),
    "the concurrency changed": (
        ('Graph("drift")', 'Graph("drift", concurrency="parallel")'),
        ["concurrency sequential -> parallel"],
    ),
    "the version changed": (('Graph("drift")', 'Graph("drift", version="2")'), None),
}


async def paused_run(store: Path, graph: Any) -> str:
    async with Runtime(store) as rt:
        outcome = await rt.run(graph, 1)
        assert isinstance(outcome, Paused)
        return outcome.run.id


async def snapshot(run: Run) -> dict[str, Any]:
    """Everything that a refused verb must leave alone."""
    return (await run.status()).model_dump()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_verb_that_would_go_on_with_changed_code_says_what_changed_and_changes_nothing(
    db: Path, module: Module, change: str
) -> None:
    """Signature and drift: resume and answer refuse; `accept_changes` goes on."""
    run_id = await paused_run(db, module.load(FIRST))
    edit, lines = CHANGES[change]
    module.load(FIRST, edit)
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        before = await snapshot(run)
        (hold,) = before["holds"]
        for verb in (run.resume(), run.resume(True), run.answer(True, hold=hold.id)):
            with pytest.raises(FlowChanged) as refused:
                await verb
            if lines is not None:
                assert list(refused.value.diff) == lines
            else:
                assert refused.value.diff[0].startswith("version ")
                assert refused.value.diff[0].endswith(" -> 2")
            assert all(line in str(refused.value) for line in refused.value.diff)
            assert "accept" in str(refused.value)
        assert await snapshot(run) == before
        await run.resume(True, accept_changes=True)
        outcome = await run.settled()
        assert isinstance(outcome, Completed)
        assert outcome.value == 20


async def test_an_answer_goes_on_once_a_retry_has_accepted_the_changes(db: Path, module: Module) -> None:
    """An answer takes no `accept_changes`; the hold stays the same."""
    run_id = await paused_run(db, module.load(FIRST))
    module.load(FIRST, ("spare", "extra"))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        (hold,) = (await run.status()).holds
        with pytest.raises(FlowChanged):
            await rt.answer(hold.id, True)
        await run.retry(accept_changes=True)
        status = await run.status()
        assert (status.state, [held.id for held in status.holds]) == (RunState.PAUSED, [hold.id])
        await rt.answer(hold.id, True)
        assert await run.settled() == Completed(20)
    async with Runtime(db) as rt:
        assert await (await rt.get(run_id)).result() == 20


async def test_a_retry_of_a_failed_run_says_what_changed_too(db: Path, module: Module) -> None:
    """Signature and drift: retry. Code that changed inside a node only is no change of the signature."""
    broken = ("return x * 10", "raise ValueError('broken')")
    run_id = await paused_run(db, module.load(FIRST, broken))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.answer(True)
        with pytest.raises(NodeError, match="broken"):
            await run.settled()
    module.load(FIRST, ("spare", "extra"))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        before = await snapshot(run)
        with pytest.raises(FlowChanged) as refused:
            await run.retry()
        assert list(refused.value.diff) == ["node 'spare' was removed", "node 'extra' was added"]
        assert await snapshot(run) == before
    module.load(FIRST)  # only the body of `last` differs from what failed
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.retry()
        assert await run.settled() == Completed(20)


async def test_a_failed_run_goes_on_with_changed_code_that_was_accepted(db: Path, module: Module) -> None:
    """Finished nodes are not evaluated again: what still fits continues."""
    run_id = await paused_run(db, module.load(FIRST, ("return x * 10", "raise ValueError('broken')")))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.answer(True)
        with pytest.raises(NodeError):
            await run.settled()
    module.load(FIRST, ("def last(x: int) -> int", "def last(x: float) -> float"), ("x * 10", "x * 100.0"))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.retry(accept_changes=True)
        assert await run.settled() == Completed(200.0)


@pytest.mark.parametrize("how", ["removed", "retyped"])
async def test_a_branch_that_stands_where_nothing_fits_is_named_and_held_not_finished(
    db: Path, module: Module, how: str
) -> None:
    """Spec graph: a removed or renamed node is never silently finished."""
    run_id = await paused_run(db, module.load(FIRST))
    if how == "removed":
        module.load(FIRST, ('graph.gate("gate"', 'graph.gate("renamed"'))
    else:
        module.load(
            FIRST, ("takes=int", "takes=list[int]"), ("graph.edge(first, gate)", "graph.finish(first)")
        )
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        with pytest.raises(FlowChanged):
            await run.resume()
        await run.resume(True, accept_changes=True)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        status = await run.status()
        assert [lock.kind for lock in status.locks] == ["fault"]
        assert "'gate'" in (status.reason or "")
        assert "reset the run" in (status.reason or "")
        # And so it stays: a resume looks again.
        await run.resume()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert "'gate'" in (outcome.reason or "")
    module.load(FIRST)  # the node is back, and so is what it was answered
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.retry(accept_changes=True)
        assert await run.settled() == Completed(20)


JOINED = """
    from quiesce import Graph, JoinInput, Transition

    graph = Graph("joined")

    @graph.node(start=True)
    def first(x: int) -> int:
        return x

    @graph.node
    def early(x: int) -> int:
        return x + 1

    gate = graph.gate("gate", asks="Go on?", expects=int, takes=int)

    @graph.node
    def join(brought: JoinInput[int]) -> int:
        return sum(brought)

    @graph.transition(first)
    def fan(x):
        return Transition.fan_out([(early, x), (gate, x)], join=join)

    graph.join(early, into=join)

    @graph.transition(gate)
    def decide(answered):
        return Transition.join(join, answered[1])

    graph.finish(join)
"""


async def test_an_open_fan_out_whose_join_is_gone_is_named(db: Path, module: Module) -> None:
    """What has arrived would have nowhere to go; the branch that brought it is long over."""
    run_id = await paused_run(db, module.load(JOINED))
    names = ("def {}(", "join={}", "into={}", "Transition.join({},", "finish({})")
    module.load(JOINED, *((name.format("join"), name.format("gather")) for name in names))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.resume(5, accept_changes=True)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert "'join'" in (outcome.reason or "")
    module.load(JOINED)
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.retry(accept_changes=True)
        assert await run.settled() == Completed(7)


async def test_a_payload_from_a_node_that_is_gone_is_still_joined(db: Path, module: Module) -> None:
    """What still fits continues: it was checked against the join when it arrived."""
    run_id = await paused_run(db, module.load(JOINED))
    module.load(JOINED, ("early", "sooner"))
    async with Runtime(db) as rt:
        run = await rt.get(run_id)
        await run.resume(5, accept_changes=True)
        assert await run.settled() == Completed(7)


RUNNING = """
    import anyio
    from quiesce import Graph

    graph = Graph("running")
    begun = anyio.Event()

    @graph.node(start=True)
    async def slow(x: int) -> int:
        begun.set()
        await anyio.sleep_forever()
        return x

    graph.finish(slow)
"""


async def test_a_run_that_was_handed_back_is_not_driven_on_by_changed_code(db: Path, module: Module) -> None:
    """A worker that serves the flow finds it changed: the run is held under `fault` with the reason."""
    graph = module.load(RUNNING)
    async with Runtime(db) as rt:
        run_id = (await rt.start(graph, 1)).id
        await sys.modules[graph.defined_in.module].begun.wait()
    changed = module.load(
        RUNNING, ("x: int) -> int", "x: float) -> float"), ("await anyio.sleep_forever()", "")
    )
    async with Runtime(db, flows=[changed]) as rt:
        run = await rt.get(run_id)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        status = await run.status()
        assert [lock.kind for lock in status.locks] == ["fault"]
        assert "node 'slow': input int -> float" in (status.reason or "")
        with pytest.raises(FlowChanged):
            await run.retry()
        await run.retry(accept_changes=True)
        assert await run.settled() == Completed(1.0)
