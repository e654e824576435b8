"""Values come back from the store as they were, or are refused when they are saved.

Source: spec engine, 6 "Values".
"""

from __future__ import annotations

import collections
import contextlib
import json
import math
import subprocess
import sys
import threading
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from functools import cached_property
from inspect import Parameter
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, field_validator

from quiesce import codec
from quiesce.codec.tags import MAX_DEPTH, short
from quiesce.errors import NotSerializable, QuiesceError

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Access(Flag):
    READ = 1
    WRITE = 2


class Shape(Enum):
    POINT = (0, 0)
    ROUND = threading.Lock  # no JSON form: goes by its name
    NOTHING = None


@dataclass
class Item:
    name: str
    lock: object = None


@dataclass
class Survey:
    title: str
    items: list[Item] = field(default_factory=list)
    when: datetime | None = None
    anything: Any = None
    blob: bytes = b""


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


@dataclass
class Counted:
    """Not idempotent: running __post_init__ again would count again."""

    count: int
    doubled: int = field(init=False)
    seed: InitVar[int] = 0

    def __post_init__(self, seed: int) -> None:
        self.count += 1
        self.doubled = self.count * 2


@dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = field(default_factory=list)


@dataclass
class ItemBox(Box[Item]):
    label: str = ""


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)
    parent_name: str | None = None


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


@dataclass
class WithCache:
    base: int

    @cached_property
    def twice(self) -> int:
        return self.base * 2


class Place(NamedTuple):
    city: str
    point: Point = Point(0.0)


class Movie(TypedDict):
    title: str
    released: date
    rating: NotRequired[float]


class User(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    name: str
    age: int = 0
    tags: tuple[str, ...] = ()
    nested: list[User] = Field(default_factory=list)
    home: Path | None = None
    blob: bytes = b""
    score: float = 0.0
    free: Any = None
    alias_of: int = Field(default=0, alias="aliasOf")
    hidden: str = Field(default="", exclude=True)
    _seen: int = PrivateAttr(default=0)


class Hashed(BaseModel):
    """Its validator is not idempotent."""

    password: str

    @field_validator("password")
    @classmethod
    def _hash(cls, value: str) -> str:
        return f"hashed({value})"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    known: int


class Numbers(RootModel[list[int]]):
    pass


class Crate(BaseModel, Generic[T]):
    content: T


class Custom:
    """A class that pydantic can write only where a model says how."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and other.text == self.text

    __hash__ = None  # type: ignore[assignment]


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    custom: Custom

    @field_validator("custom", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        return Custom(value) if isinstance(value, str) else value

    @pydantic.field_serializer("custom")
    def _write(self, value: Custom) -> str:
        return value.text


@pydantic.dataclasses.dataclass
class Checked:
    size: int = Field(gt=0, default=1)
    name: str = "n"


MADE = make_dataclass("MADE", ["a"])
UserId = NewType("UserId", int)

NAIVE = datetime(2030, 1, 2, 3, 4, 5, 678)
EXOTIC = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.0,
    0.0,
    -0.0,
    1e300,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    math.copysign(math.nan, -1),
    2**64,
    -(2**2001),
    10**5000,
    "",
    "text",
    "käse 🧀",
    "\x00\n\x7f\u2028",
    "\ud83d",
    "\ud83d\ude00",  # two halves: not the same as the one character that they would make
    "~tuple",
    [],
    {},
    (),
    set(),
    frozenset(),
    [1, 1.0, True, "1", None],
    (1, (2, [3, {4}])),
    {3, 1, 2},
    {(1, 2), "a", 1.5, None},
    frozenset({"b", "a"}),
    b"",
    b"\xff\xfe\x00",
    bytearray(b"abc"),
    range(1, 10, 3),
    NAIVE,
    NAIVE.replace(fold=1),
    NAIVE.replace(tzinfo=UTC),
    NAIVE.replace(tzinfo=timezone(timedelta(hours=5, minutes=30))),
    NAIVE.replace(tzinfo=timezone(timedelta(hours=1), "CET")),
    NAIVE.replace(tzinfo=timezone(timedelta(seconds=1, microseconds=2)), fold=1),
    datetime(2030, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
    datetime(2030, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Paris")),
    date(2030, 1, 2),
    time(3, 4, 5, 6),
    time(3, 4, fold=1),
    time(3, 4, tzinfo=ZoneInfo("UTC")),
    time(3, 4, tzinfo=UTC),
    timedelta(days=-1, microseconds=1),
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("NaN"),
    Decimal("sNaN12"),
    Decimal("1E+1000"),
    UUID("12345678-1234-5678-1234-567812345678"),
    Path("a/b"),
    Path("/tmp/\udcff"),
    PurePosixPath("//a/../b"),
    PureWindowsPath("C:/a"),
    {"a": {"b": [1, {"c": None}]}},
    {1: "int", "1": "text", True is None: 3},
    {(1, 2): {3: 4}},
    {None: 1, 1.5: 2, b"k": 3},
    {"~tuple": [1]},
    {"~": 1},
    {"~dict": [[1, 2]]},
    {"~tuple": 1, "b": 2},
    {"\ud800": 1},
    {"z": 1, "a": 2},
    [{"~of": ["Dog", {}]}],
]


def labels(cases: Sequence[object]) -> list[str]:
    """Names that are the same in every process: no addresses, no order of a set."""
    return [f"{number}-{name_of(case)}" for number, case in enumerate(cases)]


def name_of(case: object) -> str:
    value = case[0] if isinstance(case, tuple) and case else case
    unsteady = isinstance(value, set | frozenset | dict) or " at 0x" in short(case, 200)
    return type(value).__name__ if unsteady else short(case, 40)


def same(one: Any, other: Any) -> bool:
    """Equal and of the same type in every part, in the same order, NaN and -0.0 and zones included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other) and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(same, one.items(), other.items()))
    if isinstance(one, set | frozenset):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, Decimal | datetime | time):
        return repr(one) == repr(other)
    return bool(one == other)


