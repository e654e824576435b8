"""Is an answer held against the declared type itself, not just against its schema?

Source: spec engine, 4 (answer: validated against the hold's declared type first); spec agent (asked again
with the reason).
"""

from __future__ import annotations

from typing import Any

import pytest
from anyio import wait_all_tasks_blocked
from pydantic import BaseModel, field_validator

from quiesce import Graph, Runtime, Transition, agent, pause
from quiesce.errors import AnswerRejected

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
