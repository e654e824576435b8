"""How is a value written when nothing says what its type is?

JSON's own values are themselves. Every other builtin is an object with one key, a tilde and the name of
its type: `{"~tuple": [1, 2]}`. A dict that JSON cannot say (other keys than text) or that would read as a
tag is written as pairs: `{"~dict": [[key, value], ...]}`. Only exact types count: a subclass would come
back as its base, so it is refused, and a tag that is not in the tables here is never looked up anywhere
else.

The walk reports where it failed by adding a step to the `Refused` that passes through, so that a value
that is fine pays nothing for the place.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from enum import Enum
from functools import cache
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, NamedTuple

from quiesce.codec.refusal import Refused, short

__all__ = [
    "MAX_DEPTH",
    "Leaf",
    "check_depth",
    "dump",
    "dump_items",
    "dump_pairs",
    "is_leaf",
    "is_plain",
    "leaves",
    "load",
    "open_items",
    "open_pairs",
    "plainly",
    "tagged",
]

# A value nested deeper is refused, so that what was saved can also be loaded from a deep call stack: a
# level may take three frames of Python's 1,000, there and in the JSON parser.
MAX_DEPTH = 128

# Beyond this an int is written in hexadecimal: Python refuses to read long decimal numbers, and how long
# is a setting of the process (at least 640 digits).
_BIG = 1 << 2000


# --- leaves --------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A builtin without parts: its tag, and how it is written and read."""

    tag: str
    write: Callable[[Any], object]
    read: Callable[[Any], object]


_SCALARS: frozenset[type] = frozenset({str, int, float, bool, type(None)})


@cache
def leaves() -> dict[type, Leaf]:
    """Every tagged builtin without parts. A function, so that decimal and uuid load where one occurs."""
    from decimal import Decimal
    from uuid import UUID

    table: dict[type, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
        bytes: (_to_base64, _from_base64),
        bytearray: (_to_base64, lambda text: bytearray(_from_base64(text))),
        datetime: (_write_instant, lambda data: _read_instant(datetime, data)),
        time: (_write_instant, lambda data: _read_instant(time, data)),
        date: (date.isoformat, date.fromisoformat),
        timedelta: (_write_timedelta, lambda parts: timedelta(*parts)),
        Decimal: (str, Decimal),
        UUID: (str, UUID),
        range: (lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    }
    for path in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath):
        table[path] = (_write_path, _path_reader(path))
    return {kind: Leaf("~" + kind.__name__, *pair) for kind, pair in table.items()}


def is_leaf(kind: type) -> bool:
    """Whether a value of exactly this type says its type by itself and has no parts."""
    return kind in _SCALARS or kind in leaves()


def _to_base64(value: bytes | bytearray) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _from_base64(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)


def _write_path(value: PurePath) -> object:
    return dump(str(value))  # a name that is not UTF-8 has lone surrogates


def _path_reader(kind: type[PurePath]) -> Callable[[Any], object]:
    return lambda data: kind(load(data))


def _write_timedelta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _write_instant(value: Any) -> object:
    """A datetime or time: ISO text, or `[naive ISO text, fold, zone]` where that is not all there is."""
    zone = _write_zone(value.tzinfo)
    offset_only = zone is None or (isinstance(zone, list) and zone[1] is None)
    if offset_only and not value.fold:
        return value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), value.fold, zone]


def _write_zone(zone: Any) -> object:
    if zone is None:
        return None
    if type(zone) is timezone:
        offset, name = zone.utcoffset(None), zone.tzname(None)
        return [_write_timedelta(offset), None if name == timezone(offset).tzname(None) else name]
    if type(zone).__name__ == "ZoneInfo":
        from zoneinfo import ZoneInfo

        if type(zone) is ZoneInfo and zone.key is not None:
            return zone.key
    raise Refused(
        f"its time zone {short(zone)} cannot be named; use datetime.timezone, or zoneinfo.ZoneInfo with a key"
    )


def _read_instant(kind: Any, data: Any) -> object:
    if isinstance(data, str):
        return kind.fromisoformat(data)
    text, fold, zone = data
    if isinstance(zone, str):
        from zoneinfo import ZoneInfo

        zone = ZoneInfo(zone)
    elif zone is not None:
        offset, name = timedelta(*zone[0]), zone[1]
        zone = timezone(offset) if name is None else timezone(offset, name)
    return kind.fromisoformat(text).replace(fold=fold, tzinfo=zone)


