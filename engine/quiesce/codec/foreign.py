"""How are types written and read that only pydantic knows, and the constraints of Annotated checked?"""

from __future__ import annotations

import collections
import json
from datetime import date, time
from functools import cached_property
from typing import Any

from quiesce.codec import tags
from quiesce.codec.plan import Plan, plan_for
from quiesce.codec.refusal import Refused, short

__all__ = ["Constrained", "Foreign"]


class Foreign(Plan):
    """A type that is read and written by pydantic, if what it writes can be read again."""

    @cached_property
    def adapter(self) -> Any:
        from pydantic import TypeAdapter

        try:
            return TypeAdapter(self.declared)
        except Exception as error:  # pydantic's own errors, and those of a class's schema hook
            known = type(error).__name__ == "PydanticSchemaGenerationError"
            reason = "" if known else f" ({str(error).partition(chr(10))[0]})"
            raise Refused(
                f"{self.name} has no stored form{reason}; keep it outside the run and pass what makes it "
                "again (a path, an id), or use a dataclass"
            ) from None

    def dump(self, value: Any, depth: int = 0) -> Any:
        data = self._write(value)
        try:
            again = self.load(data)
            same = _same(value, again) and self._write(again) == data
        except Refused as refused:
            raise Refused(f"{self._lost(value)} ({refused.why})") from None
        if not same:
            raise Refused(self._lost(value))
        return data

    def _write(self, value: Any) -> Any:
        try:
            data = self.adapter.dump_python(
                value, mode="json", by_alias=True, round_trip=True, warnings="error"
            )
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"{self._lost(value)} ({str(error).partition(chr(10))[0]})") from None
        return tags.dump(data)

    def _lost(self, value: object) -> str:
        kind = type(value).__name__
        return f"a {kind} would not come back the same as {self.name}; use a dataclass of plain values"

    def load(self, data: Any) -> Any:
        try:
            return self.adapter.validate_json(json.dumps(tags.load(data)), strict=False)
        except Refused:
            raise
        except Exception as error:
            raise _refusal(self, error, data) from None

    def accept(self, value: Any, text: bool) -> Any:
        adapter = self.adapter
        try:
            return adapter.validate_python(value, strict=True)
        except Exception as error:
            if not text:
                raise _refusal(self, error, value) from None
        from pydantic_core import to_json

        try:
            return adapter.validate_json(to_json(value), strict=True)
        except Exception as error:
            raise _refusal(self, error, value) from None


def _refusal(plan: Plan, error: Exception, value: object) -> Refused:
    """A validation error as one line, with the place of its first problem."""
    errors: Any = getattr(error, "errors", None)
    if not callable(errors):
        return Refused(f"expected {plan.name}, got {short(value)}: {error}")
    problems = errors(include_url=False)
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    refused = Refused(f"expected {plan.name}: {first['msg']}, got {short(first['input'])}{more}")
    for step in reversed(first["loc"]):
        refused.path.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return refused


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same types in every part that can be reached."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, dict):
        return (
            len(one) == len(other)
            and all(map(_same, one, other))
            and all(map(_same, one.values(), other.values()))
            and getattr(one, "default_factory", None) is getattr(other, "default_factory", None)
        )
    if isinstance(one, list | tuple | collections.deque):
        return (
            len(one) == len(other)
            and all(map(_same, one, other))
            and getattr(one, "maxlen", None) == getattr(other, "maxlen", None)
        )
    if isinstance(one, set | frozenset):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    if isinstance(one, date | time):
        return repr(one) == repr(other)
    if not bool(one == other):
        return False
    return _same(getattr(one, "__dict__", {}), getattr(other, "__dict__", {}))


class Constrained(Plan):
    """Annotated: what it asks is checked when the value comes from outside, not each time it is stored."""

    @cached_property
    def inner(self) -> Plan:
        inner = plan_for(self.declared.__origin__)
        return self.foreign if isinstance(inner, Foreign) else inner

    @cached_property
    def foreign(self) -> Foreign:
        return Foreign(self.declared)

    def dump(self, value: Any, depth: int = 0) -> Any:
        return self.inner.dump(value, depth)

    def load(self, data: Any) -> Any:
        return self.inner.load(data)

    def accept(self, value: Any, text: bool) -> Any:
        return self.foreign.accept(value, text)

    def takes(self, value: dict[str, Any]) -> int:
        return self.inner.takes(value)
