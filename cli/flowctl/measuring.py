"""Which measures are there, and how are they taken? They are modules of the package `measures`.

That package is beside this code in an installed wheel, in `benchmarks/` of a checkout. A measure is a module
of it with a function `measure`; its docstring says what is timed from where to where.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import flowctl

__all__ = ["PEERS", "Measures"]

PEERS = "peers"
"""The measure that needs packages which are not installed with quiesce."""


class Measures:
    """The measures, and what they measure on."""

    def __init__(self) -> None:
        folder = Path(flowctl.__file__).parent
        if (folder / "measures").is_dir():
            self._package = importlib.import_module("flowctl.measures")
        else:
            sys.path.append(str(folder.parents[1] / "benchmarks"))
            self._package = importlib.import_module("measures")

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{self._package.__name__}.{name}")

    def missing_for_peers(self) -> str | None:
        """What to do so that the peers can be measured; None if they can."""
        told: str | None = self._module(PEERS).missing()
        return told

    def names(self, *, peers: bool) -> list[str]:
        """The measures that are taken, the limits of the machine first, the peers last."""
        found = [
            info.name
            for info in pkgutil.iter_modules(self._package.__path__)
            if not info.ispkg and info.name != PEERS and self._measures(self._module(info.name))
        ]
        return sorted(found, key=lambda name: (name != "limits", name)) + [PEERS] * peers

    @staticmethod
    def _measures(module: ModuleType) -> bool:
        return callable(getattr(module, "measure", None))

    def take(self, name: str, folder: Path, scale: float, backends: Sequence[str]) -> Iterator[Any]:
        """The series of one measure; its databases are made in a folder of this folder, and removed."""
        with tempfile.TemporaryDirectory(prefix="flowctl-bench-", dir=folder) as inside:
            effort = self._module("series").Effort(Path(inside), scale, tuple(backends))
            yield from self._module(name).measure(effort)

    def surroundings(self, folder: Path) -> dict[str, Any]:
        """The machine and the versions."""
        told = self._module("machine")
        return {"machine": told.machine(folder), "versions": told.versions()}
