"""How are builtins with parts written and read when their type is declared? Containers and unions."""

from __future__ import annotations

import collections.abc
import json
import operator
from collections.abc import Callable, Iterable
from functools import cached_property
from types import NoneType
from typing import Any

from quiesce.codec import tags
from quiesce.codec.annotations import type_name, union_members, unwrap
from quiesce.codec.leaves import Scalar, Tagged
from quiesce.codec.plan import Plan, plan_for
from quiesce.codec.refusal import Refused, short

__all__ = ["ITEMS", "Alias", "Choice", "FixedTuple", "Items", "Pairs"]

ITEMS: dict[Any, tuple[type, ...]] = {
    list: (list,),
    set: (set,),
    frozenset: (frozenset,),
    collections.abc.Sequence: (list, tuple),
    collections.abc.MutableSequence: (list,),
    collections.abc.Set: (set, frozenset),
    collections.abc.MutableSet: (set,),
    collections.abc.Collection: (list, tuple, set, frozenset),
    collections.abc.Iterable: (list, tuple, set, frozenset),
}


class Items(Plan):
    """A list, tuple, set or frozenset of one kind of item, or an interface that several of them have."""

    def __init__(self, declared: Any, kinds: tuple[type, ...], item: Any) -> None:
        super().__init__(declared)
        self.kinds = kinds
        self._item = item

    @cached_property
    def item(self) -> Plan:
        return plan_for(self._item)

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) not in self.kinds:
            raise self.unfit(value)
        return tags.dump_items(value, self.item.dump, depth)

    def load(self, data: Any) -> Any:
        kind, items = tags.open_items(data)
        if kind not in self.kinds:
            raise self.stored_unfit(data)
        return _gather(kind, items, self.item.load, self.unfit)

    def accept(self, value: Any, text: bool) -> Any:
        kind = type(value)
        if kind not in self.kinds and not (text and kind is list):
            raise self.unfit(value)
        made = _gather(list, value, lambda item: self.item.accept(item, text), self.unfit)
        if kind in self.kinds:
            return value if all(map(operator.is_, value, made)) else kind(made)
        result = _gather(self.kinds[0], made, lambda item: item, self.unfit)
        if len(result) != len(made):
            raise Refused(f"expected {self.name}, got {short(value)}, which has an item twice")
        return result


def _gather(
    kind: Any, items: Iterable[Any], each: Callable[[Any], Any], unfit: Callable[[Any], Refused]
) -> Any:
    made, index = [], 0
    try:
        for item in items:
            made.append(each(item))
            index += 1
    except Refused as refused:
        refused.path.append(f"[{index}]")
        raise
    try:
        return made if kind is list else kind(made)
    except TypeError:  # an item that cannot be in a set
        raise unfit(made) from None


class FixedTuple(Plan):
    """A tuple whose places have their own types."""

    def __init__(self, declared: Any, items: tuple[Any, ...]) -> None:
        super().__init__(declared)
        self._items = items

    @cached_property
    def items(self) -> list[Plan]:
        return [plan_for(item) for item in self._items]

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) is not tuple or len(value) != len(self.items):
            raise self.unfit(value)
        plans = iter(self.items)
        return tags.dump_items(value, lambda item, below: next(plans).dump(item, below), depth)

    def load(self, data: Any) -> Any:
        kind, items = tags.open_items(data)
        if kind is not tuple or len(items) != len(self.items):
            raise self.stored_unfit(data)
        plans = iter(self.items)
        return _gather(tuple, items, lambda item: next(plans).load(item), self.unfit)

    def accept(self, value: Any, text: bool) -> Any:
        kind = type(value)
        if not (kind is tuple or (text and kind is list)) or len(value) != len(self.items):
            raise self.unfit(value)
        plans = iter(self.items)
        made = _gather(tuple, value, lambda item: next(plans).accept(item, text), self.unfit)
        return value if kind is tuple and all(map(operator.is_, value, made)) else made


