"""What are the arguments of one call, by name: for its place in the journal, and for a person to see?

Source: spec agent, "Steps and the journal" (a digest of the arguments); "Actions that need approval".
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from quiesce import codec
from quiesce.errors import InputRejected, NotSerializable
from quiesce.graph.shapes import Annotation

__all__ = ["Parameters"]


class Parameters:
    """The parameters of a function that is called in a body."""

    def __init__(self, function: Any) -> None:
        self._signature = inspect.signature(function)
        scope = getattr(inspect.unwrap(function), "__globals__", {})
        self._declared = {
            name: Annotation(item.annotation, scope, {})
            for name, item in self._signature.parameters.items()
            if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
        }
        self._returns = Annotation(self._signature.return_annotation, scope, {})

    def __str__(self) -> str:
        return f"({', '.join(self._signature.parameters)})"

    @property
    def returns(self) -> Any:
        """The declared type of the value, None if none is declared."""
        return self._returns.type

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name. Raises TypeError: they do not fit the function."""
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def complete(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as they are passed, with the defaults of those that are not."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def digest(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str) -> str:
        """A short name for these arguments.

        Raises:
            NotSerializable: one of them cannot be stored.
        """
        told = {
            name: self._packed(name, value, f"argument {name!r} of {what}").decode()
            for name, value in self.bind(args, kwargs).items()
        }
        return codec.digest(codec.encode(told))

    def _packed(self, name: str, value: Any, place: str) -> bytes:
        declared = self._declared[name].type if name in self._declared else None
        for kind in (declared, None):
            try:
                return codec.encode(value, kind, place=place)
            except NotSerializable as error:
                refused = error
        try:  # only a digest is made of it, so its own type will do
            return codec.encode(value, type(value), place=place)
        except NotSerializable:
            raise refused from None

    # --- for a person who approves them ----------------------------------------------------------------

    def shown(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str) -> dict[str, Any]:
        """The exact arguments as JSON, defaults included, from which `read` makes them again.

        Raises:
            NotSerializable: one of them has no JSON form that a person could see and send back.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found = {}
        for name, value in bound.arguments.items():
            place = f"argument {name!r} of {what}"
            declared = self._declared[name].type if name in self._declared else None
            found[name] = codec.jsonable(value, place=place)
            if declared is None or _comes_back(value, found[name], declared):
                continue
            found[name] = codec.jsonable(value, chosen=declared, place=place)  # a model knows what was set
            if not _comes_back(value, found[name], declared):
                raise NotSerializable(
                    f"{place} cannot be approved: as JSON it would not come back as the same "
                    f"{codec.type_name(declared)}; pass what it is made from",
                    place=place,
                )
        return found

    def schema(self) -> dict[str, Any]:
        """What arguments a person may give instead."""
        named = {name: codec.schema(declared.type) or {} for name, declared in self._declared.items()}
        return {"type": "object", "properties": named, "additionalProperties": False}

    def read(self, shown: Mapping[str, Any], what: str) -> dict[str, Any]:
        """The arguments by name, from their JSON. Raises InputRejected: they do not fit."""
        found = {}
        for name, value in shown.items():
            declared = self._declared[name].type if name in self._declared else None
            place = f"argument {name!r} of {what}"
            found[name] = value if declared is None else codec.validate_json(value, declared, place=place)
        return found

    def call(self, named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by name as they are passed."""
        bound = inspect.BoundArguments(self._signature, dict(named))
        return bound.args, bound.kwargs


def _comes_back(value: Any, shown: Any, declared: Any) -> bool:
    try:
        again = codec.validate_json(shown, declared)
        return codec.encode(again, declared) == codec.encode(value, declared)
    except (InputRejected, NotSerializable):
        return False
