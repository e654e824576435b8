"""Is a person asked for a value until it fits the schema, field by field?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from flowctl import prompts
from quiesce import codec


def fill_in(schema: dict[str, Any] | None, lines: Iterable[str]) -> tuple[Any, list[str]]:
    """What comes of typing these lines, and what was shown."""
    form = prompts.ask(schema)
    shown = [next(form)]
    try:
        for line in lines:
            shown.append(form.send(line))
    except StopIteration as done:
        return done.value, shown
    raise AssertionError(f"it still asks: {shown[-1]!r}")


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Note:
    count: int
    text: str = "none"


@dataclass
class Verdict:
    ok: bool
    level: Level
    note: Note
    comment: str | None = None


class Address(BaseModel):
    street: str
    number: Annotated[int, Field(ge=1)]


class Person(BaseModel):
    name: str
    addresses: Annotated[list[Address], Field(min_length=1, max_length=2)]


@pytest.mark.parametrize(
    ("declared", "lines", "value"),
    [
        (bool, ["y"], True),
        (bool, ["no"], False),
        (int, ["3"], 3),
        (float, ["2.5"], 2.5),
        (float, ["2"], 2),
        (str, ["three"], "three"),
        (str, [""], ""),
        (str, ['"quoted"'], '"quoted"'),
        (None.__class__, [""], None),
        (Level, ["high"], "high"),
        (Level, ["1"], "low"),
        (Literal["a", 2], ["2"], 2),
        (int | None, ["n"], None),
        (int | None, ["y", "4"], 4),
        (int | str, ["1", "7"], 7),
        (int | str, ["2", "7"], "7"),
        (list[int], ["n"], []),
        (list[int], ["y", "1", "y", "2", ""], [1, 2]),
        (tuple[int, str], ["1", "x"], [1, "x"]),
        (dict[str, int], ["a", "1", "b", "2", ""], {"a": 1, "b": 2}),
        (
            Verdict,
            ["y", "low", "5", "", "n"],
            {"ok": True, "level": "low", "note": {"count": 5, "text": "none"}, "comment": None},
        ),
        (
            Person,
            ["Ann", "High St", "3", "n"],
            {"name": "Ann", "addresses": [{"street": "High St", "number": 3}]},
        ),
    ],
)
def test_a_form_makes_a_value_that_fits(declared: Any, lines: list[str], value: Any) -> None:
    """Source: spec engine, 7: a form from their schema."""
    schema = codec.schema(declared)
    made, _ = fill_in(schema, lines)
    assert (made, type(made)) == (value, type(value))
    codec.check_schema(made, schema)


@pytest.mark.parametrize(
    ("declared", "wrong", "reason"),
    [
        (bool, "maybe", "y or n"),
        (int, "three", "whole number"),
        (int, "3.5", "integer"),
        (int, "true", "integer"),
        (float, "much", "number"),
        (Level, "medium", "none of them"),
        (Annotated[int, Field(ge=10)], "3", "10"),
        (Annotated[str, Field(min_length=3)], "ab", "ab"),
    ],
)
def test_what_does_not_fit_is_asked_again_with_the_reason(declared: Any, wrong: str, reason: str) -> None:
    """Source: spec engine, 4: the validator's message; nothing changed."""
    form = prompts.ask(codec.schema(declared))
    next(form)
    again = form.send(wrong)
    assert reason in again


def test_the_reason_names_the_field() -> None:
    """Source: spec engine, 4: the validator's message, and where."""
    _, shown = fill_in(codec.schema(Person), ["Ann", "High St", "0", "3", "n"])
    assert "answer.addresses[1].number: 0 is less than the minimum of 1" in shown[3]


APPROVAL = {
    "type": "object",
    "properties": {"approve": {"const": True}, "arguments": {"type": "object"}},
    "required": ["approve"],
    "additionalProperties": False,
}


def test_only_an_explicit_yes_approves() -> None:
    """Source: cases failures-agent-frameworks 23: nobody approves by pressing Enter through a form."""
    assert fill_in(APPROVAL, ["", "perhaps", "y", ""])[0] == {"approve": True}
    form = prompts.ask(APPROVAL)
    assert next(form) == "answer.approve (y/n): "
    with pytest.raises(prompts.Declined):
        form.send("n")


def test_without_a_schema_any_json_will_do_and_text_needs_quotes() -> None:
    form = prompts.ask(None)
    assert "JSON" in next(form)
    assert "double quotes" in form.send("hello")
    with pytest.raises(StopIteration) as done:
        form.send('{"a": [1, null]}')
    assert done.value.value == {"a": [1, None]}


def test_a_field_is_asked_by_its_place() -> None:
    _, shown = fill_in(codec.schema(Verdict), ["y", "low", "5", "", "n"])
    places = [line.splitlines()[0] for line in shown]
    assert places[0].startswith("answer.ok (y/n)")
    assert places[2].startswith("answer.note.count")
    assert places[3].startswith("answer.note.text [none]")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/loop", "$defs": {"loop": {"$ref": "#/$defs/loop"}}},
        {"$ref": "https://example.invalid/schema"},
        {"type": "object"},
        {"not": {"type": "string"}},
    ],
)
def test_a_schema_that_no_form_fits_is_asked_as_json(schema: dict[str, Any]) -> None:
    """Nothing is fetched, nothing loops."""
    assert "JSON" in next(prompts.ask(schema))


@pytest.mark.parametrize(
    ("declared", "outline"),
    [
        (None, "any JSON value"),
        (bool, "boolean"),
        (Level, '"low" or "high"'),
        (list[int], "[integer, …]"),
        (tuple[int, str], "[integer, string]"),
        (int | None, "integer or null"),
        (
            Verdict,
            '{ok: boolean, level: "low" or "high", note: {count: integer, text?: string}, '
            "comment?: string or null}",
        ),
    ],
)
def test_a_schema_is_told_in_a_line(declared: Any, outline: str) -> None:
    assert prompts.outline(codec.schema(declared)) == outline


@pytest.mark.parametrize(
    "declared", [None, bool, int, float, Level, Verdict, Person, list[int], tuple[int, bool]]
)
def test_the_example_fits_the_schema(declared: Any) -> None:
    """Whoever pastes the shown command gets an answer of the right kind."""
    schema = codec.schema(declared)
    codec.check_schema(json.loads(prompts.example(schema)), schema)


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "boolean"}, {"type": "integer"}, {"type": "string"}, {"enum": ["a", "b"]}]),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, st.just({"type": "null"}))
        | st.builds(
            lambda some: {
                "type": "object",
                "properties": some,
                "required": list(some)[:1],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=6,
)
LINES = st.lists(st.sampled_from(["y", "n", "1", "2", "a", "b", "", "true"]), min_size=200, max_size=200)


@given(SCHEMAS, LINES)
def test_whatever_is_typed_a_form_only_ever_ends_with_a_value_that_fits(
    schema: dict[str, Any], lines: list[str]
) -> None:
    form = prompts.ask(schema)
    next(form)
    try:
        for line in lines:
            assert isinstance(form.send(line), str)
    except StopIteration as done:
        codec.check_schema(done.value, schema)
