"""Is an answer held against the declared type itself, not just against its schema?

Wherever the type is known: where the run is driven, where a graph is at hand, and where a process drives
nothing else, so that it can execute a body dry over its journal. Who cannot know it is taken at his word,
and the question is asked again with the reason.

Source: spec engine, 4 (answer: validated against the hold's declared type first).
"""

from __future__ import annotations

from typing import Any

import pytest
from anyio import wait_all_tasks_blocked
from pydantic import BaseModel, field_validator

from quiesce import Graph, NodeContext, Run, Runtime, Transition, action, agent, pause, step
from quiesce.errors import AnswerRejected, QuiesceError

from .subject import paused

pytestmark = pytest.mark.anyio


class Even(BaseModel):
    """A number that a schema alone does not describe."""

    number: int

    @field_validator("number")
    @classmethod
    def must_be_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value


@agent
def even_agent() -> int:
    given: Even = pause("which?", expects=Even)
    return given.number


even_graph = Graph("even")
which = even_graph.gate("which", asks="which?", expects=Even)
even_graph.start(which)
even_graph.transition(which)(lambda pair: Transition.finish(pair[1].number))


@pytest.mark.parametrize("flow", [even_agent, even_graph], ids=["agent", "graph"])
@pytest.mark.parametrize("verb", ["answer", "resume"])
async def test_an_answer_that_only_the_validator_refuses_changes_nothing(
    store_url: str | None, tmp_path: Any, flow: Any, verb: str
) -> None:
    """spec engine, 4: AnswerRejected with the validator's message, nothing changed."""
    async with Runtime(None if store_url is None else store_url.format(folder=tmp_path)) as rt:
        run = await rt.start(flow)
        (hold,) = (await paused(run)).holds
        before = await run.status()
        given = {"number": 3}
        with pytest.raises(AnswerRejected, match="3 is odd"):
            await (rt.answer(hold.id, given) if verb == "answer" else run.resume(given))
        assert await run.status() == before
        await rt.answer(hold.id, {"number": 4})
        assert await run.result() == 4


@pytest.mark.parametrize("flow", [even_agent, even_graph], ids=["agent", "graph"])
async def test_who_cannot_know_the_type_is_taken_at_his_word_and_asked_again(
    tmp_path: Any, flow: Any
) -> None:
    """spec agent: typed answers are validated, and asked again with the reason; nothing is lost or failed."""
    path = tmp_path / "flows.db"
    async with Runtime(path) as rt:
        run = await rt.start(flow, run_id="r")
        (hold,) = (await paused(run)).holds
        async with Runtime(path, drive=False) as other:
            await other.answer(hold.id, {"number": 3})
        await wait_all_tasks_blocked()
    async with Runtime(path, flows=[flow]) as rt:
        run = await rt.get("r")
        (again,) = (await paused(run)).holds
        assert again.id != hold.id
        assert "which? (the last one was refused: answer.number" in (again.reason or "")
        assert "3 is odd" in (again.reason or "")
        await rt.answer(again.id, {"number": 4})
        assert await run.result() == 4


steps_done: list[str] = []


@step
def noted(what: str) -> str:
    steps_done.append(what)
    return what


@agent
def even_after_steps() -> int:
    noted("before")
    given: Even = pause("which?", expects=Even)
    return given.number


outer = Graph("outer")
inner = outer.node(even_after_steps, name="inner", start=True)
outer.finish(inner)


@pytest.mark.parametrize(
    ("flow", "served"),
    [(flow, served) for flow in (even_after_steps, outer, even_graph) for served in (True, False)],
    ids=[f"{flow}, {how}" for flow in ("agent", "nested", "graph") for how in ("served", "imported")],
)
@pytest.mark.parametrize("verb", ["answer", "resume"])
async def test_a_process_that_has_the_flow_refuses_what_only_the_type_refuses(
    tmp_path: Any, flow: Any, verb: str, served: bool
) -> None:
    """spec engine, 4: nothing changed, also where no body lives that asks; no step is done twice for it."""
    path = tmp_path / "flows.db"
    steps_done.clear()
    async with Runtime(path) as rt:
        (hold,) = (await paused(await rt.start(flow, run_id="r"))).holds
    async with Runtime(path, flows=[flow] if served else []) as rt:
        run = await rt.get("r")
        before = await run.status()
        for _ in range(2):
            with pytest.raises(AnswerRejected, match="3 is odd"):
                await (rt.answer(hold.id, {"number": 3}) if verb == "answer" else run.resume({"number": 3}))
        assert await run.status() == before
        await run.answer({"number": 4})
        assert await run.result() == 4
    assert steps_done == ([] if flow is even_graph else ["before"])


