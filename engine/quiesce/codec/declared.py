"""Which plan does an annotation get? The table of all kinds of types."""

from __future__ import annotations

import collections.abc
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path, PurePath
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_origin

from quiesce.codec import tags
from quiesce.codec.annotations import is_undeclared, is_union, unwrap
from quiesce.codec.containers import ITEMS, Alias, Choice, FixedTuple, Items, Pairs
from quiesce.codec.foreign import Constrained, Foreign
from quiesce.codec.leaves import SCALARS, Member, OneOf, Scalar, Tagged, Undeclared
from quiesce.codec.plan import Plan, plan_for
from quiesce.codec.records import Dataclass, Keys, Model, Named

__all__ = ["make_plan"]


def make_plan(declared: Any) -> Plan:
    if is_undeclared(declared):
        return Undeclared(Any)
    if declared in SCALARS:
        return Scalar(declared)
    origin: Any = get_origin(declared)
    if origin is Annotated:
        metadata = declared.__metadata__
        inner = declared.__origin__
        return plan_for(inner) if all(type(each) is str for each in metadata) else Constrained(declared)
    if is_union(declared):
        return Choice(declared)
    if origin is Literal:
        return OneOf(declared)
    base: Any = origin or declared
    if base in ITEMS or base is tuple:
        return _plan_items(declared, base, get_args(declared))
    if base in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return Pairs(declared, *(get_args(declared) or (Any, Any)))
    if unwrap(declared) is not declared:
        return Alias(declared)
    if isinstance(base, type):
        return _plan_class(declared, base)
    return Foreign(declared)


def _plan_items(declared: Any, base: Any, arguments: tuple[Any, ...]) -> Plan:
    if base is not tuple:
        return Items(declared, ITEMS[base], arguments[0] if arguments else Any)
    if not arguments and type(declared) is not GenericAlias:  # `tuple`; `tuple[()]` is the empty one
        return Items(declared, (tuple,), Any)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return Items(declared, (tuple,), arguments[0])
    return FixedTuple(declared, arguments)


def _plan_class(declared: Any, base: type) -> Plan:
    if base in (Path, PurePath) or base in tags.leaves():
        return Tagged(declared)
    if hasattr(base, "__required_keys__"):
        return Keys(declared, base)
    if issubclass(base, Enum):
        return Member(declared)
    if hasattr(base, "__pydantic_decorators__") and hasattr(base, "model_fields"):
        return Model(declared, base)
    if is_dataclass(base):
        return Dataclass(declared, base)
    if issubclass(base, tuple) and hasattr(base, "_fields"):
        return Named(declared, base)
    return Foreign(declared)
