"""What annotations are called, and which values can flow from one to the other.

Source: spec graph, "Python": what certainly cannot fit is an error when the graph is built.
"""

from __future__ import annotations

import subprocess
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import pytest
from pydantic import BaseModel, Field

from quiesce import codec

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
UserId = NewType("UserId", int)


class Color(Enum):
    RED = "red"


@dataclass
class Animal:
    name: str


@dataclass
class Dog(Animal):
    pass


@dataclass
class Box(Generic[T]):
    content: T


class IntBox(Box[int]):
    pass


class Model(BaseModel):
    pass


class Crate(BaseModel, Generic[T]):
    content: T


class Movie(TypedDict):
    title: str


class Named(Protocol):
    name: str


class Outer:
    class Inner:
        pass


def local() -> type:
    class Local:
        pass

    return Local


NAMES: list[tuple[Any, str]] = [
    (int, "int"),
    (None, "None"),
    (type(None), "None"),
    (Any, "Any"),
    (Parameter.empty, "Any"),
    (list, "list"),
    (list[int], "list[int]"),
    (typing.List[int], "list[int]"),  # noqa: UP006
    (dict[str, list[Animal]], "dict[str, list[Animal]]"),
    (tuple[int, ...], "tuple[int, ...]"),
    (Optional[int], "int | None"),  # noqa: UP045
    (Union[int, str], "int | str"),  # noqa: UP007
    (int | None, "int | None"),
    (Literal["a", 1, None, Color.RED], "Literal['a', 1, None, Color.RED]"),
    (Annotated[int, Field(gt=0)], "int"),
    (list[Annotated[int, object()]], "list[int]"),
    (Callable[[int, str], bool], "Callable[[int, str], bool]"),
    (Callable[..., None], "Callable[..., None]"),
    (Sequence[int], "Sequence[int]"),
    (typing.Iterable[int], "Iterable[int]"),
    (type[Animal], "type[Animal]"),
    (T, "T"),
    (UserId, "UserId"),
    (Box[int], "Box[int]"),
    (Crate[int], "Crate[int]"),
    (Color, "Color"),
    (Movie, "Movie"),
    (Outer.Inner, "Outer.Inner"),
    (local(), "Local"),
    ("Survey", "Survey"),
    (typing.ForwardRef("Survey"), "Survey"),
    (datetime, "datetime"),
    (Path, "Path"),
]


@pytest.mark.parametrize(("declared", "name"), NAMES, ids=[str(number) for number in range(len(NAMES))])
def test_an_annotation_has_a_readable_name(declared: Any, name: str) -> None:
    assert codec.type_name(declared) == name


def test_the_name_of_a_type_is_the_same_in_main_and_imported(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from quiesce.codec import type_name\n"
        "class Survey: pass\n"
        "if __name__ == '__main__':\n"
        "    import program\n"
        "    print(type_name(dict[str, Survey | None]), type_name(dict[str, program.Survey | None]))\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": str(Path(codec.__file__).parents[2])},
    )
    assert done.stdout == "dict[str, Survey | None] dict[str, Survey | None]\n"


FITTING: list[tuple[Any, Any]] = [
    (int, int),
    (None, int),
    (int, Parameter.empty),
    (Any, int),
    (int, object),
    (object, int),
    ("Survey", int),
    (bool, int),
    (int, float),
    (int, complex),
    (Dog, Animal),
    (Animal, Dog),
    (datetime, date),
    (int | str, str),
    (str, int | str),
    (int | None, str | None),
    (Optional[Dog], Animal),  # noqa: UP045
    (Literal["a", 1], int),
    (Literal["a"], Literal["a", "b"]),
    (str, Literal["a"]),
    (Literal[Color.RED], Color),
    (Color, Literal[Color.RED]),
    (T, int),
    (int, T),
    (list[T], list[int]),
    (UserId, int),
    (int, UserId),
    (Annotated[int, "x"], int),
    (list, list[int]),
    (list[int], list),
    (list[int], list[float]),
    (list[int], Sequence[int]),
    (list[Dog], Iterable[Animal]),
    (dict[str, int], Mapping[str, int]),
    (dict[str, int], Iterable[str]),
    (tuple[int, str], tuple[int, str]),
    (tuple[int, ...], tuple[int, int]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, int], Sequence[int]),
    (Box[int], Box[int]),
    (Box[int], Box),
    (IntBox, Box[int]),
    (IntBox, Box[str]),  # not certain: the base's arguments are not looked up
    (Movie, dict[str, Any]),
    (dict[str, Any], Movie),
    (Movie, Mapping[str, object]),
    (Animal, Named),
    (Crate[int], Crate[int]),
    (type(None), type(None)),
    (Callable[[], int], Callable[[], str]),
    (type[Animal], type[Animal]),
]

MISFITS: list[tuple[Any, Any]] = [
    (str, int),
    (int, str),
    (int, bool),
    (float, int),
    (type(None), int),
    (int, type(None)),
    (Animal, Model),
    (int | str, list[int] | bytes),
    (Literal["a"], int),
    (Literal["a"], Literal["b"]),
    (Literal[1], Literal[True]),
    (int, Literal["a"]),
    (list[int], list[str]),
    (list[int], tuple[int, ...]),
    (list[int], Sequence[str]),
    (dict[str, int], dict[int, int]),
    (dict[str, int], dict[str, str]),
    (tuple[int, int], tuple[int]),
    (tuple[int, str], tuple[int, int]),
    (tuple[int, str], Sequence[int]),
    (tuple[int, ...], tuple[str, str]),
    (Box[int], Box[str]),
    (UserId, str),
    (Annotated[int, "x"], str),
    (list[list[int]], list[list[str]]),
    (Movie, list[str]),
    (Animal, Movie),
    (str, Path),
    (Color, str),
]


@pytest.mark.parametrize(("produced", "accepted"), FITTING, ids=[str(n) for n in range(len(FITTING))])
def test_what_may_fit_is_allowed(produced: Any, accepted: Any) -> None:
    assert codec.fits(produced, accepted)


@pytest.mark.parametrize(("produced", "accepted"), MISFITS, ids=[str(n) for n in range(len(MISFITS))])
def test_what_certainly_cannot_fit_is_found(produced: Any, accepted: Any) -> None:
    assert not codec.fits(produced, accepted)
