"""How is a class with declared fields written and read? Dataclasses, models, named tuples, TypedDicts.

Its state is its fields, each by its own annotation; what it keeps beside them would be lost, so it is
refused. Reading sets the fields and runs nothing of the class: `__init__`, `__post_init__` and validators
may change what they are given (hash a password, count something), and did so once already. A field that
was added since is its default; one that is gone is an error, because dropping data is not ours to decide.
"""

from __future__ import annotations

import operator
import typing
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cached_property
from types import MemberDescriptorType
from typing import Any, Generic, NotRequired, Required, get_args, get_origin, get_type_hints

from quiesce.codec import tags
from quiesce.codec.annotations import substitute, type_name
from quiesce.codec.foreign import Foreign
from quiesce.codec.leaves import Undeclared
from quiesce.codec.plan import Plan, plan_for
from quiesce.codec.refusal import Refused, short

__all__ = ["Dataclass", "Field", "Keys", "Model", "Named", "Record"]


class Field:
    """One declared part of a class: its plan, and what it is if it was not stored."""

    def __init__(self, declared: Any, default: Callable[[], Any] | None) -> None:
        self._declared = declared
        self.default = default

    @cached_property
    def plan(self) -> Plan:
        return plan_for(self._declared)


class Record(Plan):
    """A class whose state is its declared fields."""

    step = ".{}"

    def __init__(self, declared: Any, cls: Any) -> None:
        super().__init__(declared)
        self.cls = cls

    @property
    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """The declared fields, by name."""

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) is not self.cls:
            raise self._unfit_class(value)
        self._check_hidden(value)
        return self._dump_fields(value, depth)

    def _dump_fields(self, value: Any, depth: int) -> dict[str, Any]:
        tags.check_depth(depth)
        data = {}
        for name, field in self.fields.items():
            try:
                data[name] = field.plan.dump(getattr(value, name), depth + 1)
            except AttributeError:
                raise Refused(f"{self.name}.{name} is not set") from None
            except Refused as refused:
                refused.path.append(self.step.format(name))
                raise
        return data

    def _load_fields(self, data: Any) -> dict[str, Any]:
        if type(data) is not dict or any(key.startswith("~") for key in data):
            raise self.stored_unfit(data)
        unknown = [name for name in data if name not in self.fields]
        if unknown:
            raise Refused(f"{self.name} has no {_listed(unknown)} any more")
        values = {}
        for name, field in self.fields.items():
            if name not in data and field.default is None:
                raise Refused(f"{self.name} now has {name}, which is not stored and has no default")
            try:
                if name in data:
                    values[name] = field.plan.load(data[name])
                elif field.default is not None:
                    values[name] = _call(self, field.default, {})
            except Refused as refused:
                refused.path.append(self.step.format(name))
                raise
        return values

    def accept(self, value: Any, text: bool) -> Any:
        if type(value) is self.cls:
            return value
        if text and type(value) is dict:
            return self._accept_json(value)
        raise self._unfit_class(value)

    def _accept_json(self, value: dict[str, Any]) -> Any:
        return Foreign(self.declared).accept(value, True)

    def takes(self, value: dict[str, Any]) -> int:
        return sum(key in self.fields for key in value)

    def _unfit_class(self, value: Any) -> Refused:
        if isinstance(value, self.cls):
            name = type(value).__name__
            return Refused(
                f"expected {self.name}, got a {name}, which would come back as {self.name}; declare {name}"
            )
        return self.unfit(value)

    def _check_hidden(self, value: Any) -> None:
        """Refuse state that is not in the fields; what a cached property keeps is made again."""
        for name in getattr(value, "__dict__", ()):
            made_again = isinstance(getattr(self.cls, name, None), cached_property)
            if name not in self.fields and not made_again and name != "__orig_class__":  # typing's own note
                raise self._hidden(name)
        for name in self._other_slots:
            if hasattr(value, name):
                raise self._hidden(name)

    def _hidden(self, name: str) -> Refused:
        refused = Refused(f"{self.name} keeps {name} outside its declared fields; declare it as a field")
        refused.path.append(f".{name}")
        return refused

    @cached_property
    def _other_slots(self) -> list[str]:
        return [
            name
            for cls in self.cls.__mro__
            for name, member in vars(cls).items()
            if isinstance(member, MemberDescriptorType)
            and name not in self.fields
            and not name.startswith("__")
        ]


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))


