"""What must an answer look like, as a JSON schema, and does a JSON value look like that?

A hold tells others what it expects by its schema; a process that cannot import the type checks an answer
against it. The schemas of builtins, enums, TypedDicts and dataclasses are written and checked here;
pydantic and jsonschema are imported for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, get_args

from quiesce.codec.annotations import is_undeclared, resolve, type_name, union_members
from quiesce.codec.containers import Choice, FixedTuple, Items, Pairs
from quiesce.codec.foreign import Constrained, Foreign
from quiesce.codec.leaves import Member, OneOf, Scalar, Tagged, Undeclared
from quiesce.codec.plan import plan_for
from quiesce.codec.records import Keys, Record
from quiesce.codec.refusal import Refused, one_line, short
from quiesce.errors import AnswerRejected, NotSerializable

__all__ = ["check_schema", "schema"]


class _NotByHand(Exception):
    """A type whose schema is pydantic's to write."""


_FORMATS = {
    "datetime": "date-time",
    "date": "date",
    "time": "time",
    "timedelta": "duration",
    "UUID": "uuid",
    "bytes": "binary",
    "Path": "path",
    "PurePath": "path",
    "PosixPath": "path",
    "PurePosixPath": "path",
    "WindowsPath": "path",
    "PureWindowsPath": "path",
}

_SCALAR_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


def schema(declared: Any) -> dict[str, Any] | None:
    """The JSON schema of a declared answer; None when nothing is declared.

    Raises:
        NotSerializable: the type has no JSON form, so nobody could answer.
    """
    if is_undeclared(declared):
        return None
    if isinstance(declared, int | float | bytes | list | tuple | dict | set):
        raise NotSerializable(
            f"cannot ask for {declared!r}, which is no type; give one, as bool, a model, or Literal[...] "
            "of the choices"
        )
    try:
        return _by_hand(declared, ())
    except _NotByHand:
        pass
    except Refused as refused:
        raise NotSerializable(f"cannot ask for {type_name(declared)}: {refused.why}") from None
    try:
        made: dict[str, Any] = Foreign(declared).adapter.json_schema()
    except Exception as error:
        reason = error.why if isinstance(error, Refused) else str(error).partition("\n")[0]
        raise NotSerializable(f"cannot ask for {type_name(declared)}: {reason}") from None
    return made


