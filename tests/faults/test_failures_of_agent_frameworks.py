"""Does what users of agent frameworks reported about effects, answers and going back happen here?

Each test is named for its entry in the cases; what a new process finds is in
`test_failures_of_agent_frameworks_in_new_processes.py`, what becomes of values in
`test_failures_of_agent_frameworks_with_values.py`. On disk every step has a runtime of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quiesce import Completed, Concurrency, Graph, JoinInput, NodeContext, Run, Runtime, Transition
from quiesce.errors import (
    AlreadyAnswered,
    AmbiguousAnswer,
    AnswerRejected,
    AnswerRequired,
    NotResumable,
    RunActive,
    UnknownHold,
)

from .sessions import Sessions, events_of, paused

pytestmark = pytest.mark.anyio

ENTRIES = {1, 3, 8, 9, 15, 16, 18, 19, 23, 24, 28, 29, 41, 42, 46, 58, 59, 62, 66, 67, 68, 69, 70, 71}
"""The entries of the cases that a graph can show."""
FALSY = [None, False, 0, "", [], {}]


@pytest.fixture(params=["memory", "sqlite"])
def sessions(request: pytest.FixtureRequest) -> Sessions:
    """A store in memory and one in a file."""
    return Sessions(None if request.param == "memory" else request.getfixturevalue("db"))


def batch(done: list[str], *, expects: Any = bool) -> Graph:
    """Three calls of one step: a and b ask before they act, c just acts."""
    graph = Graph("batch", concurrency=Concurrency.PARALLEL)

    @graph.node(start=True)
    def split(x: int) -> int:
        return x

    @graph.node
    def collect(parts: JoinInput[Any]) -> list[Any]:
        return list(parts)

    @graph.node
    def c(x: int) -> str:
        done.append("c")
        return "c"

    graph.join(c, into=collect)
    for name in ("a", "b"):
        ask = graph.gate(name, asks=f"run {name}?", expects=expects)
        act = graph.node(acts(f"after {name}", done), name=f"after {name}")
        graph.transition(ask)(lambda pair, act=act: act.next(pair[1]))
        graph.join(act, into=collect)
    graph.transition(split)(lambda x: Transition.fan_out([(n, x) for n in ("a", "b", "c")], join=collect))
    graph.finish(collect)
    return graph


def acts(name: str, done: list[str]) -> Callable[[Any], Any]:
    def act(x: Any) -> Any:
        done.append(name)
        return x

    return act


def payment(done: list[str], **question: Any) -> Graph:
    """Drafts, asks, and charges only on a yes."""
    graph = Graph("payment")
    draft = graph.node(acts("draft", done), name="draft", start=True)
    approve = graph.gate("approve", asks="charge the card?", **({"expects": bool} | question))
    charge = graph.node(acts("charge", done), name="charge")
    graph.edge(draft, approve)
    graph.transition(approve)(lambda pair: charge.next(pair[0]) if pair[1] else Transition.finish("kept"))
    graph.finish(charge)
    return graph


def survey(times: int, seen: list[NodeContext], **question: Any) -> Graph:
    """Asks one question after the other in the same node; gives the answers."""
    graph = Graph("survey")

    @graph.node(start=True)
    def ask(answers: list[Any], ctx: NodeContext) -> tuple[list[Any], NodeContext]:
        seen.append(ctx)
        return answers, ctx

    @graph.transition(ask)
    def decide(asked: tuple[list[Any], NodeContext]) -> Transition:
        answers, ctx = asked
        if not ctx.answered:
            return Transition.pause(f"question {len(answers) + 1}", **question)
        given = [*answers, ctx.answer]
        return Transition.finish(given) if len(given) == times else ask.next(given)

    return graph


def around(inner: Graph) -> Graph:
    graph = Graph("around")
    graph.finish(graph.node(inner, start=True, name="inner"))
    return graph


def by_gate(outcome: Any) -> dict[str, str]:
    return {hold.path.rpartition("/")[2].partition("#")[0]: hold.id for hold in outcome.holds}


# --- the same effect happens twice ----------------------------------------------------------------------


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_agent_framework_case_01_a_batch_with_gates_runs_each_call_once(
    sessions: Sessions, order: str
) -> None:
    """Source: cases failures-agent-frameworks 01."""
    done: list[str] = []
    flow = batch(done)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        holds = by_gate(await paused(rt, "r"))
        assert sorted(holds) == ["a", "b"]
        assert done == ["c"]

        rt = await sessions.next(flow)
        await rt.answer(holds[order[0]], True)
        assert by_gate(await paused(rt, "r")) == {order[1]: holds[order[1]]}
        assert done == ["c", f"after {order[0]}"]

        rt = await sessions.next(flow)
        await rt.answer(holds[order[1]], True)
        assert await Run(rt, "r").settled() == Completed([True, True, "c"])
        assert done == ["c", f"after {order[0]}", f"after {order[1]}"]


async def test_agent_framework_case_08_what_has_no_pending_work_does_not_run(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 08."""
    done: list[str] = []
    flow = payment(done)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        await paused(rt, "r")
        rt = await sessions.next(flow)
        await rt.resume("r", True)
        assert await Run(rt, "r").settled() == Completed(1)
        assert done == ["draft", "charge"]

        rt = await sessions.next(flow)
        before = await rt.status("r")
        with pytest.raises(NotResumable):
            await rt.resume("r")
        with pytest.raises(NotResumable):
            await rt.resume("r", True)
        assert await rt.status("r") == before
        assert done == ["draft", "charge"]