def assert_round_trips(value: object, declared: Any = None) -> None:
    data = codec.encode(value, declared)
    again = codec.decode(data, declared)
    assert same(value, again), (value, again)
    assert data == codec.encode(again, declared)
    json.dumps(codec.plain(data))


# --- where nothing is declared -------------------------------------------------------------------------


@pytest.mark.parametrize("value", EXOTIC, ids=labels(EXOTIC))
@pytest.mark.parametrize("declared", [None, Parameter.empty, Any, object], ids=str)
def test_a_builtin_comes_back_the_same_without_a_declared_type(value: object, declared: Any) -> None:
    assert_round_trips(value, declared)
    assert_round_trips([value, {"key": value}, (value,)], declared)


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=())),  # lone surrogates too
    st.sampled_from(["~tuple", "~dict", "~"]),
    st.binary(),
    st.datetimes(timezones=st.none() | st.just(UTC) | st.timezones()),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
    st.builds(PurePosixPath, st.text("ab/.", max_size=5)),
)
hashables = st.recursive(
    leaves.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan())),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(hashables, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("~set"), inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=3)
    ),
    max_leaves=20,
)


@given(values)
def test_every_value_of_builtins_comes_back_the_same(value: object) -> None:
    data = codec.encode(value)
    again = codec.decode(data)
    assert same(value, again)
    assert data == codec.encode(again)
    json.dumps(codec.plain(data))


@given(values)
def test_a_part_declared_as_any_comes_back_the_same(value: object) -> None:
    again = codec.decode(codec.encode(Survey("s", anything=value), Survey), Survey)
    assert same(value, again.anything)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_a_plain_value_is_plain_json(value: object) -> None:
    assert value == json.loads(codec.encode(value)) == codec.plain(codec.encode(value))


def test_equal_sets_have_equal_bytes() -> None:
    one, other = {f"k{i}" for i in range(100)}, {f"k{i}" for i in reversed(range(100))}
    assert codec.encode(one) == codec.encode(other)


