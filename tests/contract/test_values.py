"""Which values go in and come out as they are, and which are refused before anything has happened?"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from quiesce.errors import InputRejected, NotSerializable

from .kinds import FAILURES, Kind, cause_of
from .subject import Subject, paused

pytestmark = pytest.mark.anyio

EXACT = [
    None,
    0,
    -1,
    2**80,
    1.5,
    "é\ud7ff",
    b"\x00\xff",
    (1, (2,)),
    {1, 2},
    frozenset({"a"}),
    {"a": [1, (2, {"b"})]},
    datetime(2030, 1, 1, tzinfo=UTC),
    Decimal("1.10"),
    PurePosixPath("a/b"),
    math.inf,
]


@pytest.mark.parametrize("value", EXACT, ids=repr)
async def test_a_value_comes_back_as_it_went_in(subject: Subject, kind: Kind, value: Any) -> None:
    """spec engine, 6: restored to the same value and type, also where none is declared."""
    flow = kind.echoes()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, value)
        given = await run.result()
        assert given == value
        assert type(given) is type(value)


class Opaque:
    """Of a type that no store knows how to write down."""


@pytest.mark.parametrize("value", [Opaque(), object(), lambda: 1, [Opaque()]], ids=["x", "o", "f", "list"])
async def test_an_input_that_cannot_be_stored_starts_nothing(
    subject: Subject, kind: Kind, value: Any
) -> None:
    """spec engine, 6: what does not round-trip is refused at save with NotSerializable and the place."""
    flow = kind.echoes()
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        with pytest.raises(NotSerializable) as caught:
            await rt.start(flow, value)
        assert caught.value.place.startswith("input")
        assert list(await rt.list()) == []
        assert kind.evaluated == []


async def test_a_value_that_cannot_be_stored_fails_the_run_where_it_arose(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 6: with the place: which piece of the run it came from."""
    flow = kind.gives(Opaque())
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        with pytest.raises(FAILURES) as caught:
            await run.settled()
        assert isinstance(cause_of(caught.value), NotSerializable)
        assert kind.evaluated == ["give"]


async def test_a_memory_store_keeps_the_objects_themselves(subject: Subject, kind: Kind) -> None:
    """House rule of the memory store: nothing is copied, so anything can be a value."""
    opaque = Opaque()
    flow = kind.echoes()
    async with subject.open(flow) as rt:
        if subject.capabilities(rt).survives_restart:
            pytest.skip("a durable store writes values down")
        assert await (await rt.start(flow, opaque)).result() is opaque


@pytest.mark.parametrize("value", ["3", 1.5, None, [1], True], ids=repr)
async def test_an_input_that_does_not_fit_starts_nothing(subject: Subject, kind: Kind, value: Any) -> None:
    """spec graph (building): no implicit lossy conversion; InputRejected, with the value."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        with pytest.raises(InputRejected) as caught:
            await rt.start(flow, value)
        assert repr(value) in str(caught.value)
        assert "int" in str(caught.value)
        run = await rt.create(flow, "made")
        async with subject.refused(rt, InputRejected, run):
            await rt.start(flow, value, run_id="made")
        assert kind.evaluated == []


async def test_an_answer_without_a_json_form_changes_nothing(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: answers are JSON values."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        for refused in (lambda: rt.answer(hold.id, Opaque()), lambda: run.resume(Opaque())):
            async with subject.refused(rt, NotSerializable, run) as caught:
                await refused()
            assert isinstance(caught.value, NotSerializable)
            assert caught.value.place == "answer"


NO_JSON = [math.nan, -math.inf, [math.inf], "half \ud800", {"\ud800": 1}]


@pytest.mark.parametrize("value", NO_JSON, ids=ascii)
async def test_what_json_does_not_have_is_no_answer(subject: Subject, kind: Kind, value: Any) -> None:
    """spec engine, 4: every JSON value is an answer; NaN, infinities and half characters are none."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        async with subject.refused(rt, NotSerializable, run):
            await rt.answer(hold.id, value)


async def test_a_question_without_a_json_form_fails_its_run(subject: Subject, kind: Kind) -> None:
    """spec engine, 5 (Hold): payload is JSON; what has no JSON form is the asker's error, in both stores."""
    flow = kind.asks(payload=Opaque())
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        with pytest.raises(FAILURES) as caught:
            await run.settled()
        assert isinstance(cause_of(caught.value), NotSerializable)
        assert list(await rt.holds(run.id, None)) == []
