"""Which flow does a reference name, and which reference leads to a flow?

A run is tied to its flow by a reference that another process can follow: `package.module:name`, or
`/absolute/file.py:name` for a file that is no module of a package (a script, an example). Nothing is
imported but the module that the reference names, and only when a run of it is to be driven.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from quiesce.errors import FlowNotFound, FlowNotImportable

__all__ = ["DefinedIn", "Flow", "Flows", "is_flow", "load", "reference"]

_FILE_MODULE = "quiesce_flow_"
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class DefinedIn:
    """Where a flow was made, so that a reference to it can be found."""

    module: str
    """`__name__` of that module; `__main__` in a script."""
    file: str | None
    """Its absolute path; None where there is no file, such as a shell."""

    @classmethod
    def of(cls, module: dict[str, Any]) -> DefinedIn:
        """The module that has these globals."""
        file = module.get("__file__")
        return cls(module.get("__name__", "?"), os.path.abspath(file) if file else None)


@runtime_checkable
class Flow(Protocol):
    """What every definition has: a graph, an agent or a team."""

    kind: str
    name: str
    version: str | None
    defined_in: Any


def reference(flow: Any) -> tuple[str, bool]:
    """The reference of a flow, and whether another process can follow it.

    A flow that was made inside a function, or is no module-level name, has a reference that only this
    process knows: `module:<its own name>`.
    """
    module_name, file = flow.defined_in.module, flow.defined_in.file
    module = sys.modules.get(module_name)
    is_file = module_name == "__main__" or module_name.startswith(_FILE_MODULE)
    place = file if is_file and file else module_name
    if is_file and not file:
        return f"{place}:<{flow.name}>", False
    for name, value in vars(module).items() if module is not None else ():
        if value is flow and name.isidentifier():
            return f"{place}:{name}", True
    return f"{place}:<{flow.name}>", False


def load(text: str) -> Any:
    """The flow that a reference names; its module is imported. `module:team.member` is a body of a team.

    Raises:
        FlowNotFound: there is no such file, module or name, or what has the name is no flow.
        FlowNotImportable: the module raised while it was imported.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise FlowNotFound(
            f"{text!r} names no flow: write package.module:name or path/file.py:name", flow=text
        )
    name, _, part = name.partition(".")
    if not name.isidentifier():
        raise FlowNotFound(
            f"flow {text!r} was no module-level name where it was made, so it cannot be found again; "
            "give it to this process with Runtime(flows=[…])",
            flow=text,
        )
    module = _from_file(place, text) if place.endswith(".py") or os.sep in place else _from_name(place, text)
    try:
        flow = getattr(module, name)
    except AttributeError:
        flows = sorted(key for key, value in vars(module).items() if is_flow(value))
        has = f"; it has {', '.join(flows)}" if flows else ""
        raise FlowNotFound(f"{place} has no {name!r}{has}", flow=text) from None
    if not is_flow(flow):
        raise FlowNotFound(
            f"{text} is a {type(flow).__name__}, not a flow (a Graph, an @agent function or a Team)",
            flow=text,
        )
    if not part:
        return flow
    parts = getattr(flow, "participants", {})
    if part not in parts:
        has = f"; it has {', '.join(parts)}" if parts else ", which has no parts"
        raise FlowNotFound(f"{place}:{name} is a {flow.kind} without {part!r}{has}", flow=text)
    return parts[part]


def is_flow(value: Any) -> bool:
    """Whether this is a definition that a run can be started of."""
    return isinstance(value, Flow) and not isinstance(value, type)


def _from_file(place: str, text: str) -> Any:
    path = os.path.abspath(place)
    if not os.path.isfile(path):
        raise FlowNotFound(f"there is no file {path}, so flow {text!r} cannot be loaded", flow=text)
    main = sys.modules.get("__main__")
    if main is not None and os.path.abspath(getattr(main, "__file__", None) or "?") == path:
        return main
    name = _FILE_MODULE + hashlib.sha256(path.encode()).hexdigest()[:16]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FlowNotFound(f"{path} is no Python file", flow=text)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python file.py` would: its siblings can be imported
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(path, text, error) from error
    return module


def _from_name(place: str, text: str) -> Any:
    if place in sys.modules:
        return sys.modules[place]
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise FlowNotFound(
                f"there is no module {place!r} here, so flow {text!r} cannot be loaded; run where it can be "
                "imported, or pass the flow with flows=",
                flow=text,
            ) from None
        raise _broken(place, text, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, text, error) from error


def _broken(place: str, text: str, error: BaseException) -> FlowNotImportable:
    where = ""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame.f_code.co_filename
        if "importlib" not in frame and not frame.startswith(_PACKAGE):
            where = f" ({frame}, line {trace.tb_lineno})"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({error.filename}, line {error.lineno})"
    return FlowNotImportable(f"{place} cannot be imported: {type(error).__name__}: {error}{where}", flow=text)


class Flows:
    """The flows that a runtime has at hand, by reference; others are loaded when they are needed."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._private: dict[int, tuple[str, Any]] = {}
        """References that only this process knows, by the identity of their flows, which are kept."""
        self._namesakes: Counter[str] = Counter()

    def add(self, flow: Any) -> tuple[str, bool]:
        """Remember a flow; returns its reference and whether another process can follow that.

        Flows that share a name which nobody can import (clones, for one) are told apart by the order in
        which they come: `module:<its name>`, then `module:<its name>~2`.
        """
        if (private := self._private.get(id(flow))) is not None:
            return private[0], False
        found, importable = reference(flow)
        if not importable:
            self._namesakes[found] += 1
            found += f"~{count}" if (count := self._namesakes[found]) > 1 else ""
            self._private[id(flow)] = found, flow
        self._known[found] = flow
        return found, importable

    def put(self, text: str, flow: Any) -> None:
        """Remember a flow under a reference that it had somewhere else (`flowctl --flow`)."""
        self._known[text] = flow

    def names(self) -> list[str]:
        """The references that are at hand."""
        return list(self._known)

    def known(self, text: str) -> Any | None:
        """The flow, if it is at hand."""
        return self._known.get(text)

    def get(self, text: str) -> Any:
        """The flow; loaded if it is not at hand. Raises as `load`."""
        flow = self._known.get(text)
        if flow is None:
            flow = self._known[text] = load(text)
        return flow
