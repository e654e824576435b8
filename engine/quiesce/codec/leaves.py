"""How is a value without parts written and read when its type is declared?"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from enum import Enum
from functools import cached_property
from types import NoneType
from typing import Any, get_args

from quiesce.codec import tags
from quiesce.codec.foreign import Foreign
from quiesce.codec.plan import Plan, plan_for
from quiesce.codec.refusal import Refused, short

__all__ = ["SCALARS", "Member", "OneOf", "Scalar", "Tagged", "Undeclared"]


class Undeclared(Plan):
    """Nothing is declared: tags say what it is."""

    def dump(self, value: Any, depth: int = 0) -> Any:
        return value if tags.is_plain(value, depth) else tags.dump(value, depth)

    def load(self, data: Any) -> Any:
        return tags.load(data)

    def accept(self, value: Any, text: bool) -> Any:
        return value


SCALARS = (str, int, float, bool, NoneType)


class Scalar(Plan):
    """JSON's own: text, numbers, booleans, None."""

    def _holds(self, value: object) -> bool:
        # An int is a fine float and a bool a fine int where they come from code that says so: both come
        # back as they were.
        return isinstance(value, self.declared) or (self.declared is float and isinstance(value, int))

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) not in SCALARS or not self._holds(value):
            raise self.unfit(value)
        return tags.dump(value)

    def load(self, data: Any) -> Any:
        value = tags.load(data)
        if type(value) not in SCALARS or not self._holds(value):
            raise self.stored_unfit(data)
        return value

    def accept(self, value: Any, text: bool) -> Any:
        if type(value) is self.declared:
            return value
        if self.declared is float and type(value) is int:
            try:
                if int(float(value)) == value:
                    return float(value)
            except OverflowError:
                pass
        raise self.unfit(value)


class Tagged(Plan):
    """A builtin that tags name: dates, Decimal, UUID, bytes, paths, range."""

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) not in tags.leaves() or not isinstance(value, self.declared):
            raise self.unfit(value)
        return tags.dump(value)

    def load(self, data: Any) -> Any:
        value = tags.load(data)
        if not isinstance(value, self.declared):
            raise self.stored_unfit(data)
        return value

    def accept(self, value: Any, text: bool) -> Any:
        exact = type(value) in tags.leaves() and isinstance(value, self.declared)
        if exact and not (self.declared is date and isinstance(value, datetime)):
            return value
        if not text:
            raise self.unfit(value)
        if self.declared is timedelta and isinstance(value, str | int | float):
            return Foreign(timedelta).accept(value, text)  # ISO durations are pydantic's
        try:
            return _from_json(self.declared, value)
        except (ValueError, ArithmeticError):
            raise self.unfit(value) from None


def _from_json(kind: Any, value: object) -> object:
    if kind.__name__ == "Decimal" and type(value) in (int, float):
        return kind(repr(value))  # 0.1 is meant, not the nearest binary fraction
    if type(value) is not str or kind is range:
        raise ValueError
    if kind in (bytes, bytearray):
        return kind(value.encode())
    if kind is datetime and len(value) <= len("2030-01-01"):
        raise ValueError  # a day is not an instant
    if kind in (datetime, date, time):
        return kind.fromisoformat(value)
    return kind(value)


def _same_number(one: object, other: object) -> bool:
    """Whether JSON makes no difference between them, as between 1 and 1.0."""
    return type(one) in (int, float) and type(other) in (int, float) and one == other


class OneOf(Plan):
    """A Literal."""

    @cached_property
    def _enums(self) -> list[Plan]:
        return [plan_for(type(each)) for each in get_args(self.declared) if isinstance(each, Enum)]

    def _find(self, value: object) -> bool:
        return any(type(each) is type(value) and each == value for each in get_args(self.declared))

    def dump(self, value: Any, depth: int = 0) -> Any:
        if not self._find(value):
            raise self.unfit(value)
        if isinstance(value, Enum):
            return {"~of": [type(value).__name__, plan_for(type(value)).dump(value)]}
        return tags.dump(value)

    def load(self, data: Any) -> Any:
        if tags.tagged(data) == "~of":
            name, data = data["~of"]
            plan = next((plan for plan in self._enums if plan.declared.__name__ == name), None)
            value = plan.load(data) if plan else None
        else:
            value = tags.load(data)
        if not self._find(value):
            raise self.stored_unfit(data)
        return value

    def accept(self, value: Any, text: bool) -> Any:
        if self._find(value):
            return value
        for each in get_args(self.declared) if text else ():
            if _same_number(each, value):
                return each
        for plan in self._enums if text else ():
            try:
                member = plan.accept(value, text)
            except Refused:
                continue
            if self._find(member):
                return member
        raise self.unfit(value)


class Member(Plan):
    """An Enum: by its value, or by its name where the value has no JSON form."""

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) is not self.declared:
            raise self.unfit(value)
        try:
            data = tags.dump(value.value)
            if self.load(data) is value:
                return data
        except Refused:
            pass
        if value.name is not None and self.declared.__members__.get(value.name) is value:
            return {"~name": value.name}
        raise Refused(f"{short(value)} has no name, and its value no JSON form")

    def load(self, data: Any) -> Any:
        if tags.tagged(data) == "~name":
            if data["~name"] in self.declared.__members__:
                return self.declared[data["~name"]]
        else:
            value = tags.load(data)
            try:
                member = self.declared(value)
            except ValueError:
                raise self.stored_unfit(data) from None
            if type(member) is self.declared:
                return member
        raise self.stored_unfit(data)

    def accept(self, value: Any, text: bool) -> Any:
        if type(value) is self.declared:
            return value
        for member in self.declared if text else ():
            told = member.value if type(member.value) in SCALARS else member.name
            if (type(told) is type(value) and told == value) or _same_number(told, value):
                return member
        wanted = ", ".join(short(member.value) for member in self.declared)
        raise Refused(f"expected {self.name} (one of {wanted}), got {short(value)}")
