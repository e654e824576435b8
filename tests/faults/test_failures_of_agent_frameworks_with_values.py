"""Does a value come back from a pause as another one here, or a save that cannot be loaded go unnoticed?

Each test is named for its entry in the cases; see `test_failures_of_agent_frameworks.py`. A store in memory
keeps the objects themselves, so these are about a store in a file, read again by another runtime.
"""

from __future__ import annotations

import enum
import sqlite3
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from pydantic_core import core_schema

from quiesce import Completed, Concurrency, Graph, Hold, JoinInput, Run, Runtime, Transition, codec
from quiesce.errors import NodeError, NotSerializable
from quiesce.graph import NodeRef
from quiesce_adapters.sqlite.checks import violations_of_file

from .sessions import Sessions, events_of, paused
from .test_failures_of_agent_frameworks_in_new_processes import Processes

pytestmark = pytest.mark.anyio


class Colour(enum.Enum):
    RED = 1


@dataclass
class Order:
    of: tuple[str, ...]
    price: Decimal
    colour: Colour = Colour.RED


class Hashed(BaseModel):
    """Refuses what it has made itself of its input."""

    password: str

    @field_validator("password")
    @classmethod
    def hash(cls, password: str) -> str:
        if password.startswith("#"):
            raise ValueError("it is hashed")
        return f"#{password}"


class Money:
    """Written by its own schema as what that schema does not read."""

    def __init__(self, euros: int) -> None:
        self.euros = euros

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda euros: cls(int(euros)),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda m: f"{m.euros} EUR"),
        )


EXACT: list[tuple[Any, Any]] = [
    (None, (1, ("a", [2]))),
    (None, {1: {"a"}, "1": frozenset()}),
    (None, [b"\x00", bytearray(b"x"), Decimal("1.10"), timedelta(days=1), -0.0, 2**70]),
    (None, {"~tuple": [1]}),
    (defaultdict[str, list[int]], defaultdict(list, {"a": [1]})),
    (Counter[str], Counter("aab")),
    (dict[str, tuple[int, ...]], {"a": (1, 2)}),
    (Order, Order(("a", "b"), Decimal("1.10"))),
    (list[Order | int], [Order((), Decimal(0)), 1]),
    (Hashed, Hashed(password="x")),
]
DEGRADES: list[tuple[Any, Any]] = [
    (None, defaultdict(list)),
    (None, Counter("aab")),
    (None, OrderedDict(a=1)),
    (None, deque([1], maxlen=2)),
    (deque[int], deque([1], maxlen=2)),
    (dict[str, int], Counter("aab")),
    (None, ValueError("x")),
    (None, [ValueError("x")]),
    (None, Order((), Decimal(0))),
    (None, Colour.RED),
]


def kept(declared: Any, value: Any) -> tuple[Graph, list[Any]]:
    """Makes the value, keeps it over a question; `got` is what comes behind it."""
    graph, got = Graph("kept"), []

    def make(x: int) -> Any:
        return value

    if declared is not None:
        make.__annotations__["return"] = declared
    begin = graph.node(make, start=True)
    gate = graph.gate("gate", asks="?", expects=bool, takes=declared)
    graph.edge(begin, gate)

    @graph.transition(gate)
    def decide(answered: Any) -> Transition:
        got.append(answered[0])
        return Transition.finish(None)

    return graph, got


async def refused_at_save(db: Path, flow: Graph, place: str) -> NotSerializable:
    """The run fails where the value would have been saved, says so, and no part of the value is stored."""
    async with Runtime(db, flows=[flow]) as rt:
        run = await rt.start(flow, 1)
        with pytest.raises(NodeError) as failed:
            await run.settled()
        status = await run.status()
        assert (status.state, status.error) == ("failed", str(failed.value))
    cause = failed.value.__cause__
    assert isinstance(cause, NotSerializable)
    assert place in cause.place
    return cause


@pytest.mark.parametrize(("declared", "value"), EXACT, ids=repr)
async def test_agent_framework_case_66_a_value_comes_back_over_a_pause_exactly(
    db: Path, declared: Any, value: Any
) -> None:
    """Source: cases failures-agent-frameworks 66."""
    flow, got = kept(declared, value)
    async with Sessions(db) as sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        await paused(rt, "r")
        rt = await sessions.next(flow)
        await rt.resume("r", True)
        await Run(rt, "r").settled()
    (back,) = got
    assert back is not value
    assert (type(back), repr(back)) == (type(value), repr(value))
    assert getattr(back, "default_factory", None) is getattr(value, "default_factory", None)


@pytest.mark.parametrize(("declared", "value"), DEGRADES, ids=repr)
async def test_agent_framework_case_66_a_value_that_would_come_back_as_another_is_refused(
    db: Path, declared: Any, value: Any
) -> None:
    """Source: cases failures-agent-frameworks 66."""
    flow, got = kept(declared, value)
    error = await refused_at_save(db, flow, "gate")
    assert type(value[0] if isinstance(value, list) else value).__name__ in str(error)
    assert got == []