async def test_a_process_that_drives_other_runs_executes_no_body_for_an_answer(tmp_path: Any) -> None:
    """spec engine, 1: nothing waits in the loop of others; the question is asked again with the reason."""
    path = tmp_path / "flows.db"
    async with Runtime(path) as rt:
        (hold,) = (await paused(await rt.start(even_after_steps, run_id="r"))).holds
    async with Runtime(path, flows=[even_after_steps, even_agent]) as rt:
        await paused(await rt.start(even_agent))
        await rt.answer(hold.id, {"number": 3})
        await wait_all_tasks_blocked()
        (again,) = (await paused(await rt.get("r"))).holds
        assert "3 is odd" in (again.reason or "")


asking = Graph("asking")


@asking.node(start=True)
def asks(value: int, ctx: NodeContext) -> Any:
    return ctx.answer if ctx.answered else None


@asking.transition(asks)
def which_or_finish(given: Any) -> Transition:
    return Transition.pause("which?", expects=Even) if given is None else Transition.finish(given)


async def test_what_a_transition_declared_is_known_where_it_asked(
    store_url: str | None, tmp_path: Any
) -> None:
    """spec graph, 1: `Transition.pause(expects=)`; spec engine, 4: validated against the declared type."""
    async with Runtime(None if store_url is None else store_url.format(folder=tmp_path)) as rt:
        run = await rt.start(asking, 1)
        (hold,) = (await paused(run)).holds
        with pytest.raises(AnswerRejected, match="3 is odd"):
            await rt.answer(hold.id, {"number": 3})
        await rt.answer(hold.id, {"number": 4})
        assert await run.result() == {"number": 4}


@action(approval=True)
def send_even(what: Even) -> int:
    return what.number


@agent
def sender() -> int:
    return send_even(Even(number=2))


@pytest.mark.parametrize("again", [False, True], ids=["live", "new process"])
async def test_arguments_that_only_their_type_refuses_are_not_approved(tmp_path: Any, again: bool) -> None:
    """spec agent, actions: the answer edits the arguments; spec engine, 4: nothing changed if refused."""
    path = tmp_path / "flows.db"

    async def refused(rt: Runtime, run: Run) -> None:
        (hold,) = (await run.status()).holds
        with pytest.raises(AnswerRejected, match="3 is odd"):
            await rt.answer(hold.id, {"approve": True, "arguments": {"what": {"number": 3}}})
        assert [item.id for item in (await run.status()).holds] == [hold.id]

    async with Runtime(path) as rt:
        run = await rt.start(sender, run_id="r")
        await paused(run)
        await refused(rt, run)
    async with Runtime(path) as rt:
        run = await rt.get("r")
        if again:
            await refused(rt, run)
        await run.answer({"approve": True, "arguments": {"what": {"number": 6}}})
        assert await run.result() == 6


@agent
def answers_itself() -> int:
    given: Even = pause("which?", expects=Even, deadline=60, on_deadline=("answer", {"number": 3}))
    return given.number


answers_itself_graph = Graph("answers itself")
late = answers_itself_graph.gate(
    "late", asks="which?", expects=Even, deadline=60, on_deadline=("answer", {"number": 3})
)
answers_itself_graph.start(late)
answers_itself_graph.transition(late)(lambda pair: Transition.finish(pair[1].number))


@pytest.mark.parametrize("flow", [answers_itself, answers_itself_graph], ids=["agent", "graph"])
async def test_an_answer_for_the_deadline_that_its_type_refuses_is_told_when_it_is_asked(
    store_url: str | None, tmp_path: Any, flow: Any
) -> None:
    """Issue "agents" (bad input at the earliest moment): it would be asked again at every deadline."""
    async with Runtime(None if store_url is None else store_url.format(folder=tmp_path)) as rt:
        with pytest.raises(QuiesceError, match=r"on_deadline.*3 is odd"):
            await rt.run(flow)