class Dataclass(Record):
    """A dataclass: of the standard library, or pydantic's."""

    @cached_property
    def fields(self) -> dict[str, Field]:
        for cls in self.cls.__mro__[:-1]:
            if cls.__module__ == "builtins":
                raise Refused(
                    f"{self.name} is a {cls.__name__} too, and what that keeps is not in its fields"
                )
        hints = _hints_of(self.cls)
        bound = _bound_variables(self.cls, get_args(self.declared))
        return {
            field.name: Field(substitute(hints[field.name], bound), _default_of(field))
            for field in fields(self.cls)
        }

    def load(self, data: Any) -> Any:
        return self._build(self._load_fields(data))

    def _build(self, values: dict[str, Any]) -> Any:
        made = object.__new__(self.cls)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    def _accept_json(self, value: dict[str, Any]) -> Any:
        pseudo = len(self.cls.__dataclass_fields__) != len(fields(self.cls))  # InitVar
        if pseudo or hasattr(self.cls, "__pydantic_validator__"):
            return super()._accept_json(value)
        taken = [field.name for field in fields(self.cls) if field.init]
        return _call(self, self.cls, _accept_fields(self, value, taken))


def _default_of(field: Any) -> Callable[[], Any] | None:
    if hasattr(field.default, "get_default"):  # pydantic's Field() in a pydantic dataclass
        return _model_default(field.default)
    if field.default_factory is not MISSING:
        return field.default_factory  # type: ignore[no-any-return]
    return None if field.default is MISSING else _always(field.default)


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


def _accept_fields(plan: Record, value: dict[str, Any], taken: Iterable[str]) -> dict[str, Any]:
    """JSON for a class: known names only, nothing required missing, each part as its field wants it."""
    names = list(taken)
    if unknown := [name for name in value if name not in names]:
        raise Refused(f"{plan.name} has no {_listed(unknown)}; it has {_listed(names)}")
    made = {}
    for name, field in plan.fields.items():
        if name in value:
            try:
                made[name] = field.plan.accept(value[name], True)
            except Refused as refused:
                refused.path.append(plan.step.format(name))
                raise
        elif field.default is None and name in names:
            raise Refused(f"{plan.name} needs {name}, got {short(value)}")
    return made


def _call(plan: Plan, make: Callable[..., Any], values: dict[str, Any]) -> Any:
    try:
        return make(**values)
    except Exception as error:  # what the class itself has against these values
        raise Refused(f"{plan.name} refuses {short(values)}: {error}") from error


