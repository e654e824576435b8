"""Is what `explain` says of a paused team what its resume then does?

Source: spec engine, 7 (explain); spec team, "resume".
"""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Runtime, Team, Turn, pause
from quiesce.clock import ManualClock
from quiesce.errors import AnswerRequired
from quiesce.insight import explain

from .crew import Crew, task

pytestmark = pytest.mark.anyio


async def test_a_paused_team_is_told_by_what_its_resume_continues(path: Path | None) -> None:
    """What ran goes on, what was queued begins, what asks keeps its question; what is skipped is not told."""
    plan = [task("a", "m0"), task("b", "m0"), task("c", "m1"), task("d", "m2"), task("e", "m2")]
    crew = Crew(path, plan)
    crew.asks.add("c")
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(3)
        await run.pause()
        crew.holds.set()
        await run.settled()
        told = explain(rt.backend.host, run.id)
        turns = {turn.id: turn for turn in await run.turns()}

        def tasks(places: tuple[str, ...]) -> list[int | None]:
            return [turns[int(place.partition("#")[2])].task for place in places]

        assert (tasks(told.again), tasks(told.fresh), tasks(told.carried)) == ([1, 4], [2, 5], [3])
        ack = await run.resume()
        assert (ack.continued, ack.carried, ack.skipped) == (4, 1, 0)
        await wait_all_tasks_blocked()
        await run.answer("yes")
        assert await run.result() == ["completed"] * 5


@pytest.mark.parametrize("typed", [True, False])
async def test_a_question_without_a_type_is_told_to_be_let_go(path: Path | None, typed: bool) -> None:
    """spec engine, 4 (resume): under the lock `holds` typed questions are carried, the others let go."""

    async def asks(turn: Turn) -> None:
        turn.finish(pause("go on?", expects=bool) if typed else pause("go on?"))

    async def member(turn: Turn) -> None:
        """Nobody has anything for it to do."""

    team = Team("t", coordinator=asks, members={"m": member})
    async with Runtime(path, flows=[team], clock=ManualClock()) as rt:
        run = await rt.start(team)
        await run.settled()
        told = explain(rt.backend.host, run.id)
        assert (told.again, told.carried) == (((), ("coordinator",)) if typed else (("coordinator",), ()))
        if typed:
            with pytest.raises(AnswerRequired):
                await run.resume()
            await run.cancel()
        else:
            await run.resume()
            assert await run.result() is None