def test_the_order_of_a_dict_is_kept() -> None:
    assert list(codec.decode(codec.encode({"b": 1, "a": 2}))) == ["b", "a"]
    assert codec.encode({"b": 1, "a": 2}) != codec.encode({"a": 2, "b": 1})


class Zone(tzinfo):
    pass


class MyList(list[int]):
    pass


class MyStr(str):
    pass


class MyError(Exception):
    pass


Pair = collections.namedtuple("Pair", "a b")

UNDECLARED_REFUSALS: list[tuple[object, str, str]] = [
    ({"items": [1, {"lock": threading.Lock()}]}, "value['items'][1]['lock']", "keep it outside the run"),
    (collections.defaultdict(list), "value", "would come back as a dict"),
    (collections.OrderedDict(), "value", "would come back as a dict"),
    (collections.Counter("aa"), "value", "would come back as a dict"),
    (collections.deque([1], maxlen=2), "value", "a deque cannot be stored"),
    ([MyList([1])], "value[0]", "a MyList would come back as a list"),
    ((1, MyStr("a")), "value[1]", "a MyStr would come back as a str"),
    ({MyStr("a"): 1}, "value['a']", "a MyStr would come back as a str"),
    ({frozenset({Color.RED})}, "value{frozenset({<Color.RED: 'red'>})}{<Color.RED: 'red'>}", "Color"),
    (Pair(1, 2), "value", "restored by its declared type"),
    (Level.LOW, "value", "annotate the parameter or the return value with Level"),
    (Color.RED, "value", "restored by its declared type"),
    ([Point(1.0)], "value[0]", "annotate the parameter or the return value with Point"),
    (User(name="n"), "value", "annotate the parameter or the return value with User"),
    (MyError("x"), "value", "keep its text"),
    ([print], "value[0]", "pass its name"),
    (Point, "value", "pass its name"),
    (1j, "value", "a complex cannot be stored"),
    (NAIVE.replace(tzinfo=Zone()), "value", "its time zone"),
    (iter([]), "value", "cannot be stored"),
    (object(), "value", "cannot be stored"),
]


@pytest.mark.parametrize(("value", "place", "says"), UNDECLARED_REFUSALS, ids=labels(UNDECLARED_REFUSALS))
def test_what_would_not_come_back_is_refused_with_its_place(value: object, place: str, says: str) -> None:
    with pytest.raises(NotSerializable) as refused:
        codec.encode(value)
    assert place == refused.value.place
    assert str(refused.value).startswith(f"{place} cannot be stored: ")
    assert says in str(refused.value)


def test_the_root_of_the_place_is_named_by_the_caller() -> None:
    with pytest.raises(NotSerializable) as refused:
        codec.encode([object()], place="output of survey")
    assert refused.value.place == "output of survey[0]"


def test_a_value_that_contains_itself_or_is_too_deep_is_refused() -> None:
    looped: list[object] = []
    looped.append(looped)
    mapping: dict[str, object] = {}
    mapping["self"] = mapping
    tree = Tree(1)
    tree.children.append(tree)
    deep: object = 1
    for _ in range(MAX_DEPTH + 1):
        deep = (deep,)
    for value, declared in [(looped, None), (mapping, dict[str, Any]), (tree, Tree), (deep, None)]:
        with pytest.raises(NotSerializable, match="nested deeper than"):
            codec.encode(value, declared)


