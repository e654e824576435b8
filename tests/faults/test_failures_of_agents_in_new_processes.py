"""Does what users reported about going back, contexts and interpreters happen to an agent here?

The second half of `test_failures_of_agents.py`.
"""

from __future__ import annotations

import ast
import contextvars
import gc
import re
import sysconfig
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import (
    Completed,
    Run,
    Runtime,
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
from quiesce_adapters.greenlets import support

from .test_failures_of_agents import (
    AGENT_ENTRIES,
    DONE,
    ENGINE_ENTRIES,
    begin,
    edited,
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


# --- durable engines ---------------------------------------------------------------------------------------


async def test_engine_case_71_each_position_has_its_kind_name_and_arguments(db: Path) -> None:
    """Source: cases failures-durable-engines 71."""

    def old() -> Any:
        return [effect("a"), effect("b"), ask_human("?")]

    def swapped() -> Any:
        return [effect("b"), effect("a"), ask_human("?")]

    before, after = edited(old, swapped)
    await begin(db, before)
    async with runtime(db, after) as rt:
        await Run(rt, "r").answer(None)
        assert "position 1" in str((await paused(rt)).reason)


async def test_engine_case_72_what_is_recorded_replays_on_code_that_fits(db: Path) -> None:
    """Source: cases failures-durable-engines 72."""

    def old() -> Any:
        return effect("a") + str(ask_human("?"))

    def refactored() -> Any:
        def helper(name: str) -> str:
            return effect(name=name)

        answer = helper("a"), ask_human("?")
        return "".join(map(str, answer))

    before, after = edited(old, refactored)
    await begin(db, before)
    async with runtime(db, after) as rt:
        assert explain(rt.backend.host, "r").code.fits is True
        await Run(rt, "r").answer("!")
        assert await Run(rt, "r").settled() == Completed("a!")


async def test_engine_case_73_a_mismatch_is_paused_and_not_tried_for_ever(db: Path) -> None:
    """Source: cases failures-durable-engines 73."""
    entered: list[int] = []

    def old() -> Any:
        return [effect("a"), ask_human("?")]

    def new() -> Any:
        entered.append(1)
        return ask_human("?")

    before, after = edited(old, new)
    await begin(db, before)
    async with runtime(db, after) as rt:
        await Run(rt, "r").answer(1)
        await paused(rt)
        await anyio.wait_all_tasks_blocked()
        assert [lock.kind for lock in (await rt.status("r")).locks] == ["fault"]
    async with runtime(db, after) as rt:
        await anyio.wait_all_tasks_blocked()
    assert entered == [1]


async def test_engine_case_75_an_edited_source_is_told_with_what_to_do(db: Path) -> None:
    """Source: cases failures-durable-engines 75."""

    def old(amount: int = 1) -> Any:
        return [amount, ask_human("?")]

    def new(amount: str = "1") -> Any:
        return [amount, ask_human("?")]

    before, after = edited(old, new)
    await begin(db, before)
    async with runtime(db, after) as rt:
        seen = explain(rt.backend.host, "r").code
        assert (seen.fits, seen.changes) == (False, ("parameter 'amount': int, optional -> str, optional",))
        with pytest.raises(errors.FlowChanged, match=r"--accept-changes"):
            await rt.resume("r")


async def test_engine_case_76_evicted_continuations_write_nothing(db: Path) -> None:
    """Source: cases failures-durable-engines 76."""

    @agent
    def body(number: int) -> None:
        try:
            pause("wait")
        finally:
            effect(f"clean {number}")

    async with runtime(db, body) as rt:
        for number in range(100):
            await rt.start(body, number)
        for status in await rt.list(limit=200):
            await Run(rt, status.id).settled()
    gc.collect()
    assert DONE == []
    async with Runtime(db, drive=False) as rt:
        assert {status.state.value for status in await rt.list(limit=200)} == {"paused"}


async def test_engine_case_77_a_resume_from_another_thread_is_a_message(db: Path) -> None:
    """Source: cases failures-durable-engines 77."""

    @agent
    def body() -> int:
        pause("wait")
        return threading.get_ident()

    def other() -> bool:
        with Runtime.blocking(db, drive=False) as rt:
            return bool(rt.resume("r").transitioned)

    async with runtime(db, body) as rt:
        run = await rt.start(body, run_id="r")
        await paused(rt)
        assert await anyio.to_thread.run_sync(other)
        assert await run.result() == threading.get_ident()


async def test_engine_case_78_context_variables_are_those_before_the_pause(db: Path) -> None:
    """Source: cases failures-durable-engines 78."""

    @agent
    def body() -> str:
        token = REQUEST.set("request 7")
        pause("wait")
        seen = REQUEST.get()
        REQUEST.reset(token)
        return seen

    async with runtime(db, body) as rt:
        run = await rt.start(body, run_id="r")
        await paused(rt)
        await run.resume()
        assert await run.result() == "request 7"


async def test_engine_case_80_an_interpreter_that_would_crash_is_refused(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: cases failures-durable-engines 80."""
    assert support.unsupported() is None
    build = {"Py_GIL_DISABLED": 1}
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: build.get(name))
    async with runtime(db) as rt:
        with pytest.raises(errors.QuiesceError, match="free-threaded"):
            await rt.start(two_questions)


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