async def test_agent_framework_case_08_going_back_to_the_last_point_runs_what_is_behind_it(
    db: Path,
) -> None:
    """Source: cases failures-agent-frameworks 08."""
    done: list[str] = []
    flow = payment(done)
    async with Runtime(db, flows=[flow]) as rt:
        run = await rt.start(flow, 1)
        await paused(rt, run.id)
        await run.resume(True)
        await run.settled()
        last = [event.data["visit"] for event in await events_of(rt, run.id) if event.kind == "visit"][-1]
        forked = await run.fork(at=last)
        assert await forked.settled() == Completed(1)
        assert done == ["draft", "charge", "charge"]


# --- the answer goes to the wrong place -----------------------------------------------------------------


async def test_agent_framework_case_15_a_resume_with_nothing_answers_nothing(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 15."""
    seen: list[NodeContext] = []
    flow = survey(2, seen)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, [], run_id="r")
        await paused(rt, "r")
        await rt.resume("r", "A")
        (second,) = (await paused(rt, "r")).holds
        assert second.reason == "question 2"

        for _ in range(2):
            rt = await sessions.next(flow)
            await rt.resume("r")
            assert [hold.id for hold in (await paused(rt, "r")).holds] == [second.id]
            assert (seen[-1].answered, seen[-1].given) == (False, None)

        await rt.answer(second.id, "B")
        assert await Run(rt, "r").settled() == Completed(["A", "B"])


async def test_agent_framework_case_15_a_typed_question_is_not_even_asked_again(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 15."""
    seen: list[NodeContext] = []
    flow = survey(2, seen, expects=str)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, [], run_id="r")
        await paused(rt, "r")
        await rt.resume("r", "A")
        (second,) = (await paused(rt, "r")).holds

        rt = await sessions.next(flow)
        before, visits = await rt.status("r"), len(seen)
        with pytest.raises(AnswerRequired) as refused:
            await rt.resume("r")
        assert refused.value.open_holds == (second.id,)
        assert (await rt.status("r"), len(seen)) == (before, visits)