def test_what_is_nested_as_deep_as_allowed_is_also_loaded() -> None:
    deep: object = 1
    for level in range(MAX_DEPTH):
        deep = {level: deep}  # pairs: the most JSON and the most frames for a level
    assert deep == codec.decode(codec.encode(deep))
    tree = Tree(0)
    for level in range((MAX_DEPTH - 2) // 2):
        tree = Tree(level, [tree])
    assert tree == codec.decode(codec.encode(tree, Tree), Tree)


# --- where a type is declared --------------------------------------------------------------------------


def _seen(user: User) -> User:
    user._seen = 7
    return user


def _cached(value: WithCache) -> WithCache:
    assert value.twice
    return value


SURVEY = Survey("t", [Item("a", (1, {2}))], NAIVE, {"x": (1, math.inf)}, b"\xff")
USER = User(
    name="n", tags=("a",), nested=[User(name="m")], home=Path("x"), blob=b"\xff", free={1: (2,)}, hidden="h"
)

DECLARED: list[tuple[object, Any]] = [
    (1, int),
    (True, int),  # a bool is an int in Python, and comes back as the bool that it is
    (1, float),
    (1.0, float),
    (math.nan, float),
    ("\ud800", str),
    (None, type(None)),
    (10**5000, int),
    ([1, 2], list[int]),
    ([1, (2,)], list),
    ([], typing.List[int]),  # noqa: UP006
    ((1, "a"), tuple[int, str]),
    ((1, 2, 3), tuple[int, ...]),
    ((), tuple[()]),
    ((1, "a"), tuple),
    ({1, 2}, set[int]),
    (frozenset({Color.RED, Color.BLUE}), frozenset[Color]),
    ({1: Point(1.0)}, dict[int, Point]),
    ({Color.RED: 1}, dict[Color, int]),
    ({Point(1.0): 1}, dict[Point, int]),
    ({Word.YES: 1}, dict[Word, int]),
    ({"a": (1,)}, dict[str, Any]),
    ({"~tuple": 1}, dict[str, int]),
    ([1], Sequence[int]),
    ((1,), Sequence[int]),
    ({"a": 1}, Mapping[str, int]),
    (frozenset({1}), AbstractSet[int]),
    (NAIVE, datetime),
    (NAIVE, date),
    (b"\xff\x00", bytes),
    (Path("a"), Path),
    (Path("a"), PurePath),
    (PureWindowsPath("a"), PurePath),
    (Decimal("1.10"), Decimal),
    (Color.RED, Color),
    (Level.LOW, Level),
    (Word.YES, Word),
    (Access.READ | Access.WRITE, Access),
    (Access(0), Access),
    (Shape.POINT, Shape),
    (Shape.ROUND, Shape),
    (Shape.NOTHING, Shape),
    (Shape.NOTHING, Optional[Shape]),  # noqa: UP045
    (None, Optional[Shape]),  # noqa: UP045
    ("a", Literal["a", 1]),
    (1, Literal["a", 1, True]),
    (True, Literal["a", 1, True]),
    (Color.RED, Literal[Color.RED, "red"]),
    ("red", Literal[Color.RED, "red"]),
    ("a", Literal["a"] | None),
    (None, Literal["a"] | None),
    (None, int | None),
    (3, int | str),
    ("3", Union[int, str]),  # noqa: UP007
    (Path("3"), str | Path),
    ("3", str | Path),
    (Color.RED, Color | str),
    ("red", Color | str),
    ([1], list[int] | list[str]),
    (["1"], list[int] | list[str]),
    ((1,), list[int] | tuple[int, ...] | None),
    (Cat("n"), Cat | Dog),
    (Dog("n"), Cat | Dog),
    ([Cat("n"), Dog("n"), None], list[Cat | Dog | None]),
    ({"x": Dog("n")}, dict[str, Cat | Dog | str]),
    (Dog("n"), Dog | Any),
    ((1, 2), Dog | Any),
    (UserId(3), UserId),
    (3, UserId | Dog),
    (3, Annotated[int, "a comment"]),
    (3, Annotated[int, Field(gt=0)]),
    (3, Annotated[int, Field(gt=0)] | str),
    (SURVEY, Survey),
    ([SURVEY], list[Survey]),
    (Survey("t"), Survey | None),
    (Point(-0.0, math.inf), Point),
    (Counted(1), Counted),
    (Box(Item("a"), [Item("b")]), Box[Item]),
    (Box((1, 2)), Box),
    (Box[int](3), Box[int]),
    (MADE((1, 2)), MADE),
    (Box(Box(1)), Box[Box[int]]),
    (ItemBox(Item("a"), [Item("b")]), ItemBox),
    (Tree(1, [Tree(2), Tree(3, [Tree(4)])]), Tree),
    (_cached(WithCache(2)), WithCache),
    (Place("c", Point(1.0)), Place),
    (Pair(1, (2,)), Pair),
    ({"title": "t", "released": date(2030, 1, 1)}, Movie),
    ({"rating": 1.0, "title": "t", "released": date(2030, 1, 1)}, Movie),
    ({"title": "t", "released": date(2030, 1, 1), "further": (1,)}, Movie),
    (USER, User),
    ([USER, User(name="x")], list[User]),
    (_seen(User(name="x")), User),
    (Hashed(password="p"), Hashed),
    (Open(known=1, further=(1, 2)), Open),  # type: ignore[call-arg]
    (Numbers([1, 2]), Numbers),
    (Crate[Point](content=Point(1.0)), Crate[Point]),
    (Holder(custom=Custom("c")), Holder),
    ([Holder(custom=Custom("c"))], list[Holder]),
    (Checked(size=3), Checked),
    (collections.deque([1, 2]), collections.deque[int]),
    (collections.OrderedDict(a=1), collections.OrderedDict[str, int]),
    (collections.Counter("aab"), collections.Counter[str]),
    (pydantic.AnyUrl("https://example.org/a"), pydantic.AnyUrl),
]


@pytest.mark.parametrize(("value", "declared"), DECLARED, ids=labels(DECLARED))
def test_a_value_comes_back_the_same_by_its_declared_type(value: object, declared: Any) -> None:
    assert_round_trips(value, declared)
    assert_round_trips([value], list[declared])
    assert_round_trips((value, None), tuple[Optional[declared], None])  # noqa: UP045
    assert_round_trips({"k": value}, dict[str, declared])


@pytest.mark.parametrize("value", EXOTIC, ids=labels(EXOTIC))
def test_a_builtin_is_written_the_same_whether_it_is_declared_or_not(value: object) -> None:
    if not isinstance(value, PurePath | type(None)):
        assert codec.encode(value) == codec.encode(value, type(value))
    assert same(value, codec.decode(codec.encode(value), type(value)))


def test_what_a_model_keeps_beside_its_fields_comes_back() -> None:
    value = _seen(User(name="n", age=0))
    again = codec.decode(codec.encode(value, User), User)
    assert again._seen == 7
    assert {"name", "age"} == again.model_fields_set
    assert value == again


def test_reading_runs_no_code_of_the_class() -> None:
    value = Counted(1)
    assert (value.count, value.doubled) == (2, 4)
    again = codec.decode(codec.encode(value, Counted), Counted)
    assert (again.count, again.doubled) == (2, 4)
    assert codec.decode(codec.encode(Hashed(password="p"), Hashed), Hashed).password == "hashed(p)"


class Loud(Point):
    pass


@dataclass
class Keeper:
    path: str

    def __post_init__(self) -> None:
        self.handle = threading.Lock()


class SlottedKeeper:
    __slots__ = ("secret",)


@dataclass(slots=True)
class Slotted(SlottedKeeper):
    path: str

    def __post_init__(self) -> None:
        self.secret = 1


@dataclass
class Failure(Exception):
    code: int


@dataclass
class Unresolved:
    part: Nowhere  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Unset:
    later: int = field(init=False)


class Mutable(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    lock: Any
    _client: Any = PrivateAttr(default=None)


def _with_client() -> Mutable:
    made = Mutable(lock=1)
    made._client = threading.Lock()
    return made


class Vault(BaseModel):
    secret: SecretStr


class Admin(User):
    pass


DECLARED_REFUSALS: list[tuple[object, Any, str, str]] = [
    ("3", int, "value", "expected int, got '3' (str)"),
    (3.0, int, "value", "expected int"),
    (Level.LOW, int, "value", "expected int"),
    (Word.YES, str, "value", "expected str"),
    (b"", str, "value", "expected str"),
    ([1, "2"], list[int], "value[1]", "expected int"),
    ((1,), list[int], "value", "expected list[int]"),
    (MyList([1]), list[int], "value", "(MyList)"),
    ((1, 2), tuple[int], "value", "expected tuple[int]"),
    ((1, "2"), tuple[int, int], "value[1]", "expected int"),
    ({"a": {1: "x"}}, dict[str, dict[int, int]], "value['a'][1]", "expected int"),
    ({1: 1}, dict[str, int], "value[1]", "expected str"),
    (collections.defaultdict(int), dict[str, int], "value", "(defaultdict)"),
    (
        collections.defaultdict(lambda: 3, a=1),
        collections.defaultdict[str, int],
        "value",
        "would not come back the same",
    ),
    (collections.deque([1], maxlen=2), collections.deque[int], "value", "would not come back the same"),
    ("abc", Sequence[str], "value", "expected Sequence[str]"),
    ("c", Literal["a", "b"], "value", "expected Literal['a', 'b']"),
    (True, Literal[1], "value", "expected Literal[1]"),
    ("red", Color, "value", "expected Color"),
    (3.5, int | str, "value", "expected int | str"),
    ([1, Dog("x")], list[int | Cat], "value[1]", "expected int | Cat"),
    (Survey("t", [Item("a", threading.Lock())]), Survey, "value.items[0].lock", "keep it outside the run"),
    (Survey("t", [Item(3)]), Survey, "value.items[0].name", "expected str, got 3 (int)"),  # type: ignore[arg-type]
    (Survey("t", anything=[Point(1.0)]), Survey, "value.anything[0]", "none is declared here"),
    (Survey("t", items=[Item("a", threading.Lock())]), Survey | Cat | None, "value.items[0].lock", "lock"),
    (Loud(1.0), Point, "value", "declare Loud"),
    ({"title": "t"}, Movie, "value", "expected Movie"),
    ({"title": "t", "released": "x"}, Movie, "value['released']", "expected date"),
    ({"name": "t"}, Cat, "value", "expected Cat"),
    (Keeper("p"), Keeper, "value.handle", "outside its declared fields"),
    (Slotted("p"), Slotted, "value.secret", "outside its declared fields"),
    (Failure(3), Failure, "value", "Failure is a Exception too"),
    (Unresolved(1), Unresolved, "value", "cannot be resolved"),
    (Unset(), Unset, "value", "Unset.later is not set"),
    (Mutable(lock=threading.Lock()), Mutable, "value.lock", "keep it outside the run"),
    (_with_client(), Mutable, "value._client", "keep it outside the run"),
    (Vault(secret=SecretStr("x")), Vault, "value.secret", "would not come back the same"),
    (Admin(name="n"), User, "value", "declare Admin"),
    (User.model_construct(name=3), User, "value.name", "expected str"),
    (User(name="n", free=Point(1.0)), User, "value.free", "none is declared here"),
    (MyError("x"), MyError, "value", "has no stored form"),
    (threading.Lock(), Iterator[int], "value", "cannot"),
    (print, Callable[[], None], "value", "Callable"),
    (object(), MADE, "value", "expected MADE"),
    (Place("c", 3), Place, "value.point", "expected Point"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("value", "declared", "place", "says"), DECLARED_REFUSALS, ids=labels(DECLARED_REFUSALS)
)
def test_what_does_not_fit_its_declared_type_is_refused_with_its_place(
    value: object, declared: Any, place: str, says: str
) -> None:
    with pytest.raises(NotSerializable) as refused:
        codec.encode(value, declared)
    assert place == refused.value.place
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


PIECES: list[Any] = [
    *(None, 1, "x", [], {}, True, {"x": 1}, [[]]),
    *(
        {tag: part}
        for tag in ("~of", "~model", "~json", "~name", "~dict", "~tuple", "~x")
        for part in (1, [1], {})
    ),
    {"~model": {"fields": {}}},
    {"~of": ["Dog", {"name": "n"}]},
]
EVERY_TYPE = [declared for _, declared in DECLARED] + [declared for _, declared, _, _ in DECLARED_REFUSALS]
EVERY_VALUE = [
    *EXOTIC,
    *(value for value, _ in DECLARED),
    *(value for value, _, _ in UNDECLARED_REFUSALS),
    *(value for value, _, _, _ in DECLARED_REFUSALS),
]


@pytest.mark.parametrize("declared", EVERY_TYPE, ids=labels(EVERY_TYPE))
def test_what_is_saved_under_any_type_comes_back_the_same(declared: Any) -> None:
    for value in EVERY_VALUE:
        try:
            codec.encode(value, declared)
        except NotSerializable:
            continue
        assert_round_trips(value, declared)


@given(st.data())
def test_stored_json_that_was_changed_is_read_or_refused_and_never_worse(data: st.DataObject) -> None:
    value, written_as = data.draw(st.sampled_from(DECLARED))
    other = data.draw(st.sampled_from([None, written_as, *EVERY_TYPE]))

    def change(part: Any) -> Any:
        if data.draw(st.integers(0, 9)) == 0:
            return data.draw(st.sampled_from(PIECES))
        if isinstance(part, list):
            return [change(each) for each in part]
        if isinstance(part, dict):
            return {key: change(each) for key, each in part.items()}
        return part

    changed = json.dumps(change(json.loads(codec.encode(value, written_as)))).encode()
    for read in (lambda: codec.decode(changed, other), lambda: codec.plain(changed)):
        with contextlib.suppress(NotSerializable):
            read()


# --- reading what was written by other code ------------------------------------------------------------


@dataclass
class Old:
    name: str


@dataclass
class Grown:
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list)


@dataclass
class Strict:
    name: str
    size: int


@dataclass
class Shrunk:
    pass


class Retyped(TypedDict):
    name: int


class GrownModel(BaseModel):
    name: str
    size: int = 3
    parts: list[int] = Field(default_factory=list)


def test_a_field_that_was_added_with_a_default_has_it() -> None:
    data = codec.encode(Old("n"), Old)
    assert Grown("n", 3, []) == codec.decode(data, Grown)
    made = codec.decode(data, GrownModel)
    assert GrownModel(name="n") == made
    assert made.model_dump() == {"name": "n", "size": 3, "parts": []}


MISFITS: list[tuple[Any, str]] = [
    (Strict, "now has size"),
    (Shrunk, "has no name any more"),
    (Retyped, "value['name']"),
    (int, "expected int"),
    (list[int], "is stored there"),
    (tuple[int, ...], "is stored there"),
    (dict[str, int], "value['name']"),
    (Color, "expected Color"),
    (Literal["a"], "expected Literal['a']"),
    (Level | Strict | None, "expected"),
    (Place, "Place"),
    (bytes, "expected bytes"),
    (pydantic.AnyUrl, "AnyUrl"),
    (MyError, "has no stored form"),
]


@pytest.mark.parametrize(("declared", "says"), MISFITS, ids=labels(MISFITS))
def test_what_does_not_fit_the_type_as_it_is_now_is_an_error(declared: Any, says: str) -> None:
    with pytest.raises(QuiesceError) as refused:
        codec.decode(codec.encode(Old("n"), Old), declared)
    assert isinstance(refused.value, NotSerializable)
    assert says in str(refused.value)
    assert codec.type_name(declared) in str(refused.value)


def test_an_enum_member_that_is_gone_is_an_error() -> None:
    with pytest.raises(NotSerializable, match="expected Color, but 'green' is stored there"):
        codec.decode(b'"green"', Color)


def test_a_type_that_became_a_union_still_reads_what_was_written() -> None:
    assert Old("n") == codec.decode(codec.encode(Old("n"), Old), Old | int | None)
    assert codec.decode(codec.encode(Color.RED, Color), Color | None) == Color.RED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b'{"~unknown":1}',
        b'{"~os.system":"true"}',
        b'{"~tuple":1}',
        b'{"~set":[[]]}',
        b'{"~dict":[1]}',
        b'{"~datetime":"x"}',
        b'{"~Decimal":"x"}',
        b'{"~bytes":"*"}',
        b'{"~of":["Dog",1]}',
        b"[" * 5000 + b"]" * 5000,
    ],
)
def test_bytes_that_nobody_wrote_are_an_error_and_nothing_is_imported(data: bytes) -> None:
    with pytest.raises(NotSerializable):
        codec.decode(data)
    for declared in (Survey, User, Dog | Cat, Movie, tuple[int, int], dict[int, int], Color | int, datetime):
        with pytest.raises(NotSerializable):
            codec.decode(data, declared)


