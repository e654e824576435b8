"""Does a resume continue each turn that is still valid, once and in order, and skip the others with a reason?

Source: cases team 96, 97, 103 to 113, 120, 121; spec team, "resume".
"""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Paused, Team, Turn, errors
from quiesce.backend import Asked
from quiesce.team.orders import FinishTeam

from .crew import Crew, task

pytestmark = pytest.mark.anyio


async def test_continuations_keep_the_order_of_their_originals(path: Path | None) -> None:
    """Case 109; W1, N10: captured at places 1, 2, 3 of one member, continued at 4, 5, 6 in that order."""
    crew = Crew(path, [task("a", "m0"), task("b", "m0"), task("c", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await wait_all_tasks_blocked()
        await run.pause()
        crew.holds.set()
        await run.settled()
        ack = await run.resume()
        assert (ack.continued, ack.skipped, ack.generation) == (3, 0, 3)
        continued = [turn for turn in await run.turns() if turn.source == "resume"]
        assert [(turn.sequence, turn.task) for turn in continued] == [(4, 1), (5, 2), (6, 3)]
        assert await run.result() == ["completed"] * 3
        assert [what for _, what in crew.began] == ["a", "b", "c"]


async def test_directed_work_in_the_queue_comes_first_and_one_at_a_time(path: Path | None) -> None:
    """Case 110: it takes place 2 during the pause, the continuation 3, and begins after it."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        directed = await run.direct("m0", "directed")
        assert directed.sequence == 2
        await wait_all_tasks_blocked()
        assert crew.began == [("m0", "a")]  # whose body has not yielded
        crew.holds.set()
        await run.settled()
        await run.resume()
        assert await run.result() == ["completed"]
        assert crew.ended == ["directed", "a"]
        (continued,) = [turn for turn in await run.turns() if turn.source == "resume"]
        assert continued.sequence == 3


async def test_a_value_that_comes_after_the_fence_is_applied_by_the_continuation(path: Path | None) -> None:
    """Cases 96, 97; N7: no task changes while paused; the body does not run again."""
    crew = Crew(path, [task("a", "m0")])
    crew.breaks.add("a")
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        crew.holds.set()
        assert isinstance(await run.settled(), Paused)
        await wait_all_tasks_blocked()
        assert [item.state for item in await run.tasks()] == ["in_progress"]
        await run.resume()
        assert await run.result() == ["failed"]
        assert crew.began == [("m0", "a")]
        assert "a broke" in ((await run.tasks())[0].reason or "")


async def test_a_question_asked_in_the_drain_is_carried_on(path: Path | None) -> None:
    """spec team, resume: a waiting turn is continued, still waiting; an answer then releases it."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    crew.asks.add("b")
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await wait_all_tasks_blocked()
        await run.pause()
        crew.holds.set()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        (hold,) = outcome.holds
        await rt.answer(hold.id, "early")  # acts when the lock is lifted
        assert (await run.status()).generation == 2
        ack = await run.resume()
        assert (ack.continued, ack.carried) == (2, 0)
        assert await run.result() == ["completed", "completed"]
        assert [item.result for item in await run.tasks()] == ["a", "early"]


async def test_an_answer_under_the_lock_holds_continues_one_turn_and_carries_the_others(
    path: Path | None,
) -> None:
    """spec team, resume, with the lock `holds`: same turn, child run and hold, of the new generation."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    crew.asks.update({"a", "b"})
    async with crew.open() as rt:
        run = await crew.start(rt)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        first, second = sorted(outcome.holds, key=lambda hold: hold.reason or "")
        crew.holds.set()
        await rt.answer(first.id, "yes")
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert [hold.id for hold in outcome.holds] == [second.id]
        turns = {
            turn.task: turn for turn in await run.turns() if turn.kind == "task" and turn.state == "waiting"
        }
        assert (turns[2].original, turns[2].generation) == (None, (await run.status()).generation - 1)
        receipts = await rt.receipts("r:2")
        assert path is None or sorted((item.name, item.outcome) for item in receipts) == [
            ("m0", "continued"),
            ("m1", "carried"),
        ]
        await rt.answer(second.id, "no")
        assert await run.result() == ["completed", "completed"]
        assert sorted(what for _, what in crew.began) == ["a", "b"]


async def test_a_resume_without_receipts_goes_on(path: Path | None) -> None:
    """Case 112: nothing was captured; the team is running, and then idle."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        crew.holds.set()
        await run.settled()
        with pytest.raises(errors.StaleGeneration):
            await run.resume(episode="r:1")
        await run.resume(episode="r:2")
        with pytest.raises(errors.NotResumable):
            await run.resume(request_id="again")
        assert await run.result() == ["completed"]


async def test_a_member_that_is_made_anew_is_skipped_with_that_reason(tmp_path: Path) -> None:
    """Cases 107, 113, 115; W13: one bad receipt never blocks the team."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        crew.holds.set()
        await run.settled()

    async def other(turn: Turn) -> int:
        return 1

    bodies = dict(crew.team.participants)
    changed = Team(
        "crew",
        coordinator=bodies.pop("coordinator"),
        members={**{name: body for name, body in bodies.items() if name != "m2"}, "m1": other},
    )
    changed.defined_in = crew.team.defined_in
    crew.team = changed
    async with crew.open() as rt:
        run = await rt.get("r")
        with pytest.raises(errors.FlowChanged, match="m1: returns"):
            await run.resume()
        ack = await run.resume(accept_changes=True)
        assert (ack.continued, ack.skipped) == (1, 1)
        reasons = {item.name: item.reason for item in await rt.receipts("r:2")}
        assert reasons == {"m0": None, "m1": "participant_changed"}
        await wait_all_tasks_blocked()
        assert (await run.status()).state in ("running", "idle")
        await run.assign(2, "m1")
        assert await run.result() == ["completed", "completed"]


async def test_only_the_coordinator_changes_the_structure(path: Path | None) -> None:
    """spec team, model: an owner advances only its own; nobody finishes a team from outside."""
    told: list[str] = []

    async def plan(turn: Turn) -> None:
        if not turn.tasks():
            turn.create_task("a", owner="m0")
        else:
            turn.finish(told)

    async def meddles(turn: Turn) -> str:
        for act in (lambda: turn.create_task("b"), lambda: turn.assign(1, "m0"), lambda: turn.finish()):
            try:
                act()
            except errors.QuiesceError as error:
                told.append(str(error))
        turn.complete("early")
        return "late"

    crew = Crew(path, [])
    crew.team = Team("crew", coordinator=plan, members={"m0": meddles})
    async with crew.open() as rt:
        run = await crew.start(rt)
        result = await run.result()
        assert len(result) == 3
        assert all("may not" in text for text in result)
        assert (await run.tasks())[0].result == "early"
        with pytest.raises(errors.IllegalTransition, match="it is completed"):
            await run.create_task("more")
        with pytest.raises(errors.IllegalTransition):
            await rt.backend.order("r", FinishTeam(1), _nobody())


def _nobody() -> Asked:
    return Asked()


async def test_bad_orders_get_a_clear_error_and_change_nothing(path: Path | None) -> None:
    """issue "teams", bad input: an unknown member, a cycle, the coordinator as owner, a title of 10 MB."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1", 1)])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await wait_all_tasks_blocked()
        before = await run.tasks()
        for order, why in (
            (run.create_task("x", owner="zoe"), "has no member 'zoe'; its members are m0, m1, m2"),
            (run.create_task("x", owner="coordinator"), "is the coordinator, who owns no task"),
            (run.create_task("x" * 10_000_000), "not 10000000 characters"),
            (run.create_task(""), "one line of 1 to 200 printable characters"),
            (run.create_task("x", after=[9]), "cannot come after task 9: there is none"),
            (run.assign(1, "m0", after=[2]), "task 1 would have to come after itself: 1 after 2 after 1"),
            (run.assign(1, "m0", after=[1]), "task 1 would have to come after itself"),
            (run.cancel_task(7), "has no task 7; it has 1, 2"),
            (run.direct("zoe", "x"), "has no member 'zoe'"),
        ):
            with pytest.raises(errors.QuiesceError, match=why):
                await order
        assert await run.tasks() == before
        crew.holds.set()
        assert await run.result() == ["completed", "completed"]


