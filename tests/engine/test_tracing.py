"""Which spans does a run leave in OpenTelemetry? Source: spec engine, 5 (last paragraph)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quiesce import Completed, Concurrency, Graph, Paused, Runtime, Transition
from quiesce.errors import NodeError

pytestmark = pytest.mark.anyio
EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """OpenTelemetry takes one provider per process."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture
def exporter(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


@pytest.fixture(params=["memory", "sqlite"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "flows.db"


def facts(span: ReadableSpan) -> dict[str, Any]:
    return {key.removeprefix("quiesce."): value for key, value in (span.attributes or {}).items()}


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == f"quiesce.{name}"]


def gated() -> tuple[Graph, list[bool]]:
    graph, closed = Graph("gated"), [True]

    @graph.node(start=True)
    def first(x: int) -> int:
        return x + 1

    @graph.node
    async def gate(x: int) -> int:
        with trace.get_tracer("test").start_as_current_span("inside"):
            await anyio.lowlevel.checkpoint()
        return x

    graph.edge(first, gate)
    graph.transition(gate)(lambda x: Transition.pause("closed") if closed else Transition.finish(x))
    return graph, closed


async def test_a_run_has_a_span_while_it_runs_and_its_visits_have_theirs_inside(
    target: Path | None, exporter: InMemorySpanExporter
) -> None:
    """Cases graph, 103: run > visit(node, branch) in the order in which they are evaluated."""
    graph, closed = gated()
    async with Runtime(target, flows=[graph]) as rt:
        with trace.get_tracer("test").start_as_current_span("request") as request:
            outcome = await rt.run(graph, 1)
        assert isinstance(outcome, Paused)
        (paused,) = named(exporter, "run")
        visits = named(exporter, "visit")
        assert [(facts(span)["node"], facts(span)["branch"], facts(span)["did"]) for span in visits] == [
            ("first", 1, "next"),
            ("gate", 1, "pause"),
        ]
        assert all(span.parent == paused.context for span in visits)
        assert paused.parent == request.get_span_context()
        (inside,) = [span for span in exporter.get_finished_spans() if span.name == "inside"]
        assert inside.parent == visits[1].context
        closed.clear()
        assert await outcome.resume() == Completed(2)
    first, second = named(exporter, "run")
    assert (facts(first)["state"], facts(second)["state"]) == ("paused", "completed")
    assert facts(first)["run"] == facts(second)["run"] == outcome.run.id
    assert named(exporter, "visit")[2].parent == second.context


async def test_a_paused_span_is_not_an_error(target: Path | None, exporter: InMemorySpanExporter) -> None:
    """Spec engine, 5."""
    graph, _ = gated()
    async with Runtime(target, flows=[graph]) as rt:
        await rt.run(graph, 1)
    assert {span.status.status_code for span in exporter.get_finished_spans()} == {trace.StatusCode.UNSET}
    assert not any(span.events for span in exporter.get_finished_spans())


async def test_a_failed_visit_and_its_run_are_errors_with_the_text(
    target: Path | None, exporter: InMemorySpanExporter
) -> None:
    """Cases graph, 103: also after a failing step, and the error text at the end of the run."""
    graph = Graph("failing")

    @graph.node(start=True)
    def bad(x: int) -> int:
        raise ValueError("boom")

    graph.finish(bad)
    async with Runtime(target, flows=[graph]) as rt:
        with pytest.raises(NodeError):
            await rt.run(graph, 1)
    (visit,), (run,) = named(exporter, "visit"), named(exporter, "run")
    for span in (visit, run):
        assert span.status.status_code is trace.StatusCode.ERROR
        assert span.status.description == "node 'bad' failed: ValueError: boom"
    assert [event.name for event in visit.events] == ["exception"]
    assert facts(run)["state"] == "failed"


async def test_a_pause_and_its_drain_have_the_times_of_the_episode(
    target: Path | None, exporter: InMemorySpanExporter
) -> None:
    """Spec engine, 5: spans pause and drain; they are made when the episode closes."""
    graph, go, begun = Graph("draining"), anyio.Event(), anyio.Event()

    @graph.node(start=True)
    async def slow(x: int) -> int:
        begun.set()
        await go.wait()
        return x

    @graph.node
    def last(x: int) -> int:
        return x

    graph.edge(slow, last)
    graph.finish(last)
    async with Runtime(target, flows=[graph]) as rt:
        run = await rt.start(graph, 1)
        await begun.wait()
        ack = await run.pause()
        go.set()
        assert isinstance(await run.settled(), Paused)
        status = await run.status()
        assert named(exporter, "pause") == []
        await run.resume()
        assert await run.settled() == Completed(1)
    (pause,), (drain,) = named(exporter, "pause"), named(exporter, "drain")
    assert facts(pause)["episode"] == facts(drain)["episode"] == ack.episode_id
    assert (facts(pause)["cause"], facts(pause)["ended_as"]) == ("operator", "resumed")
    assert status.fenced_at is not None
    assert status.quiescent_at is not None
    assert pause.start_time == drain.start_time == round(status.fenced_at.timestamp() * 1e6) * 1000
    assert drain.end_time == round(status.quiescent_at.timestamp() * 1e6) * 1000
    assert facts(drain)["overdue"] is False
    assert pause.end_time is not None
    assert pause.end_time >= drain.end_time


async def test_whoever_drives_on_tells_of_a_pause_that_another_process_opened(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    """A pause outlives the process that fenced it, and so does its span."""
    graph, closed = gated()
    async with Runtime(tmp_path / "flows.db", flows=[graph]) as rt:
        outcome = await rt.run(graph, 1)
        assert isinstance(outcome, Paused)
    assert named(exporter, "pause") == []
    closed.clear()
    async with Runtime(tmp_path / "flows.db", flows=[graph]) as rt:
        run = await rt.get(outcome.run.id)
        await run.resume()
        assert await run.settled() == Completed(2)
    (pause,) = named(exporter, "pause")
    assert facts(pause)["episode"] == outcome.episode


async def test_a_cancelled_visit_ends_its_span(target: Path | None, exporter: InMemorySpanExporter) -> None:
    """A loser of a race, and what was in flight when its run ended."""
    graph, begun = Graph("racing"), anyio.Event()

    @graph.node(start=True)
    def start(x: int) -> int:
        return x

    @graph.node
    async def slow(x: int) -> int:
        begun.set()
        await anyio.sleep_forever()
        return x

    @graph.node
    async def quick(x: int) -> int:
        await begun.wait()
        return x

    graph.transition(start)(
        lambda x: Transition.fan_out([(slow, x), (quick, x)], join=None, concurrency=Concurrency.PARALLEL)
    )
    graph.finish(slow)
    graph.finish(quick)
    async with Runtime(target, flows=[graph]) as rt:
        assert await rt.run(graph, 1) == Completed(1)
    did = {facts(span)["node"]: facts(span)["did"] for span in named(exporter, "visit")}
    assert did == {"start": "fanout", "quick": "finish", "slow": "cancelled"}


def test_nothing_imports_opentelemetry_for_a_process_that_does_not_use_it() -> None:
    """Its API is only looked for among what the process has imported itself."""
    script = (
        "import anyio, sys\n"
        "from quiesce import Graph, Runtime\n"
        "graph = Graph('plain')\n"
        "graph.finish(graph.node(lambda x: x, name='a', start=True))\n"
        "async def main():\n"
        "    async with Runtime() as rt:\n"
        "        print(await rt.run(graph, 1))\n"
        "anyio.run(main)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["Completed(value=1)", "[]"]
