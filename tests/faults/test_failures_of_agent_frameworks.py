"""Does an effect happen twice here, or an answer reach the wrong place, as it was reported elsewhere?

Each test is named for its entry in the cases, which users of agent frameworks reported. The entries on
status and going back, on new processes and on values are in the files beside this one. On disk every step
has a runtime of its own.
"""

from __future__ import annotations

import ast
import re
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

from .framework_flows import around, batch, by_gate, payment, survey
from .sessions import Sessions, events_of, paused

pytestmark = pytest.mark.anyio

ENTRIES = {1, 3, 8, 9, 15, 16, 18, 19, 23, 24, 28, 29, 41, 42, 46, 58, 59, 62, 66, 67, 68, 69, 70, 71}
"""The entries of the cases that a graph can show."""
FALSY: list[Any] = [None, False, 0, "", [], {}]


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
        assert repr(await Run(rt, "r").result()) == repr([value])
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
        no_yes: list[Any] = [None, "yes", "true", 1, {}, [True]]
        for value in no_yes:
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
    middle = around(inner)
    flow = around(middle)
    async with sessions:
        rt = await sessions.next(flow, middle, inner)
        await rt.start(flow, 1, run_id="r")
        holds = by_gate(await paused(rt, "r"))
        assert sorted(holds) == ["a", "b"]

        rt = await sessions.next(flow, middle, inner)
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


# --- all of them -----------------------------------------------------------------------------------------


def named_by_entry() -> list[tuple[int, str, str]]:
    """Each test that has the name of an entry: its number, its name, its docstring."""
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
    found = named_by_entry()
    assert {number for number, _, _ in found} == ENTRIES
    assert [
        name
        for number, name, said in found
        if said != f"Source: cases failures-agent-frameworks {number:02}."
    ] == []
    assert len({name for _, name, _ in found}) == len(found)
