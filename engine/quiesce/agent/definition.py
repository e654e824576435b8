"""What is an agent: a function whose body may be suspended, as a flow that a runtime can start.

Its parameters are its input: one parameter takes the input as it is, several take an object by name, none
takes nothing. Called like the function that it was, it runs as plain code (for tests, and for an agent
that uses another one as a helper).

Source: spec agent, "Body and lifecycle"; spec engine, 7 (several parameters are an object by name).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NotRequired, ParamSpec, TypedDict, TypeVar, overload

from quiesce import codec
from quiesce.errors import InputRejected
from quiesce.flows import DefinedIn
from quiesce.graph.shapes import Annotation

__all__ = ["Agent", "agent", "changes"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    declared: Annotation
    required: bool


class Agent(Generic[P, R]):
    """A flow whose runs execute one function. Made by `@agent`."""

    kind = "agent"

    def __init__(
        self,
        function: Callable[P, R],
        name: str | None,
        version: str | None,
        names: Mapping[str, Any],
        max_lost_attempts: int = 3,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.version = version
        self.max_lost_attempts = max_lost_attempts
        self.defined_in = DefinedIn.of(function.__globals__)
        self.is_async = inspect.iscoroutinefunction(function)
        self._parameters = _parameters(function, self.name, names)
        self._returns = Annotation(inspect.signature(function).return_annotation, function.__globals__, names)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it is."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<agent {self.name}>"

    @property
    def input_type(self) -> Any:
        """What an input must be: the type of the only parameter, or an object with all of them by name."""
        if len(self._parameters) == 1:
            only = self._parameters[0]
            return only.declared.type if only.required else _optional(only.declared.type)
        return self._object if self._parameters else type(None)

    @functools.cached_property
    def _object(self) -> Any:
        fields: dict[str, Any] = {}
        for item in self._parameters:
            declared = item.declared.type or Any
            fields[item.name] = declared if item.required else NotRequired[declared]
        return TypedDict(self.name, fields)  # type: ignore[operator]

    @property
    def output_type(self) -> Any:
        """What the function says it returns; None if it does not say."""
        return self._returns.type

    def check_input(self, value: Any) -> Any:
        """The input as it will be kept and given.

        Raises:
            InputRejected: it does not fit the parameters.
        """
        if not self._parameters and value is not None:
            raise InputRejected(f"input: agent {self.name!r} has no parameters, but got {value!r}")
        if len(self._parameters) > 1 and value is None:
            value = {}
        if len(self._parameters) > 1 and not isinstance(value, Mapping):
            names = ", ".join(item.name for item in self._parameters)
            raise InputRejected(
                f"input: agent {self.name!r} has several parameters ({names}), so its input is an object of "
                f"them by name, not {value!r} ({type(value).__name__})"
            )
        declared = self.input_type
        return value if declared is None else codec.validate(value, declared, place="input")

    def call(self, value: Any) -> Any:
        """Call the function with an input that was checked; of an async one this is a coroutine."""
        function: Callable[..., Any] = self.function
        if len(self._parameters) > 1:
            return function(**value)
        if not self._parameters or (value is None and not self._parameters[0].required):
            return function()
        return function(value)

    def signature(self) -> dict[str, Any]:
        """What its runs depend on, as JSON."""
        return {
            "async": self.is_async,
            "parameters": [[item.name, item.declared.text, item.required] for item in self._parameters],
            "returns": self._returns.text,
        }


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
    """What changed from one signature to the other, a line each."""
    before = {name: (text, required) for name, text, required in old["parameters"]}
    after = {name: (text, required) for name, text, required in new["parameters"]}
    lines = [f"parameter {name!r} was removed" for name in before if name not in after]
    lines += [f"parameter {name!r} was added" for name in after if name not in before]
    for name in before:
        if name in after and before[name] != after[name]:
            lines.append(f"parameter {name!r}: {_told(*before[name])} -> {_told(*after[name])}")
    if old["returns"] != new["returns"]:
        lines.append(f"returns {old['returns'] or 'unknown'} -> {new['returns'] or 'unknown'}")
    if old["async"] != new["async"]:
        lines.append("it is async now" if new["async"] else "it is not async any more")
    if not lines and old != new:
        lines.append("the order of the parameters changed")
    return lines


def _told(text: str | None, required: bool) -> str:
    return (text or "unknown") + ("" if required else ", optional")


def _optional(declared: Any) -> Any:
    return declared if declared in (None, Any) else declared | None


def _parameters(function: Callable[..., Any], name: str, names: Mapping[str, Any]) -> tuple[_Parameter, ...]:
    found = []
    for item in inspect.signature(function).parameters.values():
        if item.kind not in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY):
            raise TypeError(
                f"agent {name!r}: the parameter {str(item)!r} has no name that an input could give; "
                "use plain parameters"
            )
        declared = Annotation(item.annotation, function.__globals__, names)
        found.append(_Parameter(item.name, declared, item.default is item.empty))
    return tuple(found)


@overload
def agent(function: Callable[P, R], /) -> Agent[P, R]: ...
@overload
def agent(
    *, name: str | None = None, version: str | None = None, max_lost_attempts: int = 3
) -> Callable[[Callable[P, R]], Agent[P, R]]: ...
def agent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    max_lost_attempts: int = 3,
) -> Any:
    """Make a function (`def` or `async def`) a flow: its body may pause, mid-statement, at any depth.

    Args:
        name: what a person calls it; default is the function's name.
        version: what its runs are tied to; default is a digest of its signature.
        max_lost_attempts: how many processes may die while its body runs, before its run is paused as poison
            instead of being tried again.

    Raises:
        TypeError: the function cannot be a body: it is a generator, a lambda, a class, or has parameters
            without a name.
        ValueError: `max_lost_attempts` is no number from 1.
    """
    names = sys._getframe(1).f_locals
    if function is not None:
        return _make(function, name, version, names, max_lost_attempts)
    return lambda function: _make(function, name, version, names, max_lost_attempts)


def _make(
    function: Any, name: str | None, version: str | None, names: Mapping[str, Any], max_lost: int
) -> Agent[Any, Any]:
    if not inspect.isfunction(function):
        raise TypeError(f"@agent takes a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"@agent: {function.__qualname__} is a generator function; calling it would run nothing. "
            "Call pause() where it yields"
        )
    if function.__name__ == "<lambda>":
        raise TypeError("@agent: a lambda has no name that another process could find; write a def")
    if isinstance(max_lost, bool) or not isinstance(max_lost, int) or max_lost < 1:
        raise ValueError(f"@agent: max_lost_attempts is a number from 1, not {max_lost!r}")
    return Agent(function, name, version, names, max_lost)
