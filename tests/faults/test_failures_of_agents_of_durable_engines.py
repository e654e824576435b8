"""Does what users of durable engines reported of replay and of continuations happen to an agent here?

Entries 71 to 80; `test_failures_of_agents_in_new_processes.py` looks that all of them are there.
"""

from __future__ import annotations

import contextvars
import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import (
    Completed,
    Paused,
    Run,
    RunState,
    Runtime,
    agent,
    ask_human,
    errors,
    pause,
)
from quiesce.insight import explain
from quiesce.rules.status import event_value

from .test_failures_of_agents import (
    DONE,
    begin,
    edited,
    effect,
    paused,
    runtime,
)

pytestmark = pytest.mark.anyio


REQUEST = contextvars.ContextVar("REQUEST", default="nobody")


@pytest.fixture(autouse=True)
def forget() -> None:
    DONE.clear()


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


@agent
def cleans_up(number: int) -> None:
    try:
        pause("wait")
    except BaseException as error:
        DONE.append(f"{number} saw {type(error).__name__}")
        raise
    finally:
        effect(f"clean {number}")  # which would be written to the store
        DONE.append(f"clean {number}")


async def test_engine_case_76_evicted_continuations_write_nothing(db: Path) -> None:
    """Source: cases failures-durable-engines 76."""
    thousand = range(1000)
    gc.collect()
    of_others = live()
    async with Runtime(db, durability="normal") as rt:
        for number in thousand:
            await rt.start(cleans_up, number, run_id=f"r{number}")
        for number in thousand:
            assert isinstance(await Run(rt, f"r{number}").settled(), Paused)
        before = {status.id: status for status in await rt.list(limit=1000)}
        events = rt.backend.host.read(lambda tx: tx.last_event())
        gc.collect()
        assert DONE == [], "a collection evicts nothing that a runtime holds"
        assert live() >= of_others + 1000
    # Leaving hands them back: each body is ended on its own thread, and may not have an effect any more.
    gc.collect()
    assert live() <= of_others, "no leak"
    assert set(DONE) <= {f"{number} saw Unwind" for number in thousand}, "no step was carried out"
    async with Runtime(db, drive=False) as rt:
        after = {status.id: status for status in await rt.list(limit=1000)}
        assert {
            run_id: (status.state, status.generation, status.holds) for run_id, status in after.items()
        } == {run_id: (RunState.PAUSED, status.generation, status.holds) for run_id, status in before.items()}
        assert all(status.error is None and status.result is None for status in after.values())
        log = rt.backend.host.read(lambda tx: tx.events(None, events, 100_000))
        kinds = {event_value(row).kind for row in log}
        assert kinds <= {"handed-back"}, "no outcome"
    DONE.clear()
    async with Runtime(db, durability="normal") as rt:
        await rt.resume("r7")
        assert await Run(rt, "r7").settled() == Completed(None)
    assert DONE == ["clean 7", "clean 7"]


def live() -> int:
    """How many call stacks are suspended, or wait to be collected."""
    return sum(type(each).__name__ == "LiveBody" for each in gc.get_objects())


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


NO_GIL = """
import sysconfig
known = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else known(name)
"""


def test_engine_case_80_an_interpreter_that_would_crash_is_refused(db: Path, tmp_path: Path) -> None:
    """Source: cases failures-durable-engines 80."""
    (tmp_path / "exotic").mkdir()
    (tmp_path / "exotic" / "sitecustomize.py").write_text(NO_GIL, encoding="utf-8")
    flow = f"{Path(__file__).with_name('bodies.py')}:asks_once"

    def flowctl(*words: str, exotic: bool = True) -> subprocess.CompletedProcess[str]:
        paths = [*([str(tmp_path / "exotic")] if exotic else []), *filter(None, sys.path)]
        return subprocess.run(
            [sys.executable, "-m", "flowctl", "--db", str(db), *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert flowctl("run", flow, "--id", "r", exotic=False).returncode == 75
    (hold,) = json.loads(flowctl("holds", "--json").stdout)["holds"]
    assert "free-threaded builds" in flowctl("doctor").stdout
    for words in (
        ("run", flow, "--id", "other"), ("answer", hold["id"], "1"), ("resume", "r"), ("takeover", "r"),
    ):  # fmt: skip
        refused = flowctl(*words)
        assert refused.returncode in (2, 4), (words, refused.stderr)
        assert words[0] == "takeover" or "free-threaded builds" in refused.stderr, words
    assert flowctl("explain", "r").returncode == 0, "which executes nothing there"
    assert [run["id"] for run in json.loads(flowctl("list", "--json").stdout)["runs"]] == ["r"]
    assert flowctl("answer", hold["id"], "1", "--no-drive").returncode == 0, "others may go on with it"
    assert "free-threaded builds" in flowctl("resume", "r").stderr
    assert flowctl("resume", "r", exotic=False).stdout == "r completed\n1\n"