ORDERS = """
from dataclasses import dataclass
from one_process import act
from quiesce import Graph, Transition

graph = Graph("orders")

@dataclass
class Order:
    item: str

@dataclass
class Refund:
    item: str

@graph.node(start=True)
def take(x: int) -> Order | Refund:
    return Order("book")

approve = graph.gate("approve", asks="send?", expects=bool, takes=Order | Refund)

@graph.node
def send(order: Order | Refund) -> str:
    act(f"send-{type(order).__name__}")
    return order.item

graph.edge(take, approve)
graph.transition(approve)(lambda answered: send.next(answered[0]))
graph.finish(send)
"""


def test_agent_framework_case_67_a_class_that_is_gone_is_named_and_nothing_goes_on(
    db: Path, tmp_path: Path, anyio_backend: str
) -> None:
    """Source: cases failures-agent-frameworks 67."""
    processes = Processes(db, tmp_path, anyio_backend)
    processes.witness.touch()
    assert processes.start(ORDERS)["outcome"] == "Paused"
    before = processes.stored()
    processes.write(ORDERS.replace("Order", "Purchase"))
    found = processes.do("resume", "true")
    assert found["refused"][0] == "FlowChanged"
    assert any("Order | Refund -> Purchase | Refund" in line for line in found["diff"])
    assert processes.stored() == before

    found = processes.do("accept", "true")
    assert found.get("outcome") != "Completed"
    status = processes.stored()[0]
    assert status.state in ("paused", "failed")
    assert "'Order'" in f"{status.reason} {status.error}"
    assert processes.ran == {}


class Opaque:
    pass


def everything_in(db: Path) -> bytes:
    """All text and bytes of all rows."""
    connection = sqlite3.connect(db)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = [row for table in tables for row in connection.execute(f"SELECT * FROM {table}")]
    connection.close()
    cells = [cell.encode() if isinstance(cell, str) else cell for row in rows for cell in row]
    return b"\n".join(cell for cell in cells if isinstance(cell, bytes))


@pytest.mark.parametrize(
    "value",
    [object(), Opaque(), lambda: 1, [Opaque()], {"a": object()}],
    ids=["object", "instance", "function", "in a list", "in a dict"],
)
async def test_agent_framework_case_68_an_object_is_refused_and_never_stored_as_its_repr(
    db: Path, value: Any
) -> None:
    """Source: cases failures-agent-frameworks 68."""
    flow, _ = kept(None, value)
    await refused_at_save(db, flow, "gate")
    asks = Graph("asks")
    question = asks.node(lambda x: x, name="question", start=True)
    asks.transition(question)(lambda x: Transition.pause("?", payload=value))
    fine, _ = kept(None, 1)
    async with Runtime(db, flows=[asks, fine]) as rt:
        with pytest.raises(NotSerializable, match="input"):
            await rt.start(asks, value)
        run = await rt.start(asks, 1)
        with pytest.raises(NodeError, match="payload"):
            await run.settled()
        held = await rt.start(fine, 1)
        (hold,) = (await paused(rt, held.id)).holds
        with pytest.raises(NotSerializable, match="answer"):
            await rt.answer(hold.id, value)
        with pytest.raises(NotSerializable, match="answer"):
            await rt.resume(held.id, value)
        assert [item.state for item in await rt.holds(held.id)] == ["open"]
    assert b" at 0x" not in everything_in(db)


async def test_agent_framework_case_69_what_could_not_be_loaded_is_refused_at_save(db: Path) -> None:
    """Source: cases failures-agent-frameworks 69."""
    flow, got = kept(Money, Money(3))
    error = await refused_at_save(db, flow, "gate")
    assert "Money" in str(error)
    assert got == []


async def test_agent_framework_case_69_a_broken_run_is_listed_and_stops_at_what_is_broken(
    tmp_path: Path,
) -> None:
    """Source: cases failures-agent-frameworks 69."""
    db = tmp_path / "broken.db"
    flow, got = kept(Order, Order(("a",), Decimal(1)))
    async with Sessions(db) as sessions:
        rt = await sessions.next(flow)
        for run_id in ("old", "newest"):
            await rt.start(flow, 1, run_id=run_id)
            await paused(rt, run_id)
            sessions.clock.advance(1)
        await sessions.close()
        connection = sqlite3.connect(db)
        with connection:
            changed = connection.execute(
                "UPDATE blobs SET body = ? WHERE run_id = 'newest' AND body = ?",
                (b"[1]", codec.encode(Order(("a",), Decimal(1)), Order)),
            )
            assert changed.rowcount == 1
        connection.close()
        assert violations_of_file(db) == []

        rt = await sessions.next(flow)
        assert [run.id for run in await rt.list()] == ["newest", "old"]
        assert len((await rt.status("newest")).holds) == 1
        await rt.resume("newest", True)
        broken = await paused(rt, "newest")
        assert [lock.kind for lock in (await rt.status("newest")).locks] == ["fault"]
        assert "cannot be read as Order" in (broken.reason or "")
        await rt.resume("old", True)
        assert await Run(rt, "old").settled() == Completed(None)
    assert got == [Order(("a",), Decimal(1))]