@pytest.mark.parametrize("members", [0, 51])
def test_a_team_has_1_to_50_members(members: int) -> None:
    """spec team, model."""
    with pytest.raises(ValueError, match=f"has {members} members; a team has 1 to 50"):
        Crew(None, [], members=members)


async def test_a_body_takes_a_turn() -> None:
    """issue "teams", bad input: what cannot be a body is refused where the team is made."""

    async def plan(turn: Turn) -> None:
        pass

    async def takes_nothing() -> None:
        pass

    def plain(turn: Turn) -> None:
        pass

    for body, why in (
        (takes_nothing, "takes nothing that is declared"),
        (plain, "must be an @agent, a Graph or an async function"),
        (lambda turn: None, "must be an @agent, a Graph or an async function"),
        (3, "must be an @agent"),
    ):
        with pytest.raises(TypeError, match=why):
            Team("t", coordinator=plan, members={"m": body})
    with pytest.raises(errors.PauseOutsideBody):
        Turn("m", "task").create_task("x")


async def test_cancelled_and_reassigned_work_is_not_continued(path: Path | None) -> None:
    """Cases 104, 106: the turn of a task that was cancelled or given away ends; its body is ended too."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.cancel_task(1, reason="not needed")
        await run.assign(2, "m2")
        crew.holds.set()
        assert await run.result() == ["cancelled", "completed"]
        assert [(turn.participant, turn.state) for turn in await run.turns() if turn.task == 2] == [
            ("m1", "cancelled"),
            ("m2", "completed"),
        ]
        assert crew.ended == ["b"]


async def test_a_failed_task_is_tried_again_as_often_as_the_team_says(path: Path | None) -> None:
    """spec team, scheduling: attempts are counted at claim; recorded steps are not done again."""
    crew = Crew(path, [task("a", "m0")], retries=2)
    crew.breaks.add("a")
    crew.holds.set()
    async with crew.open() as rt:
        run = await crew.start(rt)
        assert await run.result() == ["failed"]
        (done,) = await run.tasks()
        assert (done.attempts, done.state) == (3, "failed")
        assert len(crew.began) == (1 if path is not None else 3)


async def test_a_dependant_of_a_failed_task_stays_pending_and_is_reported(path: Path | None) -> None:
    """spec team, scheduling: it is the coordinator's to decide."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1", 1)])
    crew.breaks.add("a")
    crew.holds.set()
    async with crew.open() as rt:
        run = await crew.start(rt)
        await run.settled()
        assert [item.state for item in await run.tasks()] == ["failed", "pending"]
        assert (await run.status()).state == "idle"
        assert len([turn for turn in await run.turns() if turn.kind == "coordinator"]) == 2
        await run.cancel_task(2)
        assert await run.result() == ["failed", "cancelled"]


async def test_what_is_behind_a_question_is_nothing_that_a_resume_lets_go(path: Path | None) -> None:
    """spec engine, 4: if holds still wait and nothing else can run, same episode, generation and turns."""
    crew = Crew(path, [task("a", "m0"), task("b", "m0")])
    crew.asks.add("a")
    async with crew.open() as rt:
        run = await crew.start(rt)
        paused = await run.settled()
        assert isinstance(paused, Paused)
        await run.pause()
        before = await run.turns()
        ack = await run.resume()
        assert (ack.transitioned, ack.generation, ack.episode_id) == (False, 2, paused.episode)
        assert await run.turns() == before
        crew.holds.set()
        await run.answer("yes")
        assert await run.result() == ["completed"] * 2


async def test_a_task_that_is_given_away_while_its_old_body_drains_is_begun_by_its_new_owner(
    path: Path | None,
) -> None:
    """N14: its continuation is cancelled, its original stale; the task is pending, and gets another turn."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.resume()
        await run.assign(1, "m1")
        await crew.wait_began(2)
        assert crew.began == [("m0", "a"), ("m1", "a")]
        crew.holds.set()
        assert await run.result() == ["completed"]
