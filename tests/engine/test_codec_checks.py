"""What comes from outside fits what is declared, or is rejected with the reason, the value and the place.

Source: spec engine, 4 "answer" and 7 (`run FLOW [INPUT]`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from quiesce import codec
from quiesce.codec.schemas import _first_problem, _is_simple, _jsonschema_problem
from quiesce.codec.tags import short
from quiesce.errors import AnswerRejected, InputRejected, NotSerializable


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Shape(Enum):
    POINT = (0, 0)


@dataclass
class Part:
    name: str
    size: int = 1


@dataclass
class Order:
    id: UUID
    parts: list[Part]
    due: date | None = None
    total: Decimal = Decimal(0)
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.total < 0:
            raise ValueError("the total is negative")


@dataclass
class Seeded:
    size: int
    seed: InitVar[int]

    def __post_init__(self, seed: int) -> None:
        self.size += seed


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


class Place(NamedTuple):
    city: str
    zip: int = 0


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    name: str


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str
    age: int = 0
    born: datetime | None = None


Positive = Annotated[int, Field(gt=0)]
UserId = NewType("UserId", int)
ID = "12345678-1234-5678-1234-567812345678"


def labels(cases: Sequence[object]) -> list[str]:
    """Names that are the same in every process: no addresses, no order of a set."""
    return [f"{number}-{name_of(case)}" for number, case in enumerate(cases)]


def name_of(case: object) -> str:
    value = case[0] if isinstance(case, tuple) and case else case
    unsteady = isinstance(value, set | frozenset | dict) or " at 0x" in short(case, 200)
    return type(value).__name__ if unsteady else short(case, 40)


def identical(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


# --- values that Python code gives ----------------------------------------------------------------------

GIVEN: list[tuple[object, Any]] = [
    (3, int),
    (True, bool),
    ("x", str),
    (None, type(None)),
    (object, Any),
    (object, None),
    ([1], list[int]),
    ((1, "a"), tuple[int, str]),
    ({1, 2}, set[int]),
    ({"a": 1.5}, dict[str, float]),
    (datetime(2030, 1, 1), datetime),
    (date(2030, 1, 1), date),
    (Path("a"), Path),
    (Decimal(1), Decimal),
    (Color.RED, Color),
    ("a", Literal["a", 1]),
    (None, int | None),
    (3, float | int),
    (Part("p"), Part),
    ([Part("p")], list[Part]),
    (Part("p"), Part | str),
    (Place("c"), Place),
    ({"title": "t"}, Movie),
    (Dog(name="d"), Dog),
    (Dog(name="d"), Cat | Dog),
    (3, Positive),
    (3, UserId),
    (3, Annotated[int, "a comment"]),
    (pydantic.AnyUrl("http://a.b/"), pydantic.AnyUrl),
]


@pytest.mark.parametrize(("value", "declared"), GIVEN, ids=labels(GIVEN))
def test_a_value_of_the_declared_type_is_taken_as_it_is(value: object, declared: Any) -> None:
    assert codec.validate(value, declared) is value or value == codec.validate(value, declared)
    assert identical(value, codec.validate_json(value, declared))
    assert identical(value, codec.validate(value, declared, from_json=True))


def test_an_int_for_a_float_becomes_one_where_nothing_is_lost() -> None:
    assert identical(3.0, codec.validate(3, float))
    assert codec.validate([1, 2.5], list[float]) == [1.0, 2.5]
    for much in (2**53 + 1, 10**400):
        with pytest.raises(InputRejected, match="expected float"):
            codec.validate(much, float)


REJECTED: list[tuple[object, Any, str]] = [
    ("3", int, "input: expected int, got '3' (str)"),
    (3.7, int, "input: expected int, got 3.7 (float)"),
    (3.0, int, "input: expected int, got 3.0 (float)"),
    (True, int, "input: expected int, got True (bool)"),
    (True, float, "input: expected float, got True (bool)"),
    (1, bool, "input: expected bool, got 1 (int)"),
    (Level.LOW, int, "input: expected int, got <Level.LOW: 1> (Level)"),
    (3, str, "input: expected str, got 3 (int)"),
    ("", type(None), "input: expected None, got '' (str)"),
    ([1, "2"], list[int], "input[1]: expected int, got '2' (str)"),
    ((1,), list[int], "input: expected list[int], got (1,) (tuple)"),
    ("abc", list[str], "input: expected list[str], got 'abc' (str)"),
    ("abc", Sequence[str], "input: expected Sequence[str], got 'abc' (str)"),
    ([1], tuple[int], "input: expected tuple[int], got [1] (list)"),
    ({"a": {"b": "x"}}, dict[str, dict[str, int]], "input['a']['b']: expected int, got 'x' (str)"),
    ("2030-01-01", date, "input: expected date, got '2030-01-01' (str)"),
    (datetime(2030, 1, 1), date, "input: expected date"),
    ("a/b", Path, "input: expected Path, got 'a/b' (str)"),
    ("red", Color, "input: expected Color (one of 'red', 'blue'), got 'red'"),
    ("b", Literal["a"], "input: expected Literal['a'], got 'b' (str)"),
    ("x", int | None, "input: expected int, got 'x' (str)"),
    ("x", int | float, "input: expected int | float, got 'x' (str)"),
    ({"name": "p"}, Part, "input: expected Part, got {'name': 'p'} (dict)"),
    ({"name": "d"}, Dog, "input: expected Dog, got {'name': 'd'} (dict)"),
    ({}, Movie, "input: Movie needs title, got {}"),
    ({"title": "t", "years": 1}, Movie, "input: Movie has no years; it has title, year"),
    ({"title": 3}, Movie, "input['title']: expected str, got 3 (int)"),
    (0, Positive, "input: expected int: Input should be greater than 0, got 0"),
    ([1, 0], list[Positive], "input[1]: expected int: Input should be greater than 0, got 0"),
]


@pytest.mark.parametrize(("value", "declared", "says"), REJECTED, ids=labels(REJECTED))
def test_nothing_is_converted_with_a_loss(value: object, declared: Any, says: str) -> None:
    with pytest.raises(InputRejected) as rejected:
        codec.validate(value, declared)
    assert str(rejected.value).startswith(says)


def test_a_rejection_is_one_line_without_control_characters_and_not_long() -> None:
    class Loud:
        def __repr__(self) -> str:
            return "\x1b[31mred\n" * 1000

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    for value in (Loud(), Broken(), "\x1b" * 1000, [1] * 10**6, 10**5000):
        with pytest.raises(InputRejected) as rejected:
            codec.validate(value, bool, place="answer to gate")
        text = str(rejected.value)
        assert text.startswith("answer to gate: expected bool, got ")
        assert text.isprintable()
        assert len(text) < 200


# --- values that came from JSON --------------------------------------------------------------------------

FROM_JSON: list[tuple[object, Any, object]] = [
    ("2030-01-02T03:04:05Z", datetime, datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("2030-01-02", date, date(2030, 1, 2)),
    ("03:04:05", time, time(3, 4, 5)),
    ("PT1H", timedelta, timedelta(hours=1)),
    ("1.10", Decimal, Decimal("1.10")),
    (0.1, Decimal, Decimal("0.1")),
    (3, Decimal, Decimal(3)),
    (ID, UUID, UUID(ID)),
    ("a/b", Path, Path("a/b")),
    ("a/b", PurePosixPath, PurePosixPath("a/b")),
    ("käse", bytes, "käse".encode()),
    ([1, "a"], tuple[int, str], (1, "a")),
    ([1, 2], tuple[int, ...], (1, 2)),
    ([1, 2], set[int], {1, 2}),
    (["a"], frozenset[str], frozenset({"a"})),
    (["red"], set[Color], {Color.RED}),
    ({"1": "a"}, dict[int, str], {1: "a"}),
    ({"red": 1}, dict[Color, int], {Color.RED: 1}),
    ({"2030-01-02": [1]}, dict[date, tuple[int, ...]], {date(2030, 1, 2): (1,)}),
    ("red", Color, Color.RED),
    (1, Level, Level.LOW),
    ("POINT", Shape, Shape.POINT),
    ("red", Literal[Color.RED, "other"], Color.RED),
    ("2030-01-02", date | None, date(2030, 1, 2)),
    ("2030-01-02", date | str, "2030-01-02"),
    (3, float, 3.0),
    ({"name": "p"}, Part, Part("p")),
    (["c"], Place, Place("c")),
    ({"city": "c", "zip": 3}, Place, Place("c", 3)),
    ({"size": 1, "seed": 2}, Seeded, Seeded(1, 2)),
    ({"name": "d", "born": "2030-01-02T03:04:05"}, Dog, Dog(name="d", born=datetime(2030, 1, 2, 3, 4, 5))),
    ({"name": "d", "age": 3}, Cat | Dog, Dog(name="d", age=3)),
    ({"name": "d", "kind": "dog"}, Cat | Dog, Dog(name="d")),
    ({"name": "p", "size": 3}, Part | Dog, Part("p", 3)),
    (
        {"name": "d", "kind": "dog"},
        Annotated[Cat | Dog, Field(discriminator="kind")],
        Dog(name="d", kind="dog"),
    ),
    ({"value": 1, "children": [{"value": 2}]}, Tree, Tree(1, [Tree(2)])),
    (
        {"id": ID, "parts": [{"name": "p"}], "due": "2030-01-02", "total": "1.50"},
        Order,
        Order(UUID(ID), [Part("p")], date(2030, 1, 2), Decimal("1.50")),
    ),
    ({"id": UUID(ID), "parts": [Part("p")]}, Order, Order(UUID(ID), [Part("p")])),
    ([{"name": "d", "born": datetime(2030, 1, 1)}], list[Dog], [Dog(name="d", born=datetime(2030, 1, 1))]),
    ("10.0.0.1", ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
]


@pytest.mark.parametrize(("value", "declared", "expected"), FROM_JSON, ids=labels(FROM_JSON))
def test_a_json_value_stands_for_a_value_of_the_declared_type(
    value: object, declared: Any, expected: object
) -> None:
    assert identical(expected, codec.validate_json(value, declared))


REJECTED_JSON: list[tuple[object, Any, str]] = [
    ("3", int, "answer: expected int, got '3'"),
    (3.0, int, "answer: expected int, got 3.0"),
    (True, int, "answer: expected int, got True"),
    (1, bool, "answer: expected bool, got 1"),
    ("yes", bool, "answer: expected bool"),
    (None, str, "answer: expected str, got None"),
    ("2030-01-02", datetime, "answer: expected datetime, got '2030-01-02'"),
    ("tomorrow", date, "answer: expected date"),
    (5, datetime, "answer: expected datetime"),
    ("x", UUID, "answer: expected UUID"),
    ("x", Decimal, "answer: expected Decimal"),
    ("x", timedelta, "answer: expected timedelta"),
    ([1, 1], set[int], "answer: expected set[int], got [1, 1], which has an item twice"),
    ([[1]], set[list[int]], "answer: expected set[list[int]]"),
    ([1], tuple[int, int], "answer: expected tuple[int, int]"),
    ({"x": 1}, dict[int, int], "answer['x']: expected int, got 'x'"),
    ({"1": 1, "01": 1}, dict[int, int], "answer['01']: expected int"),
    ({"1": 1, "1.0": 1}, dict[float, int], "answer: expected dict[float, int]"),
    ("green", Color, "answer: expected Color (one of 'red', 'blue'), got 'green'"),
    ("RED", Color, "answer: expected Color"),
    ({"nam": "p"}, Part, "answer: Part has no nam; it has name, size"),
    ({"size": 3}, Part, "answer: Part needs name, got {'size': 3}"),
    ({"name": "p", "size": "3"}, Part, "answer.size: expected int, got '3'"),
    ([], Part, "answer: expected Part, got [] (list)"),
    (
        {"id": ID, "parts": [{"name": 1}]},
        Order,
        "answer.parts[0].name: expected str, got 1",
    ),
    ({"id": ID, "parts": [], "total": -1}, Order, "answer: Order refuses"),
    ({"name": "d", "age": "3"}, Dog, "answer.age: expected Dog: Input should be a valid integer, got '3'"),
    ({}, Dog, "answer.name: expected Dog: Field required"),
    ({"name": 1, "age": "x"}, Dog, "answer.name: expected Dog"),
]


@pytest.mark.parametrize(("value", "declared", "says"), REJECTED_JSON, ids=labels(REJECTED_JSON))
def test_a_json_value_that_stands_for_none_is_rejected(value: object, declared: Any, says: str) -> None:
    with pytest.raises(InputRejected) as rejected:
        codec.validate_json(value, declared)
    assert str(rejected.value).startswith(says)
    assert str(rejected.value).isprintable()


def test_a_rejection_says_how_many_problems_there_are() -> None:
    with pytest.raises(InputRejected, match=r"\(and 1 more\)"):
        codec.validate_json({"name": 1, "age": "x"}, Dog)


def test_a_validator_may_change_what_comes_from_outside() -> None:
    declared = Annotated[str, AfterValidator(str.upper)]
    assert codec.validate_json("a", declared) == "A"
    assert codec.decode(codec.encode("a", declared), declared) == "a"


# --- a word on the command line ---------------------------------------------------------------------------

WORDS: list[tuple[str, Any, object]] = [
    ("3", str, "3"),
    ("3", None, "3"),
    (" 3 ", int, 3),
    ("-3", int, -3),
    ("1.5", float, 1.5),
    ("3", float, 3.0),
    ("true", bool, True),
    ("No", bool, False),
    ("1", bool, True),
    ("null", type(None), None),
    ("a/b", Path, Path("a/b")),
    ("red", Color, Color.RED),
    ("RED", Color, Color.RED),
    ("2", Level, Level.HIGH),
    ("HIGH", Level, Level.HIGH),
    ("POINT", Shape, Shape.POINT),
    ("a", Literal["a", 1], "a"),
    ("1", Literal["a", 1], 1),
    ("red", Literal[Color.RED], Color.RED),
    ("2030-01-02", date, date(2030, 1, 2)),
    ("2030-01-02T03:04", datetime, datetime(2030, 1, 2, 3, 4)),
    ("1.10", Decimal, Decimal("1.10")),
    ("PT1S", timedelta, timedelta(seconds=1)),
    (ID, UUID, UUID(ID)),
    ("3", int | str, 3),
    ("x", int | str, "x"),
    ("1", bool | int, 1),
    ("true", bool | int, True),
    ("null", int | None, None),
    ("null", str | None, "null"),
    ("3", Optional[UserId], 3),  # noqa: UP045
    ("2030-01-02", date | str, date(2030, 1, 2)),
    ("[1, 2]", list[int], [1, 2]),
    ("[1, 2]", tuple[int, ...], (1, 2)),
    ('{"1": 2}', dict[int, int], {1: 2}),
    ('{"name": "p"}', Part, Part("p")),
    ('{"name": "p"}', Part | str, Part("p")),
    ('{"name": "d"}', Dog, Dog(name="d")),
    ('["c", 3]', Place, Place("c", 3)),
    ("3", Positive, 3),
    ("10.0.0.1", ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    ("text", bytes, b"text"),
]


@pytest.mark.parametrize(("text", "declared", "expected"), WORDS, ids=labels(WORDS))
def test_a_word_is_coerced_to_the_declared_type(text: str, declared: Any, expected: object) -> None:
    assert identical(expected, codec.coerce_text(text, declared))


BAD_WORDS: list[tuple[str, Any, str]] = [
    ("3.7", int, "input: expected int, got '3.7'"),
    ("1_000", int, "input: expected int, got '1_000'"),
    ("", int, "input: expected int, got ''"),
    ("maybe", bool, "input: expected bool, got 'maybe'"),
    ("green", Color, "input: expected Color (one of 'red', 'blue'), got 'green'"),
    ("2", Literal["a", 1], "input: expected Literal['a', 1], got '2'"),
    ("tomorrow", date, "input: expected date, got 'tomorrow'"),
    ("x", int | None, "input: expected"),
    ("[1,", list[int], "input: expected list[int] as JSON, got '[1,'"),
    ('["1"]', list[int], "input[0]: expected int, got '1'"),
    ('{"size": 1}', Part, "input: Part needs name"),
    ("0", Positive, "input: expected int: Input should be greater than 0"),
    ("9" * 10_000, int, "input: expected int"),
]


@pytest.mark.parametrize(("text", "declared", "says"), BAD_WORDS, ids=labels(BAD_WORDS))
def test_a_word_that_stands_for_nothing_is_rejected(text: str, declared: Any, says: str) -> None:
    with pytest.raises(InputRejected) as rejected:
        codec.coerce_text(text, declared)
    assert str(rejected.value).startswith(says)
    assert str(rejected.value).isprintable()


# --- the schema of an answer -------------------------------------------------------------------------------

SCHEMAS: list[tuple[Any, object]] = [
    (None, None),
    (Any, None),
    (bool, {"type": "boolean"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (str, {"type": "string"}),
    (type(None), {"type": "null"}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (list, {"type": "array", "items": {}}),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (dict, {"type": "object", "additionalProperties": True}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
    (Literal["a", 1], {"enum": ["a", 1]}),
    (Color, {"enum": ["red", "blue"], "title": "Color", "type": "string"}),
    (datetime, {"type": "string", "format": "date-time"}),
    (Path, {"type": "string", "format": "path"}),
    (UserId, {"type": "integer"}),
    (
        Part,
        {
            "type": "object",
            "title": "Part",
            "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 1}},
            "required": ["name"],
            "additionalProperties": False,
        },
    ),
    (
        Movie,
        {
            "type": "object",
            "title": "Movie",
            "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
            "required": ["title"],
            "additionalProperties": False,
        },
    ),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
    ),
    (Positive, {"exclusiveMinimum": 0, "type": "integer"}),
    (Dog, Dog.model_json_schema()),
    (list[Cat], pydantic.TypeAdapter(list[Cat]).json_schema()),
    (Seeded, pydantic.TypeAdapter(Seeded).json_schema()),
    (Tree, pydantic.TypeAdapter(Tree).json_schema()),
]


@pytest.mark.parametrize(("declared", "expected"), SCHEMAS, ids=labels(SCHEMAS))
def test_a_declared_answer_has_a_schema(declared: Any, expected: object) -> None:
    assert codec.schema(declared) == expected


def test_what_nobody_could_answer_has_no_schema() -> None:
    class Handle:
        pass

    for declared in (Handle, list[Handle]):
        with pytest.raises(NotSerializable, match="cannot ask for"):
            codec.schema(declared)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(-2, 2)
    | st.sampled_from(["a", "red", "2030-01-02", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "size", "title", "year", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
SIMPLE = [declared for declared, expected in SCHEMAS if expected is not None and _is_simple(expected)] + [
    list[Part],
    dict[str, list[int | None]],
    Literal[1, True, "a"],
    date | None,
    list[Movie | str],
]


@pytest.mark.parametrize("declared", SIMPLE, ids=labels(SIMPLE))
@given(json_values)
def test_the_short_way_to_check_agrees_with_jsonschema(declared: Any, value: Any) -> None:
    schema = codec.schema(declared)
    assert schema is not None
    by_hand, by_library = _first_problem(value, schema), _jsonschema_problem(value, schema)
    assert (by_hand is None) == (by_library is None), (by_hand, by_library)


ANSWERABLE = [*SIMPLE, tuple[int, str], set[int], Dog, Positive, Tree, Cat | Dog]


@pytest.mark.parametrize("declared", ANSWERABLE, ids=labels(ANSWERABLE))
@given(json_values)
def test_what_the_schema_allows_the_type_takes(declared: Any, value: Any) -> None:
    """Another process checks an answer by its schema alone; the run must be able to use it."""
    try:
        codec.check_schema(value, codec.schema(declared))
    except AnswerRejected:
        return
    codec.validate_json(value, declared)


BAD_ANSWERS: list[tuple[object, Any, str]] = [
    ("maybe", bool, "answer: 'maybe' is not of type 'boolean'"),
    (1, bool, "answer: 1 is not of type 'boolean'"),
    (True, int, "answer: True is not of type 'integer'"),
    (3.0, int, "answer: 3.0 is not of type 'integer'"),
    (True, float, "answer: True is not of type 'number'"),
    ("c", Literal["a", "b"], "answer: 'c' is not one of ['a', 'b']"),
    (True, Literal[1], "answer: True is not of type 'integer'"),
    (["a", 1], list[str], "answer[1]: 1 is not of type 'string'"),
    ({"a": "x"}, dict[str, int], "answer.a: 'x' is not of type 'integer'"),
    ("x", int | None, "answer: 'x' is not valid under any of ['integer', 'null']"),
    ([None, ["x"]], list[list[int] | None], "answer[1][0]: 'x' is not of type 'integer'"),
    ("2030-13-01", date, "answer: '2030-13-01' is not a 'date'"),
    ("2030-01-01", datetime, "answer: '2030-01-01' is not a 'date-time'"),
    ({"size": 1}, Part, "answer: 'name' is a required property"),
    ({"name": "p", "x": 1}, Part, "answer: 'x' is not a property here; there are name, size"),
    ({"name": "p", "size": "1"}, Part, "answer.size: '1' is not of type 'integer'"),
    ([1, 1], set[int], "answer: [1, 1] has non-unique elements"),
    ([1], tuple[int, int], "answer: [1] is too short"),
    (0, Positive, "answer: 0 is less than or equal to the minimum of 0"),
    (True, Positive, "answer: True is not of type 'integer'"),
    ({"name": "d", "age": "x"}, Dog, "answer.age: 'x' is not of type 'integer'"),
    ({"name": "d", "born": "x"}, Dog, "answer.born: 'x' is not"),
    ({"value": 1, "children": [{"value": "x"}]}, Tree, "answer.children[0].value: 'x' is not of type"),
]


@pytest.mark.parametrize(("value", "declared", "says"), BAD_ANSWERS, ids=labels(BAD_ANSWERS))
def test_an_answer_that_does_not_fit_its_schema_is_rejected_with_the_reason(
    value: object, declared: Any, says: str
) -> None:
    with pytest.raises(AnswerRejected) as rejected:
        codec.check_schema(value, codec.schema(declared))
    assert str(rejected.value).startswith(says)
    assert str(rejected.value).isprintable()


@pytest.mark.parametrize("value", [None, False, 0, "", {}, []])
def test_every_json_value_is_an_answer_where_nothing_is_declared(value: object) -> None:
    codec.check_schema(value, None)
    codec.check_schema(value, {})