def test_a_place_names_the_part_that_does_not_fit() -> None:
    data = codec.encode({"title": "t", "items": [{"name": 3}]})
    with pytest.raises(NotSerializable) as refused:
        codec.decode(data, Survey, place="input of a")
    assert refused.value.place == "input of a.items[0].name"
    assert (
        str(refused.value)
        == "input of a.items[0].name cannot be read as Survey: expected str, but 3 is stored there"
    )


# --- for readers without the types ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        ((1, {2}), None, [1, [2]]),
        ({1: "a", (2, 3): "b"}, None, {"1": "a", "[2, 3]": "b"}),
        ({1: "a", "1": "b"}, None, [(1, "a"), ("1", "b")]),
        (NAIVE.replace(tzinfo=ZoneInfo("Europe/Paris")), None, "2030-01-02T03:04:05.000678+01:00"),
        (Decimal("1.10"), None, "1.10"),
        (Path("a/b"), None, "a/b"),
        (math.inf, None, "inf"),
        (b"\xff", None, "/w=="),
        (timedelta(days=1), None, "1 day, 0:00:00"),
        (Dog("n"), Dog | Cat, {"name": "n"}),
        (Open(known=1, more=2), Open, {"known": 1, "more": 2}),  # type: ignore[call-arg]
        (Shape.ROUND, Shape, "ROUND"),
        (Holder(custom=Custom("c")), Holder, {"custom": "c"}),
    ],
)
def test_stored_bytes_are_plain_json_for_a_reader_without_the_types(
    value: object, declared: Any, expected: object
) -> None:
    assert expected == codec.plain(codec.encode(value, declared))


