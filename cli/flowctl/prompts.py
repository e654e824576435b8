"""How is a person asked for a JSON value that fits a schema?

A form: yes or no for a boolean, a numbered choice for an enum, a line for text and numbers, field by
field for an object, item by item for an array. What was typed is checked against the schema, and asked
again with the reason. A schema that no form fits is asked for as JSON. Where only true fits, that is asked
too: nobody approves by leaving the rest of a form as it is.

`ask` is a generator: it yields what to show and is sent the line that came back, so it reads from a
terminal, a pipe or a test alike.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from quiesce import codec
from quiesce.errors import AnswerRejected

__all__ = ["Declined", "Form", "ask", "example", "outline"]

Form = Generator[str, str, Any]
"""Yields prompts, is sent lines, returns the value."""

Schema = Mapping[str, Any]
_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_DEPTH = 8  # levels of a schema that are asked field by field


class Declined(Exception):
    """The person said no where only a yes fits, so there is no value."""


def ask(schema: Schema | None, name: str = "answer") -> Form:
    """Ask until the value fits the schema; without one, any JSON value does. Raises Declined."""
    root = schema or {}
    while True:
        value = yield from _ask(root, root, name, 0)
        try:
            codec.check_schema(value, schema)
        except AnswerRejected as refused:
            name = f"{refused}\n{name.rpartition(chr(10))[2]}"
            continue
        return value


def _ask(schema: Schema, root: Schema, name: str, depth: int) -> Form:
    schema = _resolved(schema, root)
    if schema.get("const") is True:
        if not (yield from _leaf({"type": "boolean"}, "boolean", name)):
            raise Declined
        return True
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return (yield from _choice([(_told(value), value) for value in schema["enum"]], name))
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return (yield from _variant(variants, root, name, depth))
    kind = schema.get("type")
    if isinstance(kind, list):
        return (yield from _variant([{**schema, "type": each} for each in kind], root, name, depth))
    if depth < _DEPTH and kind == "object" and (schema.get("properties") or "additionalProperties" in schema):
        return (yield from _object(schema, root, name, depth))
    if depth < _DEPTH and kind == "array":
        return (yield from _array(schema, root, name, depth))
    return (yield from _leaf(schema, kind, name))


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Follow references inside the schema; those to elsewhere say nothing here."""
    for _ in range(20):
        if "allOf" in schema and len(schema["allOf"]) == 1:
            schema = {**{key: value for key, value in schema.items() if key != "allOf"}, **schema["allOf"][0]}
        target = schema.get("$ref")
        if not isinstance(target, str):
            return schema
        found: Any = root
        for step in target.removeprefix("#").strip("/").split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if step else found
        schema = found
    return {}


def _leaf(schema: Schema, kind: object, name: str) -> Form:
    hint = {"boolean": "y/n", "integer": "a whole number", "number": "a number", "null": "Enter"}.get(
        str(kind)
    )
    if kind == "string":
        hint = schema.get("format")
    if kind is None or kind in ("object", "array"):
        hint = "JSON"
    default = schema.get("default")
    shown = f" [{_told(default)}]" if "default" in schema else ""
    problem = ""
    while True:
        line = yield f"{problem}{name}{f' ({hint})' if hint else ''}{shown}: "
        if line == "" and "default" in schema:
            return default
        try:
            value = _read(line, kind)
            fits = {**schema, "$defs": {}} if "$ref" in str(schema) else schema
            codec.check_schema(value, fits, place=name.rpartition("\n")[2])
        except (ValueError, AnswerRejected) as refused:
            problem = f"{refused}\n"
            continue
        return value


def _read(line: str, kind: object) -> Any:
    word = line.strip()
    if kind == "string":
        return line
    if kind == "boolean":
        if word.lower() not in _YES:
            raise ValueError("please type y or n")
        return _YES[word.lower()]
    if kind == "null" and word.lower() in ("", "null", "none"):
        return None
    try:
        return json.loads(word)
    except ValueError:
        expected = {"integer": "a whole number such as 3", "number": "a number such as 2.5"}
        raise ValueError(
            f"{word!r} is not {expected.get(str(kind), 'JSON; text needs double quotes')}"
        ) from None


def _choice(options: list[tuple[str, Any]], name: str) -> Form:
    listed = "\n".join(f"  {number}. {told}" for number, (told, _) in enumerate(options, 1))
    problem = ""
    while True:
        line = yield f"{problem}{name}:\n{listed}\n1-{len(options)}: "
        word = line.strip()
        for number, (told, value) in enumerate(options, 1):
            if word in (told, str(value)) or word == str(number):
                return value
        problem = f"{word!r} is none of them\n"