async def test_agent_framework_case_16_an_unknown_question_is_refused_with_those_that_are_open(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 16."""
    done: list[str] = []
    flow, other = batch(done), payment([])
    async with sessions:
        rt = await sessions.next(flow, other)
        await rt.start(flow, 1, run_id="r")
        ours = {hold.id for hold in (await paused(rt, "r")).holds}
        await rt.start(other, 1, run_id="s")
        (theirs,) = (await paused(rt, "s")).holds

        rt = await sessions.next(flow, other)
        before = await rt.status("r"), await rt.status("s")
        run = Run(rt, "r")
        for verb in (
            lambda: rt.answer("hold-nobody-asked", True),
            lambda: rt.reject("hold-nobody-asked", "no"),
            lambda: run.answer(True, hold="hold-nobody-asked"),
            lambda: run.resume(True, hold="hold-nobody-asked"),
            lambda: run.resume(True, hold=theirs.id),
        ):
            with pytest.raises(UnknownHold) as refused:
                await verb()
            assert ours <= set(refused.value.open_holds)
            assert all(hold in str(refused.value) for hold in ours)
        assert (await rt.status("r"), await rt.status("s")) == before
        assert done == ["c"]


@pytest.mark.parametrize("value", FALSY, ids=repr)
@pytest.mark.parametrize("way", ["answer", "run.answer", "resume", "outcome", "locked", "deadline"])
async def test_agent_framework_case_18_a_falsy_value_is_an_answer(
    sessions: Sessions, value: Any, way: str
) -> None:
    """Source: cases failures-agent-frameworks 18."""
    seen: list[NodeContext] = []
    late = {"deadline": timedelta(hours=1), "on_deadline": ("answer", value)} if way == "deadline" else {}
    flow = survey(1, seen, **late)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, [], run_id="r")
        await paused(rt, "r")

        rt = await sessions.next(flow)
        outcome = await paused(rt, "r")
        (hold,) = outcome.holds
        match way:
            case "answer":
                await rt.answer(hold.id, value)
            case "run.answer":
                await outcome.run.answer(value)
            case "resume":
                await rt.resume("r", value)
            case "outcome":
                await outcome.resume(value)
            case "locked":
                await rt.pause("r")
                await rt.answer(hold.id, value)
                rt = await sessions.next(flow)
                await rt.resume("r")
            case "deadline":
                sessions.clock.advance(3600)
        given = await Run(rt, "r").result()
        assert repr(given) == repr([value])
        assert seen[-1].answered
        (settled,) = await rt.holds("r", None)
        assert (settled.state, repr(settled.answer)) == ("answered", repr(value))


async def test_agent_framework_case_18_an_empty_rejection_is_a_rejection(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 18."""
    flow = payment([])
    flow.rejected("approve")(lambda x, message: Transition.finish(["rejected", message]))
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        (hold,) = (await paused(rt, "r")).holds
        await rt.pause("r")
        await rt.reject(hold.id)
        rt = await sessions.next(flow)
        await rt.resume("r")
        assert await Run(rt, "r").result() == ["rejected", ""]


async def test_agent_framework_case_23_only_an_explicit_yes_runs(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 23."""
    done: list[str] = []
    flow = payment(done, deadline=timedelta(hours=1))
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        (hold,) = (await paused(rt, "r")).holds

        rt = await sessions.next(flow)
        for value in (None, "yes", "true", 1, {}, [True]):
            with pytest.raises(AnswerRejected):
                await rt.answer(hold.id, value)
            with pytest.raises(AnswerRejected):
                await rt.resume("r", value)
        with pytest.raises(AnswerRequired):
            await rt.resume("r")
        await rt.pause("r")
        await rt.resume("r")
        sessions.clock.advance(7200)
        rt = await sessions.next(flow)
        (still,) = (await paused(rt, "r")).holds
        assert (still.id, still.state, still.late, still.answer) == (hold.id, "open", True, None)
        assert done == ["draft"]

        await rt.answer(hold.id, True)
        assert await Run(rt, "r").settled() == Completed(1)
        assert done == ["draft", "charge"]


async def test_agent_framework_case_24_two_calls_of_the_same_key_are_two_questions(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 24."""
    done: list[int] = []
    flow = Graph("twins", concurrency=Concurrency.PARALLEL)

    @flow.node(start=True)
    def split(x: int) -> int:
        return x

    @flow.node
    def call(x: int, ctx: NodeContext) -> tuple[int, NodeContext]:
        return x, ctx

    @flow.node
    def collect(parts: JoinInput[Any]) -> list[Any]:
        return list(parts)

    flow.transition(split)(lambda x: Transition.fan_out([(call, x + 1), (call, x + 2)], join=collect))
    flow.finish(collect)

    @flow.transition(call)
    def decide(asked: tuple[int, NodeContext]) -> Transition:
        x, ctx = asked
        if not ctx.answered:
            return Transition.pause("send it?", payload={"call": "call-1"}, key="call-1", expects=bool)
        done.append(x)
        return Transition.join(collect, x)

    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 0, run_id="r")
        with pytest.raises(RunActive):
            await rt.start(flow, 0, run_id="r")
        one, two = (await paused(rt, "r")).holds
        assert one.key == two.key == "call-1"
        assert len({one.id, two.id, one.path, two.path}) == 4

        rt = await sessions.next(flow)
        await rt.answer(two.id, True)
        assert [hold.id for hold in (await paused(rt, "r")).holds] == [one.id]
        assert done == [2]
        with pytest.raises(AlreadyAnswered):
            await rt.answer(two.id, True)
        await rt.answer(one.id, True)
        assert await Run(rt, "r").settled() == Completed([1, 2])
        assert done == [2, 1]


async def test_agent_framework_case_28_earlier_answers_are_remembered(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 28."""
    seen: list[NodeContext] = []
    flow = survey(3, seen, expects=str)
    asked = set()
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, [], run_id="r")
        for number, answer in enumerate("abc", 1):
            rt = await sessions.next(flow)
            (hold,) = (await paused(rt, "r")).holds
            assert hold.reason == f"question {number}"
            asked.add(hold.id)
            await rt.resume("r", answer)
        assert await Run(rt, "r").settled() == Completed(["a", "b", "c"])
        assert {hold.id for hold in await rt.holds("r", None)} == asked
        assert [event.kind for event in await events_of(rt, "r")].count("asked") == 3


async def test_agent_framework_case_28_a_caller_sends_only_the_new_answer(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 28."""
    flow = batch([], expects=str)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        holds = by_gate(await paused(rt, "r"))
        await rt.answer(holds["a"], "first")
        await paused(rt, "r")
        rt = await sessions.next(flow)
        await rt.resume("r", "second")
        assert await Run(rt, "r").settled() == Completed(["first", "second", "c"])
        assert [event.kind for event in await events_of(rt, "r")].count("asked") == 2


async def test_agent_framework_case_29_a_bare_value_needs_exactly_one_open_question(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 29."""
    done: list[str] = []
    inner = batch(done, expects=str)
    flow = around(around(inner))
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        holds = by_gate(await paused(rt, "r"))
        assert sorted(holds) == ["a", "b"]

        rt = await sessions.next(flow)
        outcome = await paused(rt, "r")
        for verb in (outcome.resume, outcome.run.resume, outcome.run.answer):
            with pytest.raises(AmbiguousAnswer) as refused:
                await verb("x")
            assert set(refused.value.open_holds) == set(holds.values())
        assert by_gate(await paused(rt, "r")) == holds
        assert done == ["c"]

        await rt.resume("r", "for a", hold=holds["a"])
        await paused(rt, "r")
        await rt.resume("r", "for b")
        assert await Run(rt, "r").settled() == Completed(["for a", "for b", "c"])
        assert done == ["c", "after a", "after b"]


# --- status, going back ----------------------------------------------------------------------------------


async def test_agent_framework_case_46_a_pause_is_its_own_status_and_no_failure(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: cases failures-agent-frameworks 46."""
    inner = payment([])
    flow = around(inner)
    async with sessions:
        rt = await sessions.next(flow, inner)
        await rt.start(flow, 1, run_id="r")
        outcome = await paused(rt, "r")
        rt = await sessions.next(flow, inner)
        for run_id in ("r", outcome.holds[0].run_id):
            status = await rt.status(run_id)
            assert (status.state, status.error, status.result) == ("paused", None, None)
            kinds = [event.kind for event in await events_of(rt, run_id)]
            assert "paused" in kinds
            assert not {"failed", "fault", "cancelled", "completed"} & set(kinds)
            visits = [event.data["did"] for event in await events_of(rt, run_id) if event.kind == "visit"]
            assert "error" not in visits
        assert list(await rt.list(state="failed")) == []
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_agent_framework_case_58_an_answered_question_is_not_listed_and_does_not_fire(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 58."""
    inner = Graph("two in a row")
    first = inner.gate(
        "first",
        asks="1?",
        expects=bool,
        deadline=timedelta(hours=1),
        on_deadline=("answer", False),
        start=True,
    )
    second = inner.gate("second", asks="2?", expects=str)
    inner.transition(first)(lambda pair: second.next(pair[1]))
    inner.transition(second)(lambda pair: Transition.finish(list(pair)))
    flow = around(inner)
    async with sessions:
        rt = await sessions.next(flow, inner)
        await rt.start(flow, 1, run_id="r")
        (asked,) = (await paused(rt, "r")).holds
        await rt.answer(asked.id, True, actor="ann")
        await paused(rt, "r")

        rt = await sessions.next(flow, inner)
        sessions.clock.advance(7200)
        outcome = await paused(rt, "r")
        (open_one,) = outcome.holds
        assert open_one.reason == "2?"
        listed = [await rt.holds(), await rt.holds("r"), (await rt.status("r")).holds]
        assert [[hold.id for hold in holds] for holds in listed] == [[open_one.id]] * 3
        answered = [e for e in await events_of(rt, open_one.run_id) if e.kind in ("answered", "expired")]
        assert [(event.actor, event.data["hold"]) for event in answered] == [("ann", asked.id)]

        await rt.answer(open_one.id, "done")
        assert await Run(rt, "r").settled() == Completed([True, "done"])
        assert list(await rt.holds()) == []


async def test_agent_framework_case_59_a_fork_asks_again_and_leaves_the_old_branch(db: Path) -> None:
    """Source: cases failures-agent-frameworks 59."""
    done: list[str] = []
    flow = payment(done)
    async with Runtime(db, flows=[flow]) as rt:
        run = await rt.start(flow, 1, run_id="old")
        (hold,) = (await paused(rt, "old")).holds
        await rt.answer(hold.id, True)
        assert await run.settled() == Completed(1)
    async with Runtime(db, flows=[flow]) as rt:
        old = await rt.status("old"), list(await rt.holds("old", None)), await events_of(rt, "old")
        forked = await rt.fork("old", at=2)
        (again,) = (await paused(rt, forked.id)).holds
        assert (again.id != hold.id, again.state, again.answer) == (True, "open", None)
        assert done == ["draft", "charge"]
        await rt.answer(again.id, False)
        assert await forked.settled() == Completed("kept")
        assert done == ["draft", "charge"]
        assert old == (await rt.status("old"), list(await rt.holds("old", None)), await events_of(rt, "old"))


async def test_agent_framework_case_59_a_reset_asks_again(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 59."""
    done: list[str] = []
    flow = payment(done)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        (hold,) = (await paused(rt, "r")).holds
        await rt.answer(hold.id, True)
        assert await Run(rt, "r").settled() == Completed(1)
        rt = await sessions.next(flow)
        await rt.reset("r")
        await rt.resume("r")
        (again,) = (await paused(rt, "r")).holds
        assert again.id != hold.id
        assert done == ["draft", "charge", "draft"]


async def test_agent_framework_case_62_a_resume_goes_on_from_the_episode_that_it_resumed(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 62."""
    inner = payment([])
    flow = around(inner)
    async with sessions:
        rt = await sessions.next(flow, inner)
        await rt.start(flow, 1, run_id="r")
        before = await paused(rt, "r")
        (child,) = (await rt.status("r")).children
        seen = len(await events_of(rt, "r"))

        rt = await sessions.next(flow, inner)
        await rt.pause("r")
        assert (await rt.resume("r", True)).episode_id == before.episode
        assert await Run(rt, "r").settled() == Completed(1)

        rt = await sessions.next(flow, inner)
        status = await rt.status(child)
        assert (status.parent_id, (await rt.status("r")).children) == ("r", (child,))
        assert [run.id for run in await rt.list(parent="r")] == [child]
        events = await events_of(rt, "r")
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert [event.generation for event in events] == sorted(event.generation for event in events)
        resumed = next(event for event in events[seen:] if event.kind == "resumed")
        assert resumed.generation == events[seen - 1].generation + 1


async def test_agent_framework_case_62_a_fork_names_the_point_it_comes_from(db: Path) -> None:
    """Source: cases failures-agent-frameworks 62."""
    flow = payment([])
    async with Runtime(db, flows=[flow]) as rt:
        run = await rt.start(flow, 1)
        await paused(rt, run.id)
        first = await run.fork(at=2)
        await paused(rt, first.id)
        second = await first.fork(at=2)
        await paused(rt, second.id)
        for forked, origin in ((first, run), (second, first)):
            begun = (await events_of(rt, forked.id))[0]
            assert (begun.kind, begun.data["from"], begun.data["at"]) == ("forked", origin.id, 2)


# --- all of them -----------------------------------------------------------------------------------------


def tests_by_entry() -> list[tuple[int, str, str]]:
    found = []
    for file in sorted(Path(__file__).parent.glob("test_failures_of_agent_frameworks*.py")):
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                match = re.fullmatch(r"test_agent_framework_case_(\d\d)_[a-z0-9_]+", item.name)
                if match:
                    found.append((int(match[1]), item.name, ast.get_docstring(item) or ""))
    return found


def test_every_entry_that_a_graph_can_show_has_a_test_of_its_name() -> None:
    """Source: cases failures-agent-frameworks; each kind, not only the instance, is covered by tests."""
    found = tests_by_entry()
    assert {number for number, _, _ in found} == ENTRIES
    assert [
        name for number, name, said in found if said != f"Source: cases failures-agent-frameworks {number:02}."
    ] == []
    assert len({name for _, name, _ in found}) == len(found)
