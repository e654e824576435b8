"""What may be an agent, and what is its input?"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from quiesce import Completed, Runtime, action, agent, errors, step
from quiesce.agent import Agent
from quiesce.agent.definition import changes

pytestmark = pytest.mark.anyio


@agent
def one(amount: int) -> str:
    """Doc."""
    return f"{amount}"


@agent(name="two words", version="7")
def several(first: int, second: str = "x", *, third: list[int]) -> list[Any]:
    return [first, second, third]


@agent
def none() -> str:
    return "nothing"


@agent
def optional(amount: int = 5) -> int:
    return amount


@agent
def untyped(value):  # type: ignore[no-untyped-def]
    return value


def test_an_agent_is_a_flow_and_still_its_function() -> None:
    """Source: spec engine, 5; called as what it was, for plain tests."""
    assert isinstance(one, Agent)
    assert (one.kind, one.name, one.version, one.defined_in.module) == ("agent", "one", None, __name__)
    assert (one.__name__, one.__doc__, one(3)) == ("one", "Doc.", "3")
    assert (several.name, several.version) == ("two words", "7")


@pytest.mark.parametrize(
    ("flow", "given", "value"),
    [
        (one, 3, "3"),
        (several, {"first": 1, "third": [2]}, [1, "x", [2]]),
        (several, {"first": 1, "second": "y", "third": []}, [1, "y", []]),
        (none, None, "nothing"),
        (optional, None, 5),
        (optional, 6, 6),
        (untyped, {"any": ["thing"]}, {"any": ["thing"]}),
    ],
)
async def test_parameters_are_the_input(flow: Any, given: Any, value: Any) -> None:
    """Source: spec engine, 7 (several parameters of an agent are an object by name)."""
    async with Runtime() as rt:
        assert await rt.run(flow, given) == Completed(value)


@pytest.mark.parametrize(
    ("flow", "given", "told"),
    [
        (one, "3", "expected int"),
        (one, None, "expected int"),
        (several, {"first": 1}, "third"),
        (several, {"first": 1, "third": [], "fourth": 4}, "fourth"),
        (several, {"first": "no", "third": []}, "first"),
        (several, 5, "has several parameters"),
        (several, None, "first"),
        (none, 1, "has no parameters"),
    ],
)
async def test_an_input_that_does_not_fit_is_refused_before_a_run_exists(
    flow: Any, given: Any, told: str
) -> None:
    """Source: issue 4 (bad input: a clear error at the earliest moment)."""
    async with Runtime() as rt:
        with pytest.raises(errors.InputRejected, match=told):
            await rt.start(flow, given)
        assert await rt.list() == []


def test_a_generator_function_is_no_body() -> None:
    """Source: issue 4 (bad input)."""

    def yields() -> Iterator[int]:
        yield 1

    async def yields_async() -> AsyncIterator[int]:
        yield 1

    for wrong in (yields, yields_async):
        with pytest.raises(TypeError, match="is a generator function"):
            agent(wrong)


def test_a_lambda_a_class_and_a_value_are_no_bodies() -> None:
    """Source: issue 4 (bad input)."""
    with pytest.raises(TypeError, match="lambda"):
        agent(lambda: 1)
    for wrong in (int, 5, one):
        with pytest.raises(TypeError, match="takes a function"):
            agent(wrong)  # type: ignore[call-overload]


def test_parameters_need_names() -> None:
    """Source: spec engine, 7 (an object by name)."""

    def stars(*rest: int) -> None: ...

    def doubles(**rest: int) -> None: ...

    def only(value: int, /) -> None: ...

    for wrong in (stars, doubles, only):
        with pytest.raises(TypeError, match="use plain parameters"):
            agent(wrong)


async def test_a_nested_function_is_refused_by_a_store_that_outlives_the_process(db: Any) -> None:
    """Source: issue 4 (a nested function that a new process cannot import)."""

    @agent
    def nested() -> None: ...

    async with Runtime(db) as rt:
        with pytest.raises(errors.FlowNotFound, match="module-level name"):
            await rt.start(nested)


def test_changes_are_told_line_by_line() -> None:
    """Source: spec agent, "Steps and the journal" (code changed while paused)."""

    @agent(name="one")
    async def changed(amount: str, more: int = 1) -> int:
        return more

    old, new = one.signature(), changed.signature()
    assert changes(old, old) == []
    assert changes(old, new) == [
        "parameter 'more' was added",
        "parameter 'amount': int -> str",
        "returns str -> int",
        "it is async now",
    ]


def test_the_order_of_parameters_is_part_of_the_signature() -> None:
    """Source: spec engine, 4 (version: a digest of its signature)."""

    def ab(a: int, b: int) -> None: ...

    def ba(b: int, a: int) -> None: ...

    assert changes(agent(ab).signature(), agent(ba).signature()) == ["the order of the parameters changed"]


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3"])
def test_how_many_processes_may_be_lost_is_a_number_from_1(wrong: Any) -> None:
    """issue "agents", bad input: a clear error at the earliest moment."""
    with pytest.raises(ValueError, match="max_lost_attempts is a number from 1, not"):
        agent(max_lost_attempts=wrong)(one.function)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout": 0}, "timeout= is seconds above 0, not 0"),
        ({"timeout": "1"}, "timeout= is seconds above 0, not '1'"),
        ({"retries": -1}, "retries= is a number from 0, not -1"),
        ({"retries": 1.5}, "retries= is a number from 0, not 1.5"),
        ({"on_unknown": "ask"}, 'on_unknown= is "run" or "hold", not \'ask\''),
        ({"verify": True}, "verify= is a function of the step's arguments, not True"),
    ],
)
@pytest.mark.parametrize("make", [step, action])
def test_an_option_of_a_step_that_means_nothing_is_refused_where_it_is_written(
    make: Any, options: dict[str, Any], told: str
) -> None:
    """issue "agents", bad input: a clear error at the earliest moment, for actions as for steps."""
    with pytest.raises(ValueError, match=re.escape(told)):
        make(**options)


@pytest.mark.parametrize("deadline", ["soon", -1, True, float("nan"), datetime(2030, 1, 1, tzinfo=UTC)])
def test_a_deadline_of_an_action_is_a_time_from_its_call(deadline: Any) -> None:
    """issue "agents", bad input: refused where it is written, not in the body that calls the action."""
    with pytest.raises(ValueError, match="deadline"):
        action(deadline=deadline)


def test_a_step_that_is_called_and_dropped_says_that_it_has_not_happened() -> None:
    """As a coroutine does: in a plain body the call of an async step carries nothing out by itself."""

    @step
    async def charge(amount: int) -> int:
        return amount

    with pytest.warns(RuntimeWarning, match=r"step 'charge' was called and never carried out: await it"):
        charge.call(1)