def test_a_digest_is_32_characters_and_tells_values_apart() -> None:
    one, other = codec.digest(codec.encode(1)), codec.digest(codec.encode(1.0))
    assert one != other
    assert len(one) == 32
    assert one == codec.digest(codec.encode(1))


# --- what is imported -------------------------------------------------------------------------------------


def test_plain_values_import_neither_pydantic_nor_jsonschema() -> None:
    program = """
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict
from quiesce import codec

@dataclass
class Survey:
    title: str
    parts: list[int]

class Keys(TypedDict):
    a: int

for value, declared in [
    ({"a": [1, 2.5, None, True, "x"]}, None), ((1, {2}), Any), (datetime(2030, 1, 1), None),
    (True, bool), (1, int), (1.5, float), ("x", str), (None, type(None)), ([1], list[int]),
    ({"a": [1]}, dict[str, list[int]]), ((1, "a"), tuple[int, str]), ({1}, set[int]), (b"x", bytes),
    (Path("a"), Path), (datetime(2030, 1, 1), datetime), ("a", Literal["a"]), (1, int | None),
    (Survey("t", [1]), Survey), ({"a": 1}, Keys),
]:
    assert codec.decode(codec.encode(value, declared), declared) == value
    codec.plain(codec.encode(value, declared))
    assert codec.validate(value, declared) == value
    assert codec.validate_json(value, declared) == value
    schema = codec.schema(declared)
    if not isinstance(value, (tuple, set, bytes, Path, datetime, Survey)):
        codec.check_schema(value, schema)
    codec.type_name(declared)
    codec.fits(declared, declared)
codec.check_schema({"title": "t", "parts": [1]}, codec.schema(Survey))
codec.validate_json({"title": "t", "parts": [1]}, Survey)
codec.coerce_text("3", int)
print([name for name in ("pydantic", "jsonschema", "sqlite3") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(Path(codec.__file__).parents[2])},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
