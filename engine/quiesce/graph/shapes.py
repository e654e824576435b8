"""What does a callable take and give, as far as its signature and annotations say?

Annotations are read one by one, so that one which cannot be resolved does not spoil the others. A name
is looked up in the frame that registers the callable (classes of a function's body are found there
only), then in the callable's module, now or later, since a node may name a class that the module
defines further down. What can never be resolved, such as a name imported under `TYPE_CHECKING`, counts
as not annotated; a signature still shows its text.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping
from types import MethodType, SimpleNamespace
from typing import Any

from quiesce.codec import type_name
from quiesce.errors import GraphError

__all__ = ["NOT_ANNOTATED", "Annotation", "Shape", "read_shape"]

_UNKNOWN: Any = object()


class Annotation:
    """One annotation, resolved as soon as it can be."""

    __slots__ = ("_globals", "_known", "_raw")

    def __init__(self, raw: Any, globals: Mapping[str, Any], locals: Mapping[str, Any]) -> None:
        self._raw = raw
        self._globals = globals
        self._known = _resolve(raw, globals, locals)

    @classmethod
    def of(cls, declared: Any) -> Annotation:
        """One that needs no resolving."""
        return cls(inspect.Parameter.empty if declared is None else declared, {}, {})

    @property
    def type(self) -> Any:
        """The type, or None if none is declared or it cannot be resolved (yet). `-> None` is NoneType."""
        if self._known is _UNKNOWN:
            self._known = _resolve(self._raw, self._globals, {})
        return None if self._known is _UNKNOWN else self._known

    @property
    def text(self) -> str | None:
        """The type for a reader, also where it could not be resolved; None if nothing is declared."""
        if (known := self.type) is not None:
            return type_name(known)
        return None if self._known is None else str(getattr(self._raw, "__forward_arg__", self._raw))


class Shape:
    """The positional parameters of a callable, and what it returns."""

    __slots__ = ("is_async", "required", "returns", "takes", "wants_context")

    def __init__(
        self,
        takes: tuple[Annotation, ...],
        required: int,
        returns: Annotation,
        *,
        is_async: bool,
        wants_context: bool,
    ) -> None:
        self.takes = takes
        self.required = required
        self.returns = returns
        self.is_async = is_async
        self.wants_context = wants_context

    @property
    def first(self) -> Annotation:
        """The annotation of its first parameter."""
        return self.takes[0] if self.takes else NOT_ANNOTATED

    @property
    def gives(self) -> Annotation:
        """The annotation of its result; `-> Awaitable[X]` of a plain function gives X, like `async`."""
        declared = self.returns.type
        origin = typing.get_origin(declared)
        if isinstance(origin, type) and issubclass(origin, Awaitable):
            return Annotation.of(typing.get_args(declared)[-1])
        return self.returns


def read_shape(function: Callable[..., Any], what: str, locals: Mapping[str, Any], *, most: int = 2) -> Shape:
    """Read a callable that is called with one argument, or with two if it wants a second.

    Args:
        what: what it is, for the error: "node 'render'".
        locals: where names of its annotations are looked up first.
        most: how many arguments there are at most.

    Raises:
        GraphError: it is a generator, takes nothing, or needs more than it is given.
    """
    inner = _underlying(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise GraphError(f"{what} is a generator function; it must return one value, not yield several")
    is_async = inspect.iscoroutinefunction(inner)
    try:
        signature = _signature(function)
    except ValueError:  # a builtin that does not say
        return Shape((NOT_ANNOTATED,), 1, NOT_ANNOTATED, is_async=is_async, wants_context=False)
    globals = getattr(inspect.unwrap(inner), "__globals__", {})
    takes: list[Annotation] = []
    required = 0
    variadic = False
    second: inspect.Parameter | None = None
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = True
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise GraphError(f"{what} needs the keyword argument {parameter.name!r}, which nobody gives it")
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            takes.append(_annotation(parameter.annotation, globals, locals))
            required += parameter.default is parameter.empty
            second = parameter if len(takes) == 2 else second
    if not takes and not variadic:
        raise GraphError(f"{what} takes no argument; it is called with one value, so it needs a parameter")
    if required > most:
        raise GraphError(f"{what} needs {required} arguments; it is called with {most} at most")
    return Shape(
        tuple(takes),
        required,
        _annotation(signature.return_annotation, globals, locals),
        is_async=is_async,
        wants_context=second is not None and _is_context(second, takes[1]),
    )


def _is_context(parameter: inspect.Parameter, annotation: Annotation) -> bool:
    """A second parameter without a default is the context; one with a default only if it says so."""
    if parameter.default is parameter.empty:
        return True
    return parameter.name in ("ctx", "context") or (annotation.text or "").endswith("NodeContext")


def _annotation(raw: Any, globals: Mapping[str, Any], locals: Mapping[str, Any]) -> Annotation:
    return NOT_ANNOTATED if raw is inspect.Parameter.empty else Annotation(raw, globals, locals)


def _resolve(raw: Any, globals: Mapping[str, Any], locals: Mapping[str, Any]) -> Any:
    """The type that is meant; None for no annotation at all, _UNKNOWN if a name is not (yet) there."""
    if raw is inspect.Parameter.empty:
        return None
    if isinstance(raw, type) and raw is not type(None):
        return raw
    holder = SimpleNamespace(__annotations__={"it": raw})
    try:
        return typing.get_type_hints(holder, dict(globals), dict(locals), include_extras=True)["it"]
    except Exception:  # whatever evaluating somebody's annotation may raise
        return _UNKNOWN


def _underlying(function: Any) -> Any:
    """The function that runs in the end: without partials, bound methods and `__call__`."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif not inspect.isroutine(function) and not isinstance(function, type):
            call = type(function).__call__
            if not inspect.isfunction(call):
                return function
            function = call
        else:
            return function


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # Annotations are evaluated on demand there; a name that is not defined yet must not raise.
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


NOT_ANNOTATED = Annotation.of(None)
