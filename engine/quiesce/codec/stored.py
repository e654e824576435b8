"""How does a value become the bytes in the store, and come back?

The bytes are JSON in one form only: no spaces, text as UTF-8, dicts in their own order, sets sorted by
what their items are written as. So equal values have equal bytes, and `digest` can compare them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from quiesce.codec import tags
from quiesce.codec.annotations import is_undeclared, type_name
from quiesce.codec.refusal import Refused, short
from quiesce.errors import NotSerializable

__all__ = ["decode", "digest", "encode", "plain"]

_write = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


def encode(value: object, declared: Any = None, *, place: str = "value") -> bytes:
    """The stored bytes of a value; the same for the same value.

    Args:
        declared: the annotation of the value; None, `Any` or a missing one declare nothing.
        place: what the value is called in an error, such as `input` or `output of survey`.

    Raises:
        NotSerializable: a part of it would not come back with the same type and the same bytes.
    """
    try:
        if is_undeclared(declared):
            data = value if tags.is_plain(value) else tags.dump(value)
        else:
            data = _plan_for(declared).dump(value)
        return _write(data).encode()
    except Refused as refused:
        where = refused.place(place)
        raise NotSerializable(f"{where} cannot be stored: {refused.why}", place=where) from None
    except RecursionError:
        raise NotSerializable(
            f"{place} cannot be stored: it is nested too deeply for this call stack; flatten it", place=place
        ) from None


def decode(data: bytes, declared: Any = None, *, place: str = "value") -> Any:
    """The value that `encode` wrote, restored by the same declared type.

    Raises:
        NotSerializable: the bytes do not fit the type as it is now, or are not what `encode` wrote.
    """
    try:
        text = data.decode()
        parsed = json.loads(text)
        if not is_undeclared(declared):
            return _plan_for(declared).load(parsed)
        return tags.load(parsed) if '"~' in text else parsed
    except Refused as refused:
        where = refused.place(place)
        problem = refused.why
    except RecursionError:
        where, problem = place, "it is nested too deeply for this call stack"
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        where, problem = place, f"it is not what was saved ({error})"
    wanted = "" if is_undeclared(declared) else f" as {type_name(declared)}"
    raise NotSerializable(f"{where} cannot be read{wanted}: {problem}", place=where) from None


def _plan_for(declared: Any) -> Any:
    from quiesce.codec.plan import plan_for  # a fresh process that reads plain values needs no plans

    return plan_for(declared)


def plain(data: bytes) -> Any:
    """Stored bytes as plain JSON values, for a reader without the types: `flowctl show`, `--json`.

    Tuples and sets are lists, dates are ISO text, the names of union members are gone; not a way back.

    Raises:
        NotSerializable: the bytes are not what `encode` wrote.
    """
    try:
        return tags.plainly(json.loads(data))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise NotSerializable(f"{short(data)} is not what was saved ({error})", place="value") from None


def digest(data: bytes) -> str:
    """A short name for these bytes: 32 hexadecimal characters (128 bits) of their SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]
