"""On what was it measured, and with which versions?"""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from quiesce_adapters.sqlite.filesystem import file_system

__all__ = ["machine", "versions"]

PACKAGES = ("quiesce", "anyio", "greenlet", "pydantic", "dbos", "langgraph", "langgraph-checkpoint-sqlite")


def machine(folder: Path) -> dict[str, object]:
    """What bears on the figures: processors, their load, the system, and where the databases are."""
    return {
        "processors": os.cpu_count(),
        "processor": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "file system": file_system(folder),
    }


def versions() -> dict[str, str]:
    """Of Python, SQLite and the packages that are installed."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            pass
    return found