def _by_hand(declared: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    plan = plan_for(declared)
    if isinstance(plan, Undeclared):
        return {}
    if isinstance(plan, Scalar):
        return {"type": _SCALAR_TYPES[plan.declared]}
    if isinstance(plan, Tagged) and plan.declared.__name__ in _FORMATS:
        return {"type": "string", "format": _FORMATS[plan.declared.__name__]}
    if isinstance(plan, Items):
        made: dict[str, Any] = {"type": "array", "items": _by_hand(plan.item.declared, inside)}
        return made | {"uniqueItems": True} if issubclass(plan.kinds[0], set | frozenset) else made
    if isinstance(plan, FixedTuple):
        count = len(plan.items)
        items = [_by_hand(item.declared, inside) for item in plan.items]
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
    if isinstance(plan, Pairs) and plan.key.declared is str:
        return {"type": "object", "additionalProperties": _by_hand(plan.item.declared, inside) or True}
    if isinstance(plan, Choice):
        return {"anyOf": [_by_hand(each, inside) for each in union_members(plan.declared)]}
    if isinstance(plan, OneOf):
        return _enumeration([_told(each) for each in get_args(plan.declared)])
    if isinstance(plan, Member):
        return {"title": plan.name} | _enumeration([_told(each) for each in plan.declared])
    if isinstance(plan, Constrained | Foreign) or plan in inside:  # constraints; a class that has itself
        raise _NotByHand
    if isinstance(plan, Keys) or (
        isinstance(plan, Record)
        and is_dataclass(plan.cls)
        and not hasattr(plan.cls, "__pydantic_validator__")
    ):
        return _object(plan, (*inside, plan))
    inner = resolve(declared)
    if inner is declared:
        raise _NotByHand
    return _by_hand(inner, inside)


def _told(value: Any) -> Any:
    told = value.value if isinstance(value, Enum) else value
    if type(told) not in _SCALAR_TYPES:
        raise _NotByHand
    return told


def _enumeration(values: list[Any]) -> dict[str, Any]:
    kinds = {_SCALAR_TYPES[type(value)] for value in values}
    return {"enum": values} | ({"type": kinds.pop()} if len(kinds) == 1 else {})


def _object(plan: Record, inside: tuple[Any, ...]) -> dict[str, Any]:
    if isinstance(plan, Keys):
        required = [name for name in plan.fields if name in plan.required]
        names = list(plan.fields)
    else:
        if len(plan.cls.__dataclass_fields__) != len(fields(plan.cls)):  # InitVar
            raise _NotByHand
        taken = [field for field in fields(plan.cls) if field.init]
        names = [field.name for field in taken]
        required = [field.name for field in taken if plan.fields[field.name].default is None]
    properties = {name: _by_hand(plan.fields[name].plan.declared, inside) for name in names}
    if not isinstance(plan, Keys):
        for field in taken:
            if field.default is not MISSING and type(field.default) in _SCALAR_TYPES:
                properties[field.name] = {**properties[field.name], "default": field.default}
    return {
        "type": "object",
        "title": plan.name,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


# --- checking against a schema -------------------------------------------------------------------------


_UNDERSTOOD = {
    *("type", "enum", "const", "items", "anyOf", "format", "properties", "required"),
    *("additionalProperties", "title", "description", "default", "examples"),
}


def check_schema(value: Any, schema: Mapping[str, Any] | None, *, place: str = "answer") -> None:
    """Check a JSON value against the schema of a hold; without one, everything fits.

    Raises:
        AnswerRejected: it does not fit; with the validator's message, the value and where.
    """
    if schema is None:
        return
    problem = _first_problem(value, schema) if _is_simple(schema) else _jsonschema_problem(value, schema)
    if problem is not None:
        path, message = problem
        where = place + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        raise AnswerRejected(f"{where}: {one_line(message)}")


Problem = tuple[tuple[str | int, ...], str]


def _is_simple(schema: Any) -> bool:
    """Whether `_first_problem` understands all of it."""
    if isinstance(schema, bool):
        return True
    return (
        isinstance(schema, Mapping)
        and schema.keys() <= _UNDERSTOOD
        and _is_simple(schema.get("items", True))
        and _is_simple(schema.get("additionalProperties", True))
        and all(map(_is_simple, schema.get("anyOf", ())))
        and all(map(_is_simple, schema.get("properties", {}).values()))
    )


def _first_problem(value: Any, schema: Any) -> Problem | None:
    if isinstance(schema, bool):
        return None if schema else ((), f"{short(value)} is not allowed here")
    if "type" in schema:
        wanted = schema["type"]
        if not any(_is_type(value, each) for each in ([wanted] if isinstance(wanted, str) else wanted)):
            names = repr(wanted) if isinstance(wanted, str) else ", ".join(map(repr, wanted))
            return (), f"{short(value)} is not of type {names}"
    if "enum" in schema and not any(_equal(value, each) for each in schema["enum"]):
        return (), f"{short(value)} is not one of {short(schema['enum'], 200)}"
    if "const" in schema and not _equal(value, schema["const"]):
        return (), f"{short(schema['const'])} was expected, not {short(value)}"
    if "format" in schema and isinstance(value, str):
        check = _checkers().get(schema["format"])
        if check is not None and not check(value):
            return (), f"{short(value)} is not a {schema['format']!r}"
    if "anyOf" in schema:
        problems = [_first_problem(value, each) for each in schema["anyOf"]]
        if all(problems):
            deepest: Problem = max((each for each in problems if each), key=lambda each: len(each[0]))
            if deepest[0]:
                return deepest
            return (), f"{short(value)} is not valid under any of {short(_brief(schema['anyOf']), 200)}"
    return _problem_in_parts(value, schema)


def _problem_in_parts(value: Any, schema: Any) -> Problem | None:
    parts: list[tuple[str | int, Any, Any]] = []
    if isinstance(value, list) and "items" in schema:
        parts = [(index, item, schema["items"]) for index, item in enumerate(value)]
    elif isinstance(value, dict):
        if missing := [name for name in schema.get("required", ()) if name not in value]:
            return (), f"{missing[0]!r} is a required property of {short(value)}"
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        if others is False and (unknown := [name for name in value if name not in known]):
            return (), f"{short(unknown[0])} is not a property here; there are {', '.join(known)}"
        parts = [(name, item, known.get(name, others)) for name, item in value.items()]
    for step, item, inner in parts:
        if problem := _first_problem(item, inner):
            return (step, *problem[0]), problem[1]
    return None


def _brief(schemas: list[Any]) -> list[Any]:
    return [each.get("type") or each.get("enum") or each for each in schemas]


def _is_type(value: object, name: str) -> bool:
    match name:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case _:
            return name == "object" and isinstance(value, dict)


def _equal(one: Any, other: Any) -> bool:
    """Equal as JSON values: True is not 1, and 1 is 1.0."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if type(one) not in _SCALAR_TYPES:
        return False
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


@cache
def _checkers() -> dict[str, Callable[[str], bool]]:
    from uuid import UUID

    def parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
        def check(text: str) -> bool:
            try:
                parse(text)
            except ValueError:
                return False
            return True

        return check

    instant = parses(datetime.fromisoformat)
    return {
        "date-time": lambda text: len(text) > len("2030-01-01") and instant(text),
        "date": parses(date.fromisoformat),
        "time": parses(time.fromisoformat),
        "uuid": parses(UUID),
    }


def _jsonschema_problem(value: Any, schema: Mapping[str, Any]) -> Problem | None:
    from jsonschema.exceptions import best_match
    from referencing import Registry

    # An empty registry: a `$ref` to elsewhere is an error, never a download.
    validator = _validator_class()(schema, registry=Registry(), format_checker=_formats())
    try:  # it prints, sorts and compares the value, which Python code may have given
        error = best_match(validator.iter_errors(value))
    except (TypeError, ValueError, AttributeError, ArithmeticError) as problem:
        return (), f"{short(value)} is not a JSON value: {problem}"
    return None if error is None else (tuple(error.absolute_path), error.message)


@cache
def _validator_class() -> Any:
    # An integer is one here too; the draft lets 3.0 pass for it, which no declared int accepts.
    from jsonschema import Draft202012Validator, validators

    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: _is_type(value, "integer")
    )
    return validators.extend(Draft202012Validator, type_checker=checker)


@cache
def _formats() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker()
    for name, check in _checkers().items():
        checker.checks(name)(lambda value, check=check: not isinstance(value, str) or check(value))
    return checker
