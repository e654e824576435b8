"""What ends a body's wait: what it waits for, a time-out of its own, or that it would wait for ever?

Over both stores: a wait is a row on disk, where other processes must see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import (
    Completed,
    Graph,
    Paused,
    RunState,
    Runtime,
    agent,
    current_run,
    errors,
    pause,
    receive,
    send,
    sleep,
    spawn,
)
from quiesce.agent import RunHandle
from quiesce.rules.status import event_value

pytestmark = pytest.mark.anyio

Waits = Callable[[RunHandle], Any]
WAITS: dict[str, Waits] = {"result": RunHandle.result, "settled": RunHandle.settled}


@agent
def listens() -> Any:
    return receive()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Path | None:
    found: Path | None = None if request.param == "memory" else request.getfixturevalue("db")
    return found


async def outcome(rt: Runtime, flow: Any) -> Any:
    """What becomes of a run, which must not hang."""
    run = await rt.start(flow, run_id="r")
    with anyio.fail_after(20):
        return await run.settled()


# --- for ever ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", WAITS)
@pytest.mark.parametrize("outer", WAITS)
async def test_two_bodies_that_wait_for_each_other_are_told(
    store: Path | None, outer: str, inner: str
) -> None:
    """Source: spec agent, "Concurrency" (reported, not hung), whatever each of them waits for."""

    @agent
    def second(first_id: str) -> Any:
        return WAITS[inner](RunHandle(first_id))

    @agent
    def first() -> str:
        try:
            return repr(WAITS[outer](spawn(second, current_run().id)))
        except errors.Deadlock as error:
            return str(error)

    async with Runtime(store, flows=[first, second]) as rt:
        told = (await outcome(rt, first)).value
    assert "would wait for itself" in told
    assert told.count("'r'") + told.count("'r.1'") == 4


async def test_three_in_a_ring_are_told_with_the_whole_ring(store: Path | None) -> None:
    """Source: spec agent, "Concurrency": directly, or through others."""

    @agent
    def third(first_id: str) -> Any:
        return RunHandle(first_id).result()

    @agent
    def second(first_id: str) -> Any:
        return spawn(third, first_id).result()

    @agent
    def first() -> str:
        return str(spawn(second, current_run().id).result())

    async with Runtime(store, flows=[first, second, third]) as rt:
        with pytest.raises(errors.Deadlock) as caught:
            await outcome(rt, first)
        assert (await rt.status("r")).state is RunState.FAILED
    ring = ["'r'", "'r.1'", "'r.1.1'"]
    turned = [ring[at:] + ring[:at] for at in range(3)]
    assert any(str(caught.value).endswith(" waits for ".join([*each, each[0]])) for each in turned)


async def test_a_node_that_waits_for_the_run_around_its_graph_is_told(store: Path | None) -> None:
    """Source: spec agent, "Concurrency"; spec engine, 4 (nesting: an agent as a graph node)."""

    @agent
    def node(outer_id: str) -> Any:
        return RunHandle(outer_id).result()

    graph = Graph("between")
    graph.finish(graph.node(node, start=True))

    @agent
    def outer() -> Any:
        return spawn(graph, current_run().id).result()

    async with Runtime(store, flows=[outer, graph, node]) as rt:
        with pytest.raises((errors.Deadlock, errors.NodeError)) as caught:
            await outcome(rt, outer)
    told = str(caught.value)
    assert "would wait for itself" in told
    assert all(f"'{run_id}'" in told for run_id in ("r", "r.1", "r.1.1"))


@pytest.mark.parametrize("what", WAITS)
async def test_a_wait_that_was_given_up_is_no_part_of_a_circle(store: Path | None, what: str) -> None:
    """Source: spec agent, "Concurrency": whoever waits no longer may be waited for."""

    @agent
    def other() -> Any:
        receive()
        return RunHandle("r").result()

    @agent
    def body() -> Any:
        with anyio.move_on_after(0.01):  # noqa: ASYNC100 (what suspends a body is a plain call)
            WAITS[what](RunHandle("other"))
        send("other", "now it waits for me")
        return receive()

    async with Runtime(store, flows=[body, other]) as rt:
        waiting = await rt.start(other, run_id="other")
        run = await rt.start(body, run_id="r")
        with anyio.fail_after(20):
            while child_of(rt, "other") != "r":
                assert (await waiting.status()).state is RunState.RUNNING, (await waiting.status()).error
                await anyio.lowlevel.checkpoint()
            assert child_of(rt, "r") is None
            await run.send("the end")
            assert await waiting.result() == "the end"


def child_of(rt: Runtime, run_id: str) -> str | None:
    """The run that another one waits for, as every process sees it."""
    return next((piece.child for piece in rt.backend.host.read(lambda tx: tx.pieces(run_id))), None)


# --- a time-out of the body's own ----------------------------------------------------------------------

ENDLESS: dict[str, Callable[[RunHandle], Any]] = {
    "receive": lambda child: receive(),
    "sleep": lambda child: sleep(1000),
    **WAITS,
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_a_time_out_ends_the_wait_of_a_body_whose_run_runs(store: Path | None, what: str) -> None:
    """Source: spec agent, "Concurrency" (cancel scopes behave as if it had never been suspended)."""

    @agent
    def body() -> list[str]:
        child, told = spawn(listens), []
        try:
            with anyio.fail_after(0.01):  # noqa: ASYNC100
                ENDLESS[what](child)
        except TimeoutError:
            told.append("late")
        child.send("and it goes on")
        return [*told, child.result()]

    async with Runtime(store, flows=[body, listens]) as rt:
        assert await outcome(rt, body) == Completed(["late", "and it goes on"])


@pytest.mark.parametrize("what", ENDLESS)
async def test_a_time_out_that_passes_while_the_run_is_paused_is_delivered_when_it_continues(
    store: Path | None, what: str
) -> None:
    """Source: spec agent, "Concurrency" (absolute: it runs on while paused, is delivered afterwards)."""
    waits, scopes = anyio.Event(), list[anyio.CancelScope]()

    @agent
    def body() -> str:
        child = spawn(listens)
        with anyio.CancelScope() as scope:  # noqa: ASYNC100
            scopes.append(scope)
            waits.set()
            ENDLESS[what](child)
        return "late" if scope.cancelled_caught else "in time"

    async with Runtime(store, flows=[body, listens]) as rt:
        run = await rt.start(body, run_id="r")
        with anyio.fail_after(20):
            await waits.wait()
            await run.pause()
            assert isinstance(await run.settled(), Paused)
            scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            assert (await run.status()).state is RunState.PAUSED
            await run.resume()
            assert await run.result() == "late"


async def test_a_time_out_does_not_end_the_wait_for_a_person(store: Path | None) -> None:
    """Source: spec agent, "Body and lifecycle": it is delivered when the pause is over, not before."""
    scopes = list[anyio.CancelScope]()

    @agent
    def body() -> list[Any]:
        child = spawn(listens)  # which works on, so that the run of this body does too
        with anyio.CancelScope() as scope:  # noqa: ASYNC100
            scopes.append(scope)
            pause("a person's time")
        child.send("done")
        return [scope.cancelled_caught, child.result()]

    async with Runtime(store, flows=[body, listens]) as rt:
        run = await rt.start(body, run_id="r")
        with anyio.fail_after(20):
            while not await rt.holds("r"):
                await anyio.lowlevel.checkpoint()
            scopes[0].cancel()
            await anyio.wait_all_tasks_blocked()
            assert [hold.state for hold in await rt.holds("r")] == ["open"]
            await run.answer("here I am")
            assert await run.result() == [True, "done"]


# --- verbs ----------------------------------------------------------------------------------------------


@agent
def asks(word: str) -> Any:
    return pause(word)


@agent
def directs(others: str) -> list[Any]:
    """Uses every verb on runs inside it, and on one beside it, and says what became of them."""
    one, two, three, four = (spawn(asks, str(number)) for number in range(4))
    beside = RunHandle(others)
    for run in (one, two, three, four, beside):
        run.settled()
    acks = [one.resume(), two.pause("stop it"), two.resume("let go"), three.reject("no"), four.cancel()]
    acks.append(beside.answer("from inside"))
    pause("between")
    found = [one.result(), two.result(), beside.result()]
    for run in (three, four):
        try:
            run.result()
        except errors.QuiesceError as error:
            found.append(type(error).__name__)
    return [*found, [ack.request_id for ack in acks], [run.status().state.value for run in (one, four)]]


async def test_the_verbs_of_a_body_on_other_runs_are_done_once(store: Path | None) -> None:
    """Source: cases agent S27, B15; spec agent, journal: executed again, a body repeats no verb."""
    async with Runtime(store, flows=[directs, asks]) as rt:
        await rt.start(asks, "beside?", run_id="beside")
        run = await rt.start(directs, "beside", run_id="r")
        with anyio.fail_after(20):
            first = await run.settled()
            assert isinstance(first, Paused)
            assert first.reason == "between"
        if store is None:
            await run.answer("on")
            value = await run.result()
    if store is not None:
        async with Runtime(store, flows=[directs, asks]) as rt:
            before = counts(rt)
            await rt.answer(first.holds[0].id, "on")
            with anyio.fail_after(20):
                value = await (await rt.get("r")).result()
            assert counts(rt) == before
    *found, acks, states = value
    rejected = "Rejected" if store is None else "RunFailed"  # spec engine, 5: where another process ran it
    assert found == [None, "let go", "from inside", rejected, "RunCancelled"]
    assert len(set(acks)) == 6
    assert states == ["completed", "cancelled"]


VERBS = {"resumed", "paused", "answered", "rejected", "dropped"}


def counts(rt: Runtime) -> Counter[tuple[str, str]]:
    """How often each run that a body directed was resumed, rejected, answered and so on."""
    log = map(event_value, rt.backend.host.read(lambda tx: tx.events(None, 0, 10_000)))
    return Counter(
        (row.run_id, row.kind)
        for row in log
        if (row.run_id != "r" and row.kind in VERBS) or (row.run_id, row.kind) == ("r.4", "cancelled")
    )
