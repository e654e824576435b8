"""Is what a body hands over, and cannot, refused in one clear line where it is written?

The error is raised in the body, at the call, and the body may go on. `tests/cli/test_bad_agents.py` says the
same of flowctl. Source: issue "agents" (bad input: a clear error at the earliest moment, nothing lost).
"""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quiesce import (
    Completed,
    RunState,
    Runtime,
    action,
    agent,
    ask_human,
    current_run,
    errors,
    gather,
    pause,
    receive,
    send,
    sleep,
    spawn,
    step,
)

pytestmark = pytest.mark.anyio


@step
def takes(x: int) -> int:
    return x


@step
def gives_a_lock() -> Any:
    return threading.Lock()


@agent
def child(x: int) -> int:
    return x


IN_A_BODY: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "question": (lambda: ask_human(3), TypeError, "a question is text, not int: 3"),  # type: ignore[call-overload]
    "reason": (lambda: pause(3), TypeError, "the reason of a pause is text, not int: 3"),  # type: ignore[call-overload]
    "key": (lambda: pause("q", key=3), TypeError, "the key of a pause is text, not int: 3"),  # type: ignore[call-overload]
    "choices": (
        lambda: pause("q", expects=["yes", "no"]),
        errors.NotSerializable,
        "cannot ask for ['yes', 'no'], which is no type; give one, as bool, a model, or Literal[...]",
    ),
    "payload": (lambda: pause("q", payload=threading.Lock()), errors.NotSerializable, "has no JSON form"),
    "too many": (lambda: takes(1, 2), TypeError, "step 'takes' takes (x): too many positional arguments"),  # type: ignore[call-arg]
    "unknown": (lambda: takes(y=1), TypeError, "step 'takes' takes (x): missing a required argument"),  # type: ignore[call-arg]
    "builtin": (lambda: step(threading.Lock), TypeError, "does not say what it takes; call it in a def"),
    "gathered value": (
        lambda: gather(takes.call(1), takes(2)),  # type: ignore[arg-type]
        TypeError,
        "gather() takes calls of async steps, and f.call(…) of plain ones; number 2 is int: 2",
    ),
    "sleep": (lambda: sleep("x"), TypeError, "sleep('x'): seconds are a number or a timedelta, not str"),  # type: ignore[arg-type]
    "sleep back": (lambda: sleep(-1), ValueError, "sleep(-1): seconds from now, not below 0"),
    "timeout": (
        lambda: receive("x"),
        TypeError,
        "receive('x'): seconds are a number or a timedelta, not str",
    ),  # type: ignore[arg-type]
    "timeout back": (lambda: receive(-1), ValueError, "receive(-1): seconds from now, not below 0"),
    "no flow": (lambda: spawn(3), errors.FlowNotFound, "3 is not a flow"),
    "input": (lambda: spawn(child, "x"), errors.InputRejected, "input: expected int, got 'x' (str)"),
    "nobody": (lambda: send("nobody", 1), errors.RunNotFound, "there is no run 'nobody'"),
    "anew": (lambda: current_run().continue_as_new("x"), errors.InputRejected, "has no parameters"),
}
NOT_STORED: dict[str, tuple[Callable[[], Any], str]] = {
    "result of a step": (gives_a_lock, "result of step 'gives_a_lock' cannot be stored"),
    "argument": (lambda: takes(threading.Lock()), "argument 'x' of step 'takes' cannot be stored"),  # type: ignore[arg-type]
    "message": (lambda: send(current_run(), threading.Lock()), "message cannot be stored"),
}


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
@pytest.mark.parametrize("what", IN_A_BODY)
async def test_what_means_nothing_is_refused_at_the_call_and_the_body_goes_on(
    tmp_path: Path, what: str, durable: bool
) -> None:
    """Issue "agents", bad input."""
    does, error, told = IN_A_BODY[what]

    @agent
    def body() -> str:
        with pytest.raises(error, match=re.escape(told)):
            does()
        return f"went on, and {takes(1)}"

    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[body, child]) as rt:
        assert await rt.run(body) == Completed("went on, and 1")
        assert [hold.id for hold in await rt.holds(state=None)] == []


@pytest.mark.parametrize("what", NOT_STORED)
async def test_what_cannot_be_stored_is_refused_at_the_call_and_the_body_goes_on(
    tmp_path: Path, what: str
) -> None:
    """Issue "agents", bad input; spec engine, 6: refused at save, with the place."""
    does, told = NOT_STORED[what]

    @agent
    def body() -> str:
        with pytest.raises(errors.NotSerializable, match=re.escape(told)):
            does()
        return f"went on, and {takes(1)}"

    async with Runtime(tmp_path / "flows.db", flows=[body]) as rt:
        assert await rt.run(body) == Completed("went on, and 1")


