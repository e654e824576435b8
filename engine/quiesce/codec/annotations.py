"""What does an annotation say: is anything declared, what is it called, can one value fit another's?

`None`, a missing annotation, `Any`, `object` and a name that nobody resolved all declare nothing. The
type of None itself is `type(None)`, as `typing.get_type_hints` writes it.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

__all__ = [
    "fits",
    "is_undeclared",
    "is_union",
    "resolve",
    "substitute",
    "type_name",
    "union_members",
    "unwrap",
]

_WRAPPERS = {
    getattr(typing, name)
    for name in ("Required", "NotRequired", "Final", "ClassVar", "ReadOnly")
    if hasattr(typing, name)
}
_WRAPPER_NAMES = {"Required", "NotRequired", "ReadOnly"}  # the same words of typing_extensions


def is_undeclared(declared: object) -> bool:
    """Whether the annotation says nothing about the value."""
    return (
        declared is None
        or declared is inspect.Parameter.empty
        or declared is Any
        or declared is object
        or isinstance(declared, str | ForwardRef)
    )


def unwrap(declared: Any) -> Any:
    """The annotation under one layer of NewType, type alias, Required, Final; itself if there is none."""
    if isinstance(declared, typing.NewType):
        return declared.__supertype__
    if type(declared).__name__ == "TypeAliasType":
        return declared.__value__
    if isinstance(declared, TypeVar):
        if declared.__constraints__:
            return Union[declared.__constraints__]  # noqa: UP007 - of as many as there are
        return Any if declared.__bound__ is None else declared.__bound__
    origin: Any = get_origin(declared)
    if origin in _WRAPPERS or getattr(origin, "_name", None) in _WRAPPER_NAMES:
        return get_args(declared)[0]
    if type(origin).__name__ == "TypeAliasType":
        return substitute(
            origin.__value__, dict(zip(origin.__type_params__, get_args(declared), strict=False))
        )
    return declared


def resolve(declared: Any) -> Any:
    """The annotation under all its layers, Annotated included."""
    while True:
        inner = declared.__origin__ if get_origin(declared) is Annotated else unwrap(declared)
        if inner is declared:
            return declared
        declared = inner


def is_union(declared: object) -> bool:
    """Whether it is a union, in either spelling."""
    return get_origin(declared) in (Union, types.UnionType)


def union_members(declared: Any) -> tuple[Any, ...]:
    """The members of a union, unions inside it flattened (Annotated members stay whole)."""
    members: list[Any] = []
    for member in get_args(declared):
        inner = unwrap(member)
        members += union_members(inner) if is_union(inner) else [member]
    return tuple(members)


def substitute(declared: Any, bound: Mapping[Any, Any]) -> Any:
    """`declared` with its type variables replaced; one that nobody bound declares nothing."""
    if isinstance(declared, TypeVar):
        return bound.get(declared, declared)
    parameters = getattr(declared, "__parameters__", ())
    if not parameters or isinstance(declared, type):
        return declared
    return declared[tuple(bound.get(parameter, parameter) for parameter in parameters)]


# --- names ---------------------------------------------------------------------------------------------


def type_name(declared: Any) -> str:
    """The annotation as a reader would write it, such as `list[Survey]`.

    The same in every process: no module (a flow may be `__main__` here and imported there), no memory
    address, no metadata.
    """
    if declared is inspect.Parameter.empty or declared is Any:
        return "Any"
    if declared is None or declared is types.NoneType:
        return "None"
    if declared is Ellipsis:
        return "..."
    if isinstance(declared, str):
        return declared
    if isinstance(declared, ForwardRef):
        return declared.__forward_arg__
    if isinstance(declared, list | tuple):  # the parameters of a Callable
        return f"[{', '.join(map(type_name, declared))}]"
    origin = get_origin(declared)
    if origin is Annotated:
        return type_name(declared.__origin__)
    if is_union(declared):
        return " | ".join(map(type_name, get_args(declared)))
    if origin is Literal:
        return f"Literal[{', '.join(map(_literal_name, get_args(declared)))}]"
    if origin is not None and (arguments := get_args(declared)):
        return f"{_bare_name(origin)}[{', '.join(map(type_name, arguments))}]"
    return _bare_name(declared if origin is None else origin)


def _bare_name(declared: Any) -> str:
    for attribute in ("__qualname__", "__name__", "_name"):
        name = getattr(declared, attribute, None)
        if isinstance(name, str):
            return name.rpartition("<locals>.")[2]
    return type(declared).__name__


def _literal_name(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


# --- can it fit? ---------------------------------------------------------------------------------------


def fits(produced: Any, accepted: Any) -> bool:
    """Whether a value annotated `produced` can be taken where `accepted` is annotated.

    False means that it certainly cannot; everything that only the value can tell is True, so a graph is
    refused for a mistake and never for a lack of annotations.
    """
    produced, accepted = _known(produced), _known(accepted)
    if produced is Any or accepted is Any:
        return True
    if is_union(produced):
        return any(fits(member, accepted) for member in union_members(produced))
    if is_union(accepted):
        return any(fits(produced, member) for member in union_members(accepted))
    if get_origin(produced) is Literal:
        return any(_literal_fits(value, accepted) for value in get_args(produced))
    if get_origin(accepted) is Literal:
        return any(fits(type(value), produced) for value in get_args(accepted))
    return _classes_fit(produced, accepted)


def _known(declared: Any) -> Any:
    if isinstance(declared, TypeVar):
        return Any
    declared = resolve(declared)
    return Any if is_undeclared(declared) else declared


def _literal_fits(value: object, accepted: Any) -> bool:
    if get_origin(accepted) is Literal:
        return any(type(value) is type(other) and value == other for other in get_args(accepted))
    return fits(type(value), accepted)


def _classes_fit(produced: Any, accepted: Any) -> bool:
    from_class, to_class = _runtime_class(produced), _runtime_class(accepted)
    if not isinstance(from_class, type) or not isinstance(to_class, type):
        return True
    if to_class is float and from_class is int:
        return True
    if to_class is complex and from_class in (int, float):
        return True
    try:
        up, down = issubclass(from_class, to_class), issubclass(to_class, from_class)
    except TypeError:  # a protocol that can only be checked by calling it
        return True
    if not up:
        # A producer may promise its base class and return the very subclass; nobody promises `int` to
        # return a bool.
        return down and to_class is not bool
    return _arguments_fit(from_class, get_args(produced), to_class, get_args(accepted))


def _runtime_class(declared: Any) -> Any:
    base = get_origin(declared) or declared
    return dict if hasattr(base, "__required_keys__") else base


_COLLECTIONS: tuple[type, ...] = (collections.abc.Iterable, collections.abc.Container)


def _arguments_fit(from_class: type, given: tuple[Any, ...], to_class: type, wanted: tuple[Any, ...]) -> bool:
    if not given or not wanted:
        return True
    if from_class is tuple:
        return _tuple_fits(given, to_class, wanted)
    if from_class is not to_class and not (_builtin(from_class) and issubclass(to_class, _COLLECTIONS)):
        return True  # which parameter of a subclass is which of its base is not ours to guess
    if to_class is type or issubclass(to_class, collections.abc.Callable):  # type: ignore[arg-type]
        return True
    return _all_fit(zip(given, wanted, strict=False))


def _builtin(cls: type) -> bool:
    return cls.__module__ in ("builtins", "collections", "collections.abc")


def _tuple_fits(given: tuple[Any, ...], to_class: type, wanted: tuple[Any, ...]) -> bool:
    if to_class is not tuple:
        return _all_fit((item, wanted[0]) for item in given if item is not Ellipsis)
    if wanted[-1] is Ellipsis:
        return _all_fit((item, wanted[0]) for item in given if item is not Ellipsis)
    if given[-1] is Ellipsis:
        return _all_fit((given[0], item) for item in wanted)
    return len(given) == len(wanted) and _all_fit(zip(given, wanted, strict=True))


def _all_fit(pairs: Iterable[tuple[Any, Any]]) -> bool:
    return all(fits(produced, accepted) for produced, accepted in pairs)
