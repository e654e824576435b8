"""When is a question the same question, and what does the inbox show?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from quiesce.errors import Withdrawn

from .kinds import Kind, Stage
from .subject import Subject, paused

pytestmark = pytest.mark.anyio


async def test_an_inbox_lists_the_open_holds_of_every_run(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: rt.holds(): oldest first, of all runs or of one."""
    flow = kind.asks(reason="which?", payload=[1, {"a": None}], expects=int)
    async with subject.open(flow) as rt:
        one = await rt.start(flow, 1)
        await paused(one)
        two = await rt.start(flow, 2)
        await paused(two)
        inbox = await rt.holds()
        assert [hold.run_id for hold in inbox] == [kind.tree(one.id)[-1], kind.tree(two.id)[-1]]
        (hold,) = await rt.holds(two.id)
        assert replace(hold, path=inbox[1].path) == inbox[1]
        assert (hold.reason, hold.payload, hold.state) == ("which?", [1, {"a": None}], "open")
        assert hold.expects is not None
        assert hold.expects["type"] == "integer"
        assert (hold.opened_at, hold.deadline, hold.late) == (subject.clock.now(), None, False)
        assert (hold.answer, hold.answered_by, hold.answered_at) == (None, None, None)


async def test_an_inbox_comes_in_pages(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: pages are lists with `.next`, a cursor or None."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        runs = []
        for number in range(5):
            runs.append(await rt.start(flow, number))
            await paused(runs[-1])
        found, after = [], None
        for expected in (2, 2, 1):
            page = await rt.holds(limit=2, after=after)
            assert len(page) == expected
            found += [hold.run_id for hold in page]
            after = page.next
        assert after is None
        assert found == [kind.tree(run.id)[-1] for run in runs]


async def test_runs_come_in_pages_and_can_be_chosen(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: rt.list(state=, kind=, flow=, parent=, limit=, after=), newest first."""
    asks, adds = kind.asks(), kind.adds()
    async with subject.open(asks, adds) as rt:
        held = []
        for number in range(3):
            held.append(await rt.start(asks, number))
            await paused(held[-1])
        done = await rt.start(adds, 1)
        await done.settled()
        begun = [run_id for run in (*held, done) for run_id in kind.tree(run.id)]
        assert [status.id for status in await rt.list()] == begun[::-1]
        assert [status.id for status in await rt.list(state="completed")] == kind.tree(done.id)[::-1]
        assert len(await rt.list(state=["paused", "completed"])) == len(begun)
        assert len(await rt.list(kind=kind.name)) == 4
        assert [status.id for status in await rt.list(flow=(await done.status()).flow)] == [done.id]
        assert [status.id for status in await rt.list(parent=done.id)] == kind.tree(done.id)[1:]
        flow = (await held[0].status()).flow
        page = await rt.list(state="paused", flow=flow, limit=2)
        assert [status.id for status in page] == [held[2].id, held[1].id]
        rest = await rt.list(state="paused", flow=flow, limit=2, after=page.next)
        assert ([status.id for status in rest], rest.next) == ([held[0].id], None)


async def test_the_same_question_keeps_its_hold(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (hold identity): evaluated again unanswered, equal type and payload: the same hold."""
    flow = kind.asks_what(["same", "same"])
    async with subject.open(flow) as rt:
        if subject.capabilities(rt).resumes_mid_statement:
            pytest.skip("a body is not evaluated again")
        run = await rt.start(flow, 1)
        first = await paused(run)
        subject.clock.advance(1)
        await run.resume()
        second = await paused(run)
        assert second.holds == first.holds
        assert len(await rt.holds(run.id, None)) == 1


async def test_another_question_withdraws_the_old_one(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a different question withdraws the old and opens a new one."""
    flow = kind.asks_what(["first", "second"])
    async with subject.open(flow) as rt:
        if subject.capabilities(rt).resumes_mid_statement:
            pytest.skip("a body is not evaluated again")
        run = await rt.start(flow, 1)
        (first,) = (await paused(run)).holds
        await run.resume()
        (second,) = (await paused(run)).holds
        assert (first.payload, second.payload) == ("first", "second")
        assert first.id != second.id
        assert first.path == second.path
        if subject.capabilities(rt).survives_restart:  # a memory store forgets what was withdrawn
            states = {hold.id: hold.state for hold in await rt.holds(run.id, None)}
            assert states == {first.id: "withdrawn", second.id: "open"}
        await rt.answer(second.id, "x")
        assert await run.result() == "x"


async def test_a_question_that_is_not_asked_again_is_withdrawn(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a hold is open as long as its place asks; who moved on asks nothing there."""
    if kind.name != "graph":
        pytest.skip("a body is not evaluated again")
    flow = kind.asks_once()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (first,) = (await paused(run)).holds
        await run.resume()
        (second,) = (await paused(run)).holds
        assert second.payload == "second"
        assert [hold.id for hold in await rt.holds()] == [second.id]
        with pytest.raises(Withdrawn):
            await rt.answer(first.id, "x")
        await run.resume("y")
        assert await run.result() == "y"


@pytest.mark.parametrize("verb", ["answer", "reject"])
async def test_an_answer_that_comes_while_its_place_is_evaluated_again_is_not_lost(
    subject: Subject, kind: Kind, verb: str
) -> None:
    """spec engine, 4: an answer settles one hold, once, with one effect."""
    stage = Stage(open=True)
    flow = kind.works_then_asks(stage)
    async with subject.open(flow) as rt:
        if subject.capabilities(rt).resumes_mid_statement:
            pytest.skip("a body is not evaluated again")
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        stage.close()
        await run.resume()  # which lets it go, to ask the same again
        await stage.wait_came(2)
        await getattr(rt, verb)(hold.id, "yes")
        stage.open()
        assert await run.result() == (["rejected", "yes"] if verb == "reject" else "yes")
        assert stage.came == 3
        assert len(await rt.holds(run.id, None)) == 1


async def test_after_an_answer_a_question_is_a_new_one(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: after an answer a new question is the next ordinal, also if it asks the same."""
    flow = kind.asks_in_turn(3)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, [])
        seen = []
        for answer in ("a", "b", "c"):
            (hold,) = (await paused(run)).holds
            seen.append(hold)
            await rt.answer(hold.id, answer)
        assert await run.result() == ["a", "b", "c"]
        assert len({hold.id for hold in seen}) == 3
        assert len({hold.path.rpartition("/")[2] for hold in seen}) == 1
        answers = {hold.id: hold.answer for hold in await rt.holds(run.id, "answered")}
        assert answers == {hold.id: answer for hold, answer in zip(seen, "abc", strict=True)}


async def test_a_reset_run_asks_anew(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: paths of holds contain the execution: an answer to the old one is not for the new."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (old,) = (await paused(run)).holds
        await rt.answer(old.id, "old")
        assert await run.result() == ["answered", "old"]
        await run.reset()
        await run.resume()
        (new,) = (await paused(run)).holds
        assert new.id != old.id
        assert kind.evaluated == ["ask", "ask", "ask"]
        await rt.answer(new.id, "new")
        assert await run.result() == ["answered", "new"]


async def test_a_key_names_a_hold(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: (run, execution, path, key or ordinal)."""
    flow = kind.asks(key="approval")
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        assert hold.key == "approval"
        assert hold.path.endswith("approval")


async def test_holds_of_a_paused_run_are_there_after_a_restart(subject: Subject, kind: Kind) -> None:
    """spec engine, 1: always knows what is held; the hold, its id and its question are stored."""
    flow = kind.asks(payload={"n": [1]}, expects=int)
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        before = await paused(run)
        status = await run.status()
    async with subject.open(flow) as rt:
        again = await rt.get(run.id)
        now = await again.status()
        assert now.holds == before.holds
        assert (now.state, now.generation, now.episode_id) == ("paused", status.generation, before.episode)
        assert now.recoverable == "stored"
        await rt.answer(before.holds[0].id, 3)
        assert await again.result() == ["answered", 3]


async def test_what_is_held_beside_a_piece_that_works_is_listed(subject: Subject, kind: Kind) -> None:
    """spec engine, 5 (status): holds are listed while the run is running, too."""
    stage = Stage()
    inner = kind.asks()
    flow = kind.asks_beside(stage, inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await subject.seen(rt, kind.tree(f"{kind.tree(run.id)[-1]}.1")[-1], "asked")
        status = await run.status()
        assert (status.state, len(status.holds)) == ("running", 1)
        assert len(await rt.holds(run.id)) == 1
        stage.open()