# --- writing -------------------------------------------------------------------------------------------


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether JSON says exactly this value: the fast path, which copies nothing."""
    kind = type(value)
    items: Iterable[Any]
    if kind is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or _is_text(key)):
                return False
        if len(value) == 1 and key[:1] == "~":
            return False
        items = value.values()
    elif kind is list:
        items = value
    else:
        return kind in _SCALARS and dump(value) is value
    if depth >= MAX_DEPTH:
        return False
    for item in items:
        kind = type(item)
        if kind is str:
            if not (item.isascii() or _is_text(item)):
                return False
        elif kind is int:
            if not -_BIG < item < _BIG:
                return False
        elif kind is float:
            if item - item != 0.0:  # not finite
                return False
        elif kind is dict or kind is list:
            if not is_plain(item, depth + 1):
                return False
        elif item is not None and kind is not bool:
            return False
    return True


def dump(value: Any, depth: int = 0) -> Any:
    """The JSON form of a value of builtins.

    Raises:
        Refused: a part of it is none of them, or it is nested too deeply.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() or _is_text(value) else {"~str": _surrogates(value)}
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -_BIG < value < _BIG else {"~int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"~float": _nonfinite(value)}
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return dump_items(value, dump, depth)
    if kind is dict:
        return dump_pairs(value, dump, dump, depth)
    leaf = leaves().get(kind)
    if leaf is None:
        raise Refused(_why_not(value))
    return {leaf.tag: leaf.write(value)}


def dump_items(value: Any, write: Callable[[Any, int], object], depth: int) -> object:
    """A list, tuple, set or frozenset, its items written by `write`."""
    check_depth(depth)
    kind, items, index = type(value), list[Any](), -1
    unordered = kind is set or kind is frozenset
    try:
        for index, item in enumerate(value):  # noqa: B007 - where it stopped
            items.append(write(item, depth + 1))
    except Refused as refused:
        refused.path.append(f"{{{short(item, 40)}}}" if unordered else f"[{index}]")
        raise
    if unordered:
        items.sort(key=_sort_key)
    return items if kind is list else {"~" + kind.__name__: items}


def dump_pairs(
    value: dict[Any, Any],
    write_key: Callable[[Any, int], object],
    write_value: Callable[[Any, int], object],
    depth: int,
) -> object:
    """A dict, its keys and values written by these; in its own order."""
    check_depth(depth)
    pairs: list[Any] = []
    try:
        for key, item in value.items():
            pairs.append([write_key(key, depth + 1), write_value(item, depth + 1)])
    except Refused as refused:
        refused.path.append(f"[{short(key, 40)}]")
        raise
    if all(type(key) is str for key, _ in pairs) and not (len(pairs) == 1 and pairs[0][0].startswith("~")):
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
    return {"~dict": pairs}


def check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused(f"it is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it")


def _sort_key(item: object) -> str:
    return json.dumps(item, ensure_ascii=True, separators=(",", ":"))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _surrogates(value: str) -> str:
    # Not as \ud83d escapes: a parser joins two neighbouring halves into one character.
    return _to_base64(value.encode("utf-8", "surrogatepass"))


def _nonfinite(value: float) -> str:
    return ("-" if math.copysign(1.0, value) < 0 else "") + ("nan" if math.isnan(value) else "inf")


def _why_not(value: object) -> str:
    """Why a value has no tag, and what to do about it."""
    kind = type(value)
    name = kind.__name__
    if isinstance(value, BaseException):
        return (
            f"an exception ({name}) does not come back from a store; keep its text, or a value that says it"
        )
    if (
        is_dataclass(kind)
        or isinstance(value, Enum)
        or hasattr(kind, "model_fields")
        or hasattr(kind, "_fields")
    ):
        return (
            f"a {name} is restored by its declared type, and none is declared here; annotate the parameter "
            f"or the return value with {name}"
        )
    bases: tuple[type, ...] = (*_SCALARS, list, tuple, set, frozenset, dict, *leaves())
    for base in bases:
        if isinstance(value, base):
            return f"a {name} would come back as a {base.__name__}; convert it to one, or declare its type"
    if callable(value):
        return f"a {name} cannot be stored; keep it outside the run and pass its name"
    return (
        f"a {name} cannot be stored; keep it outside the run and pass what makes it again (a path, an id), "
        "or use a dataclass and declare it"
    )


# --- reading -------------------------------------------------------------------------------------------


def tagged(data: object) -> str | None:
    """The tag, if this piece of JSON is a tagged value."""
    if type(data) is dict and len(data) == 1:
        (key,) = data
        if key.startswith("~"):
            return str(key)
    return None


def load(data: Any) -> Any:
    """The value of builtins that `dump` wrote.

    Raises:
        Refused: a tag that this version does not know, or one with something else in it.
    """
    kind = type(data)
    if kind is not dict and kind is not list:
        return data
    tag = tagged(data)
    if tag is not None and tag not in ("~tuple", "~set", "~frozenset", "~dict"):
        return _load_leaf(tag, data[tag])
    try:
        if kind is list:
            return [load(item) for item in data]
        if tag is None:
            return {key: load(item) for key, item in data.items()}
        if tag == "~dict":
            return {load(key): load(item) for key, item in data[tag]}
        cls, items = open_items(data)
        return cls(map(load, items))
    except (TypeError, ValueError) as error:
        raise Refused(f"{short(data)} is no stored value: {error}") from None


_SPECIAL: dict[str, Callable[[Any], object]] = {
    "~str": lambda text: _from_base64(text).decode("utf-8", "surrogatepass"),
    "~int": lambda text: int(text, 16),
    "~float": float,
}


@cache
def _readers() -> dict[str, Callable[[Any], object]]:
    return {leaf.tag: leaf.read for leaf in leaves().values()}


def _load_leaf(tag: str, payload: Any) -> object:
    read = _SPECIAL.get(tag) or _readers().get(tag)
    if read is None:
        raise Refused(f"the tag {short(tag)} is not known to this version")
    try:
        return read(payload)
    except Exception as error:  # whatever the constructor of a builtin or of a platform's path says
        raise Refused(f"{short(payload)} is no {tag[1:]}: {error}") from None


_ITEM_KINDS: dict[str, Callable[..., Any]] = {"~tuple": tuple, "~set": set, "~frozenset": frozenset}


def open_items(data: Any) -> tuple[Any, list[Any]]:
    """The type and the written items of a list, tuple, set or frozenset."""
    if type(data) is list:
        return list, data
    tag = tagged(data)
    if tag in _ITEM_KINDS and type(data[tag]) is list:
        return _ITEM_KINDS[tag], data[tag]
    raise Refused(f"{short(data)} is stored there")


def open_pairs(data: Any) -> Iterator[tuple[Any, Any]]:
    """The written keys and values of a dict."""
    if type(data) is not dict:
        raise Refused(f"{short(data)} is stored there")
    tag = tagged(data)
    if tag is None:
        return iter(data.items())
    if tag == "~dict" and type(data[tag]) is list:
        return ((key, value) for key, value in data[tag])
    raise Refused(f"{short(data)} is stored there")


def plainly(data: Any) -> Any:
    """Stored JSON for a reader who has no types: tags removed, values as JSON would say them."""
    if type(data) is list:
        return [plainly(item) for item in data]
    if type(data) is not dict:
        return data
    match tagged(data):
        case None:
            return {key: plainly(item) for key, item in data.items()}
        case "~tuple" | "~set" | "~frozenset" as tag:
            return plainly(data[tag])
        case "~dict":
            pairs = [(plainly(key), plainly(item)) for key, item in data["~dict"]]
            keys = {_key_text(key) for key, _ in pairs}
            return {_key_text(key): item for key, item in pairs} if len(keys) == len(pairs) else pairs
        case "~of":
            return plainly(data["~of"][1])
        case "~model":
            return plainly({**data["~model"]["fields"], **(data["~model"]["extra"] or {})})
        case "~json" | "~name" as tag:
            return plainly(data[tag])
        case "~float" | "~int" | "~bytes" | "~bytearray" | "~str" | "~range" as tag:
            return data[tag]
        case tag:
            try:
                return _text(_load_leaf(tag, data[tag]))
            except Refused:  # of another platform, or of a newer version
                return plainly(data[tag])


def _key_text(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date | time) else str(value)
