"""Does what users reported about going back, contexts and interpreters happen to an agent here?

Goes on where `test_failures_of_agents.py` ends.
"""

from __future__ import annotations

import ast
import contextvars
import gc
import re
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import (
    Completed,
    Run,
    agent,
    ask_human,
    await_,
    current_run,
    current_step,
    errors,
    pause,
    spawn,
    step,
)
from quiesce.insight import explain

from .test_failures_of_agents import (
    AGENT_ENTRIES,
    DONE,
    ENGINE_ENTRIES,
    begin,
    effect,
    paused,
    runtime,
    two_questions,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def forget() -> None:
    DONE.clear()


async def test_agent_case_51_a_restored_loop_goes_on_where_it_was(db: Path) -> None:
    """Source: cases failures-agent-frameworks 51."""

    @agent
    def body() -> list[Any]:
        found = []
        for turn in range(3):
            effect(f"turn {turn}")
            found.append(ask_human(f"turn {turn}?"))
        return found

    await begin(db, body)
    for answer in ("a", "b", "c"):
        async with runtime(db, body) as rt:
            await Run(rt, "r").answer(answer)
            outcome = await Run(rt, "r").settled()
    assert outcome == Completed(["a", "b", "c"])
    assert DONE == ["turn 0", "turn 1", "turn 2"]


async def test_agent_case_52_looking_at_a_run_changes_nothing(db: Path) -> None:
    """Source: cases failures-agent-frameworks 52."""
    await begin(db, two_questions)
    async with runtime(db, two_questions) as rt:
        before = await rt.status("r")
        explain(rt.backend.host, "r")
        Run(rt, "r").frames()
        await rt.holds("r")
        assert await rt.status("r") == before
        await rt.run(two_questions, run_id="other")
    assert DONE == ["charge", "charge"]


async def test_agent_case_59_going_back_asks_again(db: Path) -> None:
    """Source: cases failures-agent-frameworks 59."""
    await begin(db, two_questions)
    async with runtime(db, two_questions) as rt:
        await Run(rt, "r").answer("old")
        await paused(rt)
        await Run(rt, "r").restart_from(2)
        assert (await paused(rt)).reason == "first?"
        kept = [hold for hold in await rt.holds("r", None) if hold.state == "answered"]
        assert [hold.answer for hold in kept] == ["old"], "the old branch is untouched"


async def test_agent_case_60_going_back_behind_a_child_leaves_it_alone(db: Path) -> None:
    """Source: cases failures-agent-frameworks 60."""

    @agent
    def child() -> str:
        return effect("child")

    @agent
    def outer() -> list[Any]:
        return [spawn(child).result(), ask_human("go on?"), ask_human("sure?")]

    async with runtime(db, outer, child) as rt:
        await rt.start(outer, run_id="r")
        await paused(rt)
        await Run(rt, "r").answer("yes")
        while (await paused(rt)).reason != "sure?":
            await anyio.lowlevel.checkpoint()
        await Run(rt, "r").restart_from(3)
        while (await paused(rt)).reason != "go on?":
            await anyio.lowlevel.checkpoint()
    assert DONE == ["child"]


async def test_agent_case_61_a_retry_at_the_head_runs_no_child_again(db: Path) -> None:
    """Source: cases failures-agent-frameworks 61."""
    broken = [True]

    @agent
    def child() -> str:
        return effect("child")

    @agent
    def outer() -> str:
        found = spawn(child).result()
        if broken[0]:
            raise ValueError("not yet")
        return str(found)

    async with runtime(db, outer, child) as rt:
        with pytest.raises(ValueError, match="not yet"):
            await rt.run(outer, run_id="r")
    broken[0] = False
    async with runtime(db, outer, child) as rt:
        await rt.retry("r")
        assert await Run(rt, "r").settled() == Completed("child")
    assert DONE == ["child"]


async def test_agent_case_65_a_child_that_waits_does_not_stop_its_sibling() -> None:
    """Source: cases failures-agent-frameworks 65."""

    @agent
    def waits() -> None:
        pause("marked")

    @agent
    def works() -> str:
        return effect("sibling")

    @agent
    def outer() -> Any:
        first, second = spawn(waits), spawn(works)
        found = second.result()
        first.result()
        return found

    async with runtime(None) as rt:
        await rt.start(outer, run_id="r")
        await paused(rt)
        assert DONE == ["sibling"]


REQUEST = contextvars.ContextVar("REQUEST", default="nobody")


async def test_agent_case_77_a_step_in_a_thread_has_the_context_of_its_body(db: Path) -> None:
    """Source: cases failures-agent-frameworks 77."""

    @step
    def blocking() -> list[str]:
        return [REQUEST.get(), str(threading.current_thread() is threading.main_thread())]

    @agent
    def body() -> list[str]:
        REQUEST.set("mine")
        return blocking()

    async with runtime(db, body) as rt:
        assert await rt.run(body) == Completed(["mine", "False"])


async def test_agent_case_78_the_context_at_resume_is_that_at_the_pause() -> None:
    """Source: cases failures-agent-frameworks 78."""

    @agent
    async def body(name: str) -> list[str]:
        REQUEST.set(name)
        pause("wait")
        before = REQUEST.get()
        await_(anyio.lowlevel.checkpoint())
        return [before, REQUEST.get()]

    async with runtime(None) as rt:
        runs = [await rt.start(body, name) for name in ("one", "two")]
        for run in runs:
            await run.settled()
        REQUEST.set("driver")
        for run, name in zip(runs, ("one", "two"), strict=True):
            await run.resume()
            assert await run.result() == [name, name]
        assert REQUEST.get() == "driver"


async def test_agent_case_79_a_suspended_body_ends_on_its_own_thread() -> None:
    """Source: cases failures-agent-frameworks 79."""
    threads: list[int] = []

    @agent
    def body() -> None:
        try:
            pause("wait")
        finally:
            threads.append(threading.get_ident())

    async with runtime(None) as rt:
        run = await rt.start(body, run_id="r")
        await paused(rt)
        collecting = threading.Thread(target=gc.collect)
        collecting.start()
        collecting.join()
        assert threads == []
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.result()
        while not threads:
            await anyio.lowlevel.checkpoint()
    assert threads == [threading.get_ident()]


# --- what cannot be an agent, a step, an answer -------------------------------------------------------------


async def test_a_nested_agent_that_no_process_could_find_is_refused_at_the_start(db: Path) -> None:
    """Source: issue 4, bad input: the earliest moment; nothing is stored."""

    @agent
    def nested() -> None: ...

    async with runtime(db) as rt:
        with pytest.raises(errors.FlowNotFound, match="no module-level name"):
            await rt.start(nested)
        assert list(await rt.list()) == []


async def test_a_pause_inside_a_step_is_refused(db: Path) -> None:
    """Source: spec agent: a step is recorded as a whole, so nothing could continue inside it."""

    @step
    async def asks() -> None:
        pause("never")

    @agent
    async def body() -> None:
        await asks()

    async with runtime(db, body) as rt:
        with pytest.raises(errors.PauseOutsideBody, match="inside the step"):
            await rt.run(body)


async def test_what_belongs_to_a_body_is_refused_elsewhere() -> None:
    """Source: spec agent: outside a body at once, with what to do."""
    with pytest.raises(LookupError):
        current_step()
    with pytest.raises(errors.PauseOutsideBody):
        current_run()


def entries_tested(kind: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for file in sorted(Path(__file__).parent.glob("test_failures_of_agents*.py")):
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                match = re.fullmatch(rf"test_{kind}_case_(\d\d)_[a-z0-9_]+", item.name)
                if match:
                    assert int(match[1]) not in found, item.name
                    found[int(match[1])] = ast.get_docstring(item) or ""
    return found


def test_every_entry_that_an_agent_can_show_has_a_test_of_its_name() -> None:
    """Source: issue 4: every G and N entry, and 71 to 80 of the durable engines."""
    frameworks, engines = entries_tested("agent"), entries_tested("engine")
    assert set(frameworks) == AGENT_ENTRIES
    assert set(engines) == ENGINE_ENTRIES
    for number, said in frameworks.items():
        assert said == f"Source: cases failures-agent-frameworks {number:02}."
    for number, said in engines.items():
        assert said == f"Source: cases failures-durable-engines {number:02}."
