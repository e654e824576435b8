"""The public API as a type checker sees it. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, assert_type

from quiesce import (
    Ack,
    AnswerAck,
    Capabilities,
    Completed,
    CurrentNodes,
    Event,
    Graph,
    Hold,
    Idle,
    Outcome,
    Page,
    PauseAck,
    Paused,
    Receipt,
    ResumeAck,
    Run,
    RunState,
    RunStatus,
    Runtime,
)

graph = Graph("typed")


class Gate:
    """A node with state."""

    def evaluate(self, number: int) -> int:
        return number


async def runtime_verbs(rt: Runtime) -> None:
    run = assert_type(await rt.start(graph, 1), Run)
    assert_type(await rt.create(graph), Run)
    assert_type(await rt.run(graph, 1), Outcome)
    assert_type(await rt.pause(run.id, reason="lunch"), PauseAck)
    assert_type(await rt.resume(run.id), ResumeAck)
    assert_type(await rt.resume(run.id, True, hold="hold-1"), ResumeAck)
    assert_type(await rt.answer("hold-1", {"any": "json"}), AnswerAck)
    assert_type(await rt.reject("hold-1", "no"), AnswerAck)
    assert_type(await rt.cancel(run.id), Ack)
    assert_type(await rt.reset(run.id), Ack)
    assert_type(await rt.retry(run.id, accept_changes=True), Ack)
    assert_type(await rt.takeover(run.id), Ack)
    assert_type(await rt.fork(run.id, at=2), Run)
    assert_type(await rt.get(run.id), Run)
    assert_type(await rt.status(run.id), RunStatus)
    assert_type(await rt.list(state="paused"), Page[RunStatus])
    assert_type(await rt.holds(), Page[Hold])
    assert_type(await rt.receipts("run-1:2"), Page[Receipt])
    assert_type(rt.events(), AsyncIterator[Event])
    assert_type(rt.capabilities("graph"), Capabilities)


async def run_verbs(run: Run) -> None:
    assert_type(await run.pause(), PauseAck)
    assert_type(await run.resume(True), ResumeAck)
    assert_type(await run.answer(False), AnswerAck)
    assert_type(await run.status(), RunStatus)
    assert_type(await run.cancel(), Ack)
    assert_type(await run.settled(), Outcome)
    assert_type(await run.result(), Any)
    assert_type(run.current_nodes(Gate), CurrentNodes[Gate])
    assert_type(run.current_nodes(Gate).one(), Gate)
    assert_type(run.events(), AsyncIterator[Event])


async def outcomes(outcome: Outcome) -> None:
    match outcome:
        case Completed(value):
            assert_type(value, Any)
        case Paused(run, episode, reason, holds):
            assert_type(run, Run)
            assert_type(episode, str)
            assert_type(reason, str | None)
            assert_type(holds, tuple[Hold, ...])
            assert_type(await outcome.resume(True), Outcome)
        case Idle(run):
            assert_type(run, Run)


def values(status: RunStatus, page: Page[RunStatus]) -> None:
    assert_type(status.state, RunState)
    assert_type(status.model_dump(mode="json"), dict[str, Any])
    assert_type(page.next, str | None)
    assert_type(page[0], RunStatus)