async def test_agent_framework_case_70_a_question_comes_back_as_the_question_it_was(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 70."""
    flow = Graph("asks")
    gate = flow.gate(
        "gate",
        asks="buy it?",
        expects=Order,
        payload=lambda x: Order(("a",), Decimal("1.10")),
        deadline=timedelta(hours=1),
        start=True,
    )
    got: list[Any] = []

    @flow.transition(gate)
    def decide(answered: tuple[Any, Order]) -> Transition:
        got.append(answered[1])
        return Transition.finish(None)

    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        (asked,) = (await paused(rt, "r")).holds
        assert asked.payload == {"of": ["a"], "price": "1.10", "colour": 1}
        assert asked.expects is not None
        assert asked.expects["required"] == ["of", "price"]
        assert asked.deadline == sessions.clock.now() + timedelta(hours=1)
        rt = await sessions.next(flow)
        outcome = await paused(rt, "r")
        for back in (outcome.holds[0], (await rt.holds())[0], (await rt.status("r")).holds[0]):
            assert type(back) is Hold
            assert repr(back) == repr(asked)
        await rt.answer(asked.id, {"of": ["b"], "price": "2.50", "colour": 1})
        await Run(rt, "r").settled()
        assert got == [Order(("b",), Decimal("2.50"))]


async def test_agent_framework_case_70_what_a_fan_out_hands_to_its_branches_comes_back(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 70."""
    flow, got = Graph("fans out", concurrency=Concurrency.PARALLEL), list[Any]()

    @flow.node(start=True)
    def split(x: int) -> int:
        return x

    gate = flow.gate("gate", asks="?", expects=bool, takes=Order)

    @flow.node
    def collect(orders: JoinInput[Order]) -> int:
        got.extend(orders)
        return len(orders)

    orders = [Order(("a",), Decimal("1.10")), Order((), Decimal(0))]
    flow.transition(split)(lambda x: Transition.fan_out([(gate, order) for order in orders], join=collect))
    flow.join(gate, into=collect, map=lambda answered: answered[0])
    flow.finish(collect)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        for hold in (await paused(rt, "r")).holds:
            rt = await sessions.next(flow)
            await rt.answer(hold.id, True)
        assert await Run(rt, "r").settled() == Completed(2)
    assert got == orders


Follow = Callable[[NodeRef[Any, Any], Any, Any], Transition]
BOUNDARIES: dict[str, tuple[str, Follow]] = {
    "next": ("next", lambda after, good, bad: after.next({"ok": good, "extra": bad})),
    "fan-out": (
        "fan_out",
        lambda after, good, bad: Transition.fan_out([(after, good), (after, bad), (after, good)], join=None),
    ),
    "finish": ("finish", lambda after, good, bad: Transition.finish([good, {"meta": bad}])),
}


@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_agent_framework_case_71_one_bad_object_in_a_boundary_is_an_error_not_a_gap(
    db: Path, boundary: str
) -> None:
    """Source: cases failures-agent-frameworks 71."""
    did, follow = BOUNDARIES[boundary]
    ran: list[str] = []
    bad: list[Any] = [object()]
    flow = Graph("boundary", concurrency=Concurrency.PARALLEL)

    @flow.node(start=True)
    def first(x: int) -> int:
        ran.append("first")
        return x

    @flow.node
    def source(x: int) -> int:
        ran.append("source")
        return x

    @flow.node
    def after(x: Any) -> Any:
        ran.append("after")
        return x

    flow.edge(first, source)
    flow.transition(source)(lambda x: follow(after, "good", bad[0]))
    flow.finish(after)
    async with Sessions(db) as sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        with pytest.raises(NodeError, match="source") as failed:
            await Run(rt, "r").settled()
        assert isinstance(failed.value.__cause__, NotSerializable)
        assert ran == ["first", "source"]
        visits = [event.data["did"] for event in await events_of(rt, "r") if event.kind == "visit"]
        assert visits == ["next", "error"]

        bad[0] = "mended"
        rt = await sessions.next(flow)
        await rt.retry("r")
        assert type(await Run(rt, "r").settled()) is Completed
        assert ran[:3] == ["first", "source", "source"]
        visits = [event.data["did"] for event in await events_of(rt, "r") if event.kind == "visit"]
        assert visits[:3] == ["next", "error", did]