def _variant(variants: list[Schema], root: Schema, name: str, depth: int) -> Form:
    """One of several shapes; an optional value is one that Enter leaves out."""
    real = [each for each in variants if _resolved(each, root).get("type") != "null"]
    if len(real) < len(variants):
        filled = yield f"{name}: give a value? (y/n) [n]: "
        if not _YES.get(filled.strip().lower(), False):
            return None
    if len(real) == 1:
        return (yield from _ask(real[0], root, name, depth))
    options = [(_title(_resolved(each, root)), each) for each in real]
    chosen = yield from _choice(options, f"{name}, which kind")
    return (yield from _ask(chosen, root, name, depth))


def _object(schema: Schema, root: Schema, name: str, depth: int) -> Form:
    value: dict[str, Any] = {}
    required = set(schema.get("required", ()))
    for key, inner in schema.get("properties", {}).items():
        place = f"{name}.{key}"
        if key not in required and "default" not in inner:
            filled = yield f"{place}: give a value? (y/n) [n]: "
            if not _YES.get(filled.strip().lower(), False):
                continue
        value[key] = yield from _ask(inner, root, place, depth + 1)
    more = schema.get("additionalProperties", False if schema.get("properties") else {})
    if more is not False and not schema.get("properties"):
        while key := (yield f"{name}, name of the next entry (Enter: no more): ").strip():
            value[key] = yield from _ask({} if more is True else more, root, f"{name}.{key}", depth + 1)
    return value


def _array(schema: Schema, root: Schema, name: str, depth: int) -> Form:
    fixed = schema.get("prefixItems", [])
    values = []
    for number, inner in enumerate(fixed, 1):
        values.append((yield from _ask(inner, root, f"{name}[{number}]", depth + 1)))
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    inner = schema.get("items", {} if not fixed else False)
    while inner is not False and (most is None or len(values) < most):
        if len(values) >= least:
            more = yield f"{name}: {len(values)} so far; another? (y/n) [n]: "
            if not _YES.get(more.strip().lower(), False):
                break
        place = f"{name}[{len(values) + 1}]"
        values.append((yield from _ask({} if inner is True else inner, root, place, depth + 1)))
    return values


def _title(schema: Schema) -> str:
    return str(
        schema.get("title") or schema.get("type") or _told(schema.get("const", schema.get("enum", schema)))
    )


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def outline(schema: Schema | None) -> str:
    """What an answer has to be, in a line: `{ok: boolean, level: "low" or "high", note?: string}`."""
    return "any JSON value" if schema is None else _outline(schema, schema, 0)


def _outline(schema: Schema, root: Schema, depth: int) -> str:
    schema = _resolved(schema, root)
    if depth > _DEPTH:
        return "…"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_outline(each, root, depth + 1) for each in variants)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind == "array":
        fixed = [_outline(each, root, depth + 1) for each in schema.get("prefixItems", ())]
        items = schema.get("items")
        more = [f"{_outline(items, root, depth + 1)}, …"] if isinstance(items, Mapping) else []
        return f"[{', '.join(fixed + more or ['…'])}]"
    if kind == "object" and schema.get("properties"):
        required = schema.get("required", ())
        inner = (
            f"{key}{'' if key in required else '?'}: {_outline(each, root, depth + 1)}"
            for key, each in schema["properties"].items()
        )
        return "{" + ", ".join(inner) + "}"
    return f"{kind or 'any JSON value'}" + (f" ({schema['format']})" if "format" in schema else "")


def example(schema: Schema | None) -> str:
    """JSON that shows what an answer looks like: the kind, not a proposal."""
    return json.dumps(_sample(schema or {"type": "boolean"}, schema or {}, 0), ensure_ascii=False)


def _sample(schema: Schema, root: Schema, depth: int) -> Any:
    schema = _resolved(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        real = [each for each in variants if _resolved(each, root).get("type") != "null"]
        return _sample((real or variants)[0], root, depth + 1) if depth < _DEPTH else None
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "string":
            return "…"
        case "array":
            fixed = schema.get("prefixItems", [])
            items = schema.get("items", {})
            inner = fixed or [items if isinstance(items, Mapping) else {}] * max(1, schema.get("minItems", 1))
            return [_sample(each, root, depth + 1) for each in inner] if depth < _DEPTH else []
        case "object":
            wanted = {key: schema.get("properties", {}).get(key, {}) for key in schema.get("required", ())}
            return (
                {key: _sample(each, root, depth + 1) for key, each in wanted.items()}
                if depth < _DEPTH
                else {}
            )
        case "null":
            return None
        case _:
            return True
