"""What may be an agent, and what is its input?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from quiesce import Completed, Runtime, agent, errors
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
        (several, 5, "expected"),
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