def _hints_of(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError:
        pass
    try:  # a class inside a function that names itself, or one of make_dataclass, which names typing.Any
        return get_type_hints(cls, localns={cls.__name__: cls, "typing": typing}, include_extras=True)
    except NameError as error:
        raise Refused(
            f"the annotations of {type_name(cls)} cannot be resolved: {error}; define it in the same module"
        ) from None


def _bound_variables(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """What each type variable of a generic class and of its bases stands for."""
    bound = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    for base in getattr(cls, "__orig_bases__", ()):
        origin = get_origin(base)
        if origin is not None and origin is not Generic:
            given = tuple(substitute(argument, bound) for argument in get_args(base))
            bound |= _bound_variables(origin, given)
    return bound


class Named(Record):
    """A NamedTuple."""

    @cached_property
    def fields(self) -> dict[str, Field]:
        hints = _hints_of(self.cls)
        bound = _bound_variables(self.cls, get_args(self.declared))
        defaults = self.cls._field_defaults
        return {
            name: Field(
                substitute(hints.get(name, Any), bound),
                _always(defaults[name]) if name in defaults else None,
            )
            for name in self.cls._fields
        }

    def load(self, data: Any) -> Any:
        return self._build(self._load_fields(data))

    def _build(self, values: dict[str, Any]) -> Any:
        return tuple.__new__(self.cls, values.values())

    def _accept_json(self, value: dict[str, Any]) -> Any:
        return _call(self, self.cls, _accept_fields(self, value, self.fields))

    def accept(self, value: Any, text: bool) -> Any:
        if text and type(value) is list and len(value) <= len(self.fields):
            value = dict(zip(self.fields, value, strict=False))
        return super().accept(value, text)


class Keys(Record):
    """A TypedDict: a plain dict with declared keys. Further keys are kept as undeclared values."""

    step = "['{}']"

    @cached_property
    def fields(self) -> dict[str, Field]:
        bound = _bound_variables(self.cls, get_args(self.declared))
        return {name: Field(substitute(hint, bound), None) for name, hint in self._hints.items()}

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return _hints_of(self.cls)

    @cached_property
    def required(self) -> set[str]:
        """The keys that must be there. The class does not know where its annotations were text."""
        marks = {name: get_origin(hint) for name, hint in self._hints.items()}
        return {
            name
            for name, mark in marks.items()
            if mark is Required or (name in self.cls.__required_keys__ and mark is not NotRequired)
        }

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) is not dict or not self.required <= value.keys():
            raise self.unfit(value)
        tags.check_depth(depth)
        data = {}
        for key, item in value.items():
            if type(key) is not str or tags.dump(key) is not key:
                raise Refused(f"{self.name} has the key {short(key)}; its keys are text")
            with self._at(key) as plan:
                data[key] = plan.dump(item, depth + 1)
        return data

    def load(self, data: Any) -> Any:
        if type(data) is not dict or not self.required <= data.keys():
            raise self.stored_unfit(data)
        made = {}
        for key, item in data.items():
            with self._at(key) as plan:
                made[key] = plan.load(item)
        return made

    def accept(self, value: Any, text: bool) -> Any:
        if type(value) is not dict:
            raise self.unfit(value)
        if missing := sorted(self.required - value.keys()):
            raise Refused(f"{self.name} needs {_listed(missing)}, got {short(value)}")
        if unknown := [key for key in value if key not in self.fields]:
            raise Refused(f"{self.name} has no {_listed(unknown)}; it has {_listed(self.fields)}")
        made = {}
        for key, item in value.items():
            with self._at(key) as plan:
                made[key] = plan.accept(item, text)
        return value if all(map(operator.is_, value.values(), made.values())) else made

    @contextmanager
    def _at(self, key: str) -> Iterator[Plan]:
        try:
            yield self.fields[key].plan if key in self.fields else _UNDECLARED
        except Refused as refused:
            refused.path.append(self.step.format(key))
            raise


_UNDECLARED = Undeclared(Any)


class Model(Record):
    """A pydantic model: its fields, and beside them what else its state has (fields set, extra, private)."""

    @cached_property
    def fields(self) -> dict[str, Field]:
        if not self.cls.__pydantic_complete__:
            self.cls.model_rebuild()
        return {
            name: Field(info.rebuild_annotation(), _model_default(info))
            for name, info in self.cls.model_fields.items()
        }

    def dump(self, value: Any, depth: int = 0) -> Any:
        if type(value) is not self.cls:
            raise self._unfit_class(value)
        try:
            return self._dump_state(value, depth)
        except Refused as refused:
            # A part that only the model's own serializers and validators know how to write.
            try:
                return {"~json": self._whole.dump(value, depth)}
            except Refused:
                raise refused from None

    def takes(self, value: dict[str, Any]) -> int:
        infos = self.cls.model_fields.items()
        names = [name for field, info in infos for name in (field, info.alias, info.validation_alias)]
        return sum(key in names for key in value)

    @cached_property
    def _whole(self) -> Foreign:
        return Foreign(self.declared)

    def _dump_state(self, value: Any, depth: int) -> Any:
        self._check_hidden(value)
        data = self._dump_fields(value, depth)
        chosen = [name for name in data if name in value.model_fields_set]
        extra = self._dump_parts(value.__pydantic_extra__, depth)
        private = self._dump_parts(value.__pydantic_private__, depth)
        if len(chosen) == len(data) and not extra and not private:
            return data
        return {"~model": {"fields": data, "set": chosen, "extra": extra, "private": private}}

    def _dump_parts(self, parts: dict[str, Any] | None, depth: int) -> dict[str, Any] | None:
        if parts is None:
            return None
        data = {}
        for name, part in parts.items():
            try:
                data[name] = tags.dump(part, depth + 1)
            except Refused as refused:
                refused.path.append(f".{name}")
                raise
        return data

    def load(self, data: Any) -> Any:
        tag = tags.tagged(data)
        if tag == "~json":
            return self._whole.load(data[tag])
        state = (
            data[tag] if tag == "~model" else {"fields": data, "set": None, "extra": None, "private": None}
        )
        values = self._load_fields(state["fields"])
        made = self.cls.__new__(self.cls)
        extra, private = (
            None if state[part] is None else {name: tags.load(each) for name, each in state[part].items()}
            for part in ("extra", "private")
        )
        if self.cls.model_config.get("extra") == "allow" and extra is None:
            extra = {}
        made.__setstate__(
            {
                "__dict__": values,
                "__pydantic_extra__": extra,
                "__pydantic_fields_set__": set(values if state["set"] is None else state["set"]),
                "__pydantic_private__": private,
            }
        )
        return made

    @cached_property
    def _other_slots(self) -> list[str]:
        return []


def _model_default(info: Any) -> Callable[[], Any] | None:
    return None if info.is_required() else lambda: info.get_default(call_default_factory=True)