class Pairs(Plan):
    """A dict."""

    def __init__(self, declared: Any, key: Any, item: Any) -> None:
        super().__init__(declared)
        self._key = key
        self._item = item

    @cached_property
    def key(self) -> Plan:
        return plan_for(self._key)

    @cached_property
    def item(self) -> Plan:
        return plan_for(self._item)

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) is not dict:
            raise self.unfit(value)
        return tags.dump_pairs(value, self.key.dump, self.item.dump, depth)

    def load(self, data: Any) -> Any:
        made: dict[Any, Any] = {}
        for key, item in tags.open_pairs(data):
            try:
                made[self.key.load(key)] = self.item.load(item)
            except TypeError:
                raise self.stored_unfit(data) from None
            except Refused as refused:
                refused.path.append(f"[{short(key, 40)}]")
                raise
        return made

    def accept(self, value: Any, text: bool) -> Any:
        if type(value) is not dict:
            raise self.unfit(value)
        made: dict[Any, Any] = {}
        for key, item in value.items():
            try:
                made[self._accept_key(key, text)] = self.item.accept(item, text)
            except Refused as refused:
                refused.path.append(f"[{short(key, 40)}]")
                raise
        if len(made) != len(value):
            raise Refused(f"expected {self.name}, got {short(value)}, which has a key twice")
        same = all(map(operator.is_, value, made)) and all(map(operator.is_, value.values(), made.values()))
        return value if same else made

    def _accept_key(self, key: Any, text: bool) -> Any:
        try:
            return self.key.accept(key, text)
        except Refused:
            if not text or type(key) is not str:
                raise
        try:  # JSON has no other keys than text
            return self.key.accept(json.loads(key), text)
        except (ValueError, RecursionError):
            raise self.key.unfit(key) from None


# --- choices -------------------------------------------------------------------------------------------


class Choice(Plan):
    """A union. Values that say their type themselves are bare; the others name the member they are of."""

    @cached_property
    def members(self) -> dict[str, Plan]:
        made: dict[str, Plan] = {}
        for each in union_members(self.declared):
            name = type_name(each)
            made[f"{name}#{len(made)}" if name in made else name] = plan_for(each)
        return made

    @cached_property
    def sole(self) -> Plan | None:
        """The X of `X | None`, which needs no name."""
        others = [plan for plan in self.members.values() if plan.declared is not NoneType]
        return others[0] if len(others) == 1 else None

    def dump(self, value: Any, depth: int = 0) -> Any:
        problem: Refused | None = None
        leaf = tags.is_leaf(type(value))
        for name, plan in self.members.items():
            if leaf and not isinstance(plan, Scalar | Tagged):
                continue
            try:
                data = plan.dump(value, depth)
            except Refused as refused:
                problem = _deeper(problem, refused)
                continue
            return data if leaf else self._named(name, plan, data)
        if leaf:  # a literal, or Any among the members
            for name, plan in self.members.items():
                try:
                    return self._named(name, plan, plan.dump(value, depth))
                except Refused:
                    continue
        raise problem if problem is not None and problem.path else self.unfit(value)

    def _named(self, name: str, plan: Plan, data: Any) -> Any:
        return data if plan is self.sole and data is not None else {"~of": [name, data]}

    def load(self, data: Any) -> Any:
        if tags.tagged(data) == "~of" and data["~of"][0] in self.members:
            name, data = data["~of"]
            return self.members[name].load(data)
        if data is not None and self.sole is not None:
            return self.sole.load(data)
        problem: Refused | None = None
        fitting = []
        for plan in self.members.values():
            try:
                value = plan.load(data)
            except Refused as refused:
                problem = _deeper(problem, refused)
                continue
            if isinstance(plan, Scalar | Tagged):
                return value
            fitting.append(value)
        if len(fitting) == 1:  # written before the type became a union
            return fitting[0]
        raise problem if problem is not None and problem.path else self.stored_unfit(data)

    def accept(self, value: Any, text: bool) -> Any:
        problem: Refused | None = None
        changed: list[tuple[int, Any]] = []
        for plan in self.members.values():
            try:
                made = plan.accept(value, text)
            except Refused as refused:
                if plan is self.sole:
                    problem = refused
                elif self.sole is None:
                    problem = _deeper(problem, refused)
                continue
            if made is value:
                return value
            changed.append((plan.takes(value) if type(value) is dict else 0, made))
        if changed:  # the one that drops the least of it, else the first
            return max(changed, key=operator.itemgetter(0))[1]
        raise problem if problem is not None and (problem.path or self.sole) else self.unfit(value)


def _deeper(one: Refused | None, other: Refused) -> Refused:
    """The refusal that got further into the value: the member that was meant."""
    return other if one is None or len(other.path) >= len(one.path) else one


class Alias(Plan):
    """A name for another type: NewType, a type alias, a type variable's bound. May be recursive."""

    @cached_property
    def target(self) -> Plan:
        return plan_for(unwrap(self.declared))

    def dump(self, value: Any, depth: int = 0) -> Any:
        return self.target.dump(value, depth)

    def load(self, data: Any) -> Any:
        return self.target.load(data)

    def accept(self, value: Any, text: bool) -> Any:
        return self.target.accept(value, text)

    def takes(self, value: dict[str, Any]) -> int:
        return self.target.takes(value)
