"""Does every verb do in every state what the lifecycle's table says, and nothing where it is refused?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Ack, Run, Runtime
from quiesce.errors import IllegalTransition, NotResumable, RunActive, RunNotFound

from .kinds import FAILURES, Kind, Stage
from .subject import Subject, outermost, paused

pytestmark = pytest.mark.anyio

VERBS = ("start", "pause", "resume", "cancel", "reset", "retry", "takeover")

# Copied from spec engine, 3; a class is what refuses. What drives the runs here lives.
MATRIX: dict[str, tuple[str | type[IllegalTransition], ...]] = {
    "created": ("running", IllegalTransition, NotResumable, "cancelled", "created", IllegalTransition),
    "queued": (RunActive, IllegalTransition, "running", "cancelled", "created", IllegalTransition),
    "running": (RunActive, "paused", NotResumable, "cancelled", "created", IllegalTransition),
    "paused": (RunActive, "paused", "running", "cancelled", "created", IllegalTransition),
    "holding": (RunActive, "paused", "running", "cancelled", "created", IllegalTransition),
    "completed": (
        IllegalTransition,
        IllegalTransition,
        NotResumable,
        IllegalTransition,
        "created",
        IllegalTransition,
    ),
    "failed": (IllegalTransition, IllegalTransition, NotResumable, "cancelled", "created", "running"),
    "cancelled": (
        IllegalTransition,
        IllegalTransition,
        NotResumable,
        IllegalTransition,
        "created",
        IllegalTransition,
    ),
}
# A take-over is no cell of the table: it needs a holder (spec engine, 4, resume).
TAKEOVER: dict[str, str | type[IllegalTransition]] = {
    "running": "running",
    "paused": "paused",
    "holding": "paused",
}
CASES = [
    (state, verb, expected)
    for state, row in MATRIX.items()
    for verb, expected in zip(VERBS, (*row, TAKEOVER.get(state, IllegalTransition)), strict=True)
]
PUT = {"queued": "created", "holding": "paused"}
"""What the state of a run is, where the case is called otherwise."""


async def brought_to(state: str, rt: Runtime, kind: Kind, stage: Stage, flow: Any) -> Run:
    """A run in this state, by public verbs."""
    if state == "created":
        return await rt.create(flow, "subject")
    run = await rt.start(flow, 1, run_id="subject")
    match state:
        case "running" | "paused" | "cancelled" | "queued":
            await stage.wait_came()
        case "completed":
            await run.settled()
        case "holding":
            await paused(run)
        case "failed":
            with pytest.raises(FAILURES):
                await run.settled()
    match state:
        case "paused":
            await run.pause()
            stage.open()
            await paused(run)
            stage.close()
        case "cancelled":
            await run.cancel()
            await stage.wait_cancelled()
        case "queued":
            await run.reset()
            await stage.wait_cancelled()
    await wait_all_tasks_blocked()
    return run


def flow_for(state: str, kind: Kind, stage: Stage) -> Any:
    match state:
        case "completed":
            return kind.adds()
        case "failed":
            return kind.mends([ValueError("boom")])
        case "holding":
            return kind.asks()
        case _:
            return kind.works(stage, after=stage)


def act(verb: str, rt: Runtime, flow: Any) -> Callable[[str], Awaitable[Any]]:
    if verb == "start":
        return lambda run_id: rt.start(flow, 1, run_id=run_id)
    found: Callable[[str], Awaitable[Any]] = getattr(rt, verb)
    return found


@pytest.mark.parametrize(("state", "verb", "expected"), CASES)
async def test_the_verb_does_what_its_cell_says(
    subject: Subject, kind: Kind, state: str, verb: str, expected: str | type[IllegalTransition]
) -> None:
    """spec engine, 3: the state that the verb leads to; a refusal names run, state and verb, and changes
    nothing."""
    stage = Stage()
    flow = flow_for(state, kind, stage)
    async with subject.open(flow) as rt:
        run = await brought_to(state, rt, kind, stage, flow)
        before = await run.status()
        assert before.state == PUT.get(state, state)
        if isinstance(expected, str):
            ack = await act(verb, rt, flow)(run.id)
            after = await run.status()
            if (state, verb) != ("holding", "resume"):  # which is asked again, and held again
                assert after.state == expected
            if isinstance(ack, Ack):
                assert (ack.run_id, ack.replayed) == (run.id, False)
                assert ack.request_id
                assert ack.transitioned == (
                    ack.generation != before.generation or before.state != after.state
                )
            return
        async with subject.refused(rt, expected, run) as caught:
            await act(verb, rt, flow)(run.id)
        error = caught.value
        assert isinstance(error, IllegalTransition)
        assert (error.run_id, error.state, error.verb) == (run.id, before.state, verb)
        assert run.id in str(error)
        assert before.state in str(error)


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "reset", "retry", "takeover", "status", "get"])
async def test_a_run_that_is_not_there_is_said_so(subject: Subject, verb: str) -> None:
    """spec engine, 5: RunNotFound names the id."""
    async with subject.open() as rt:
        with pytest.raises(RunNotFound, match="nobody") as caught:
            await getattr(rt, verb)("nobody")
        assert caught.value.run_id == "nobody"


async def test_a_create_of_a_taken_id_is_refused(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a run id names one run for ever."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.create(flow, "taken")
        async with subject.refused(rt, RunActive, run) as caught:
            await rt.create(flow, "taken")
        assert "taken" in str(caught.value)


async def test_an_active_run_is_started_once(subject: Subject, kind: Kind) -> None:
    """spec graph, cases 6 and 11: another input is another run; the refused one is not remembered."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1, run_id="one")
        await paused(run)
        async with subject.refused(rt, RunActive, run):
            await rt.start(flow, 2, run_id="one")
        assert len(await outermost(rt)) == 1


async def test_a_created_run_is_started_with_its_input(subject: Subject, kind: Kind) -> None:
    """spec engine, 3 and 4: create makes a run without an input, start commits running."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.create(flow)
        status = await run.status()
        assert (status.state, status.generation, status.execution, status.locks) == ("created", 1, 1, ())
        assert run == await rt.start(flow, 1, run_id=run.id)
        assert (await run.status()).state == "running"
        stage.open()
        assert await run.result() == 2