async def test_an_input_or_a_result_that_cannot_be_stored_is_named(tmp_path: Path) -> None:
    """Issue "agents", bad input: the input before a run exists, the result as the failure of its run."""

    @agent
    def body(given: Any = None) -> Any:
        return threading.Lock()

    async with Runtime(tmp_path / "flows.db", flows=[body]) as rt:
        with pytest.raises(errors.NotSerializable, match="input cannot be stored: a lock"):
            await rt.start(body, threading.Lock())
        assert await rt.list() == []
        run = await rt.start(body)
        with pytest.raises(errors.NotSerializable, match="result of 'body' cannot be stored: a lock"):
            await run.settled()
        assert (await run.status()).state is RunState.FAILED


@pytest.mark.parametrize("make", [step, action])
def test_a_generator_function_is_no_step_whose_call_would_run_nothing(make: Any) -> None:
    """Issue "agents", bad input: as for bodies."""

    def yields() -> Iterator[int]:
        yield 1

    async def yields_async() -> AsyncIterator[int]:
        yield 1

    for wrong in (yields, yields_async):
        with pytest.raises(TypeError, match="is a generator function; calling it would run nothing"):
            make(wrong)


def test_an_approval_is_a_yes_or_a_rule() -> None:
    """Issue "agents", bad input: refused where it is written."""
    with pytest.raises(TypeError, match="approval= is True, False or a function of the arguments, not 3"):
        action(approval=3)(takes.function)  # type: ignore[call-overload]


async def test_several_parameters_want_an_object_by_name() -> None:
    """Issue "agents", bad input (wrong argument counts); spec engine, 7."""

    @agent
    def two(a: int, b: str) -> None: ...

    async with Runtime() as rt:
        told = "agent 'two' has several parameters (a, b), so its input is an object of them by name, not 3"
        with pytest.raises(errors.InputRejected, match=re.escape(told)):
            await rt.start(two, 3)
        with pytest.raises(errors.InputRejected, match="two has no c; it has a, b"):
            await rt.start(two, {"a": 1, "b": "x", "c": 2})


VERBS: dict[str, tuple[Callable[[Runtime, str, str], Any], type[Exception], str]] = {
    "actor": (lambda rt, run, hold: rt.pause(run, actor=3), TypeError, "the actor of a request is text"),  # type: ignore[arg-type]
    "reason": (lambda rt, run, hold: rt.pause(run, reason=3), TypeError, "the reason of a request is text"),  # type: ignore[arg-type]
    "drain": (lambda rt, run, hold: rt.pause(run, drain_timeout=-1), ValueError, "seconds from 0, not -1"),
    "message": (lambda rt, run, hold: rt.reject(hold, 3), TypeError, "message of a rejection is text"),  # type: ignore[arg-type]
    "answer": (
        lambda rt, run, hold: rt.answer(hold, threading.Lock()),
        errors.NotSerializable,
        "no JSON form",
    ),
    "limit": (lambda rt, run, hold: rt.list(limit=-1), ValueError, "limit is a number from 1, not -1"),
    "limit of holds": (lambda rt, run, hold: rt.holds(limit=0), ValueError, "limit is a number from 1"),
    "run id": (lambda rt, run, hold: rt.start(child, 1, run_id=3), errors.QuiesceError, "run id 3 cannot be"),  # type: ignore[arg-type]
    "request id": (
        lambda rt, run, hold: rt.pause(run, request_id=3),  # type: ignore[arg-type]
        errors.QuiesceError,
        "request id 3 cannot be used: it is int, and no text",
    ),
}


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
@pytest.mark.parametrize("what", VERBS)
async def test_a_verb_that_is_given_nonsense_says_so_and_changes_nothing(
    tmp_path: Path, what: str, durable: bool
) -> None:
    """Issue "agents", bad input: in memory as on disk, before anything is written."""
    does, error, told = VERBS[what]

    @agent
    def body() -> None:
        pause("q")

    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[body, child]) as rt:
        run = await rt.start(body)
        await run.settled()
        before = await run.status()
        with pytest.raises(error, match=re.escape(told)):
            await does(rt, run.id, before.holds[0].id)
        assert await run.status() == before
        assert len(await rt.list()) == 1


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"store": 3}, TypeError, "a store is a path, a URL, a Store or None, not 3"),
        ({"flows": [3]}, errors.FlowNotFound, "3 is not a flow"),
        ({"drain_timeout": "x"}, TypeError, "drain_timeout is a number of seconds, not 'x'"),
    ],
)
async def test_a_runtime_that_is_given_nonsense_does_not_open(
    options: dict[str, Any], error: type[Exception], told: str
) -> None:
    """Issue "agents", bad input: a clear error at the earliest moment."""
    with pytest.raises(error, match=re.escape(told)):
        async with Runtime(**options):
            pass
