"""What does one annotation mean for the values that carry it? The interface, and the way to get one.

Builtins are written as `tags.py` writes them, so a value means the same whether it is declared or not; a
plan adds what tags cannot say: the classes. Three rules:

- What `dump` accepts, `load` gives back with the same type and the same parts. Classes are restored from
  their state, without running `__init__` or validators again: those may change what they are given.
- A class that cannot be walked (a deque, a URL, a model with serializers of its own) goes through
  pydantic, and is accepted only if reading what was written gives an equal value and the same JSON.
- `accept` is for values from outside and never converts with a loss. `text=True` means that the value
  came from JSON, where dates are text and tuples are lists; a Python value of the type is right too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from quiesce.codec.annotations import type_name
from quiesce.codec.refusal import Refused, short

__all__ = ["Plan", "plan_for"]


class Plan(ABC):
    """What one annotation means for the values that carry it."""

    def __init__(self, declared: Any) -> None:
        self.declared = declared

    @cached_property
    def name(self) -> str:
        return type_name(self.declared)

    @abstractmethod
    def dump(self, value: Any, depth: int = 0) -> Any:
        """The JSON form. Raises `Refused` if it would not come back the same."""

    @abstractmethod
    def load(self, data: Any) -> Any:
        """What `dump` was given. Raises `Refused` if the JSON does not fit the type as it is now."""

    @abstractmethod
    def accept(self, value: Any, text: bool) -> Any:
        """The value as the type wants it. Raises `Refused` if it does not fit without a loss."""

    def takes(self, value: dict[str, Any]) -> int:
        """How many keys of a JSON object this type has a place for."""
        return len(value)

    def unfit(self, value: object) -> Refused:
        return Refused(f"expected {self.name}, got {short(value)} ({type(value).__name__})")

    def stored_unfit(self, data: object) -> Refused:
        return Refused(f"expected {self.name}, but {short(data)} is stored there")


_by_identity: dict[int, tuple[Any, Plan]] = {}
_by_meaning: dict[Any, Plan] = {}
_LIMIT = 4096


def plan_for(declared: Any) -> Plan:
    """The plan of an annotation; made once for each."""
    known = _by_identity.get(id(declared))
    if known is not None:
        return known[1]
    key: tuple[Any, str] | None
    try:
        # With its name, because `int | str` equals `str | int`, and which comes first matters.
        key = (declared, type_name(declared))
        plan = _by_meaning.get(key)
    except TypeError:  # metadata or literals that cannot be hashed
        key = plan = None
    if plan is None:
        # The plans of containers and classes ask for those of their parts, so the table of all comes last.
        from quiesce.codec.declared import make_plan

        plan = make_plan(declared)
    if len(_by_identity) >= _LIMIT:  # annotations made anew for each call
        _by_identity.clear()
        _by_meaning.clear()
    _by_identity[id(declared)] = declared, plan  # the annotation is kept, so its id stays its own
    if key is not None:
        _by_meaning[key] = plan
    return plan
