"""Does the code keep to the shape that CONTRIBUTING.md promises?

The layers point one way, tricks stay in their one file, and the operating system is asked for time,
ids, randomness and identity in one place. Everything here reads syntax trees: an import inside a
function or under TYPE_CHECKING counts like any other.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("engine", "adapters", "cli")

MAY_NOT_IMPORT = {
    "engine": {
        "quiesce_adapters", "flowctl", "greenlet", "sqlite3", "sqlite_utils", "click", "rich",
    },
    "adapters": {"flowctl", "click", "rich"},
    "cli": {"greenlet", "sqlite3", "sqlite_utils"},
}  # fmt: skip
BACKENDS = ("replay", "greenlets", "receipts")
CLOCK = ROOT / "engine/quiesce/clock.py"
CONTINUATION = ROOT / "adapters/quiesce_adapters/greenlets/continuation.py"
MOST_LINES = 450
NO_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base"}

# What only the clock may ask the operating system for. A type is not a question: `datetime` and
# `UUID` may be imported, `datetime.now` and `uuid4` may not be called.
ASKING_MODULES = {"getpass", "random", "secrets", "time"}
ASKING_NAMES = {
    "datetime": set[str](),
    "os": {"getlogin", "getpid", "getppid", "times", "uname", "urandom"},
    "platform": {"node"},
    "socket": {"getfqdn", "gethostname"},
    "uuid": {"getnode", "uuid1", "uuid4", "uuid6", "uuid7"},
}
ASKING_METHODS = {"datetime": {"now", "today", "utcnow"}, "date": {"today"}}
ASKING_SQL = re.compile(
    r"'now'|\bcurrent_(?:time|date|timestamp)\b|\brandom(?:blob)?\s*\(|\bunixepoch\s*\(\s*\)", re.IGNORECASE
)


def named(paths: list[Path]) -> list[object]:
    """One parameter per file, named from the root, so that ids are the same on every machine."""
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


def sources(*folders: str, suffix: str = ".py") -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*" + suffix))


def module_name(path: Path) -> str:
    """The dotted name under which a file of the three roots is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, absolute; `importlib.import_module("x")` counts."""
    package = module_name(path).split(".") if path.is_relative_to(ROOT) else []
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) - level + 1] if level else []
                origin = ".".join([*above, *([module] if module else [])])
                yield origin
                yield from (f"{origin}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def imported_packages(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported_modules(path)}


def questions(path: Path) -> Iterator[str]:
    """Where a file asks the operating system for time, ids, randomness or identity."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name in ASKING_MODULES:
                        yield f"line {node.lineno}: import {alias.name}"
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    if module in ASKING_MODULES or alias.name in ASKING_NAMES.get(module, set()):
                        yield f"line {node.lineno}: from {module} import {alias.name}"
            case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                asked = ASKING_NAMES.get(owner, set()) | ASKING_METHODS.get(owner, set())
                if attr in asked:
                    yield f"line {node.lineno}: {owner}.{attr}"
            case ast.Attribute(value=ast.Attribute(attr=owner), attr=attr):  # datetime.datetime.now
                if attr in ASKING_METHODS.get(owner, set()):
                    yield f"line {node.lineno}: {owner}.{attr}"


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_inward(layer: str) -> None:
    """engine <- adapters <- cli, and each layer knows only its own libraries."""
    wrong = {
        path.relative_to(ROOT).as_posix(): found
        for path in sources(layer)
        if (found := MAY_NOT_IMPORT[layer] & imported_packages(path))
    }
    assert wrong == {}


def test_one_file_imports_greenlet() -> None:
    """The traps of greenlet are known to one file; everything else switches through its verbs."""
    users = [path for path in sources(*LAYERS) if "greenlet" in imported_packages(path)]
    assert [path for path in users if path != CONTINUATION] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_never_import_each_other(backend: str) -> None:
    """Each backend reads alone; what two share is the engine's."""
    others = [f"quiesce_adapters.{other}" for other in BACKENDS if other != backend]
    wrong = {
        path.relative_to(ROOT).as_posix(): name
        for path in sources(f"adapters/quiesce_adapters/{backend}")
        for name in imported_modules(path)
        if any(name == other or name.startswith(other + ".") for other in others)
    }
    assert wrong == {}


def test_only_the_clock_asks_the_operating_system() -> None:
    """Time, ids, randomness, process and host come from quiesce.clock, so a test decides them all."""
    wrong = {
        path.relative_to(ROOT).as_posix(): found
        for path in sources(*LAYERS)
        if path != CLOCK and (found := list(questions(path)))
    }
    assert wrong == {}


def test_sql_never_asks_for_the_time() -> None:
    """SQLite's now is the machine's clock by another way; instants are parameters."""
    wrong = {}
    for path in sources(*LAYERS, suffix=".sql"):
        statements = re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8"))
        if found := ASKING_SQL.findall(statements):
            wrong[path.relative_to(ROOT).as_posix()] = found
    assert wrong == {}


PUBLIC = [
    path
    for path in sources(*LAYERS)
    if not any(part.startswith("_") for part in path.relative_to(ROOT).with_suffix("").parts)
    or (path.name == "__init__.py" and not any(part.startswith("_") for part in path.parent.parts))
]


@pytest.mark.parametrize("path", named(PUBLIC))
def test_all_is_true(path: Path) -> None:
    """Every name of `__all__` exists, and every public function and class of the file is in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = [node for node in tree.body if not isinstance(node, ast.Expr)]
    if not statements:  # a package that only says what it is
        return
    module = importlib.import_module(module_name(path))
    listed = getattr(module, "__all__", None)
    assert listed is not None, "a public module without __all__"
    assert [name for name in listed if not hasattr(module, name)] == [], "in __all__, but does not exist"
    assert len(listed) == len(set(listed)), "a name is in __all__ twice"
    public = {
        node.name
        for node in statements
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
    }
    assert set() == public - set(listed), "public, but not in __all__"


EVERY_FILE = sources(*LAYERS, "tests", "benchmarks", "examples")


def test_every_name_says_something() -> None:
    """If a function has no home, the concept lacks a name."""
    wrong = [
        path.relative_to(ROOT).as_posix()
        for path in EVERY_FILE
        if NO_NAMES & {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}
    ]
    assert wrong == []


def test_no_file_is_long() -> None:
    """A file answers one question; past this many lines it answers several."""
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(*LAYERS, "examples")
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize("path", named(sources(*LAYERS)))
def test_every_file_says_what_it_answers(path: Path) -> None:
    """The first sentence of a file is its question."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree)


def test_the_checks_see_what_they_look_for(tmp_path: Path) -> None:
    """A guard that finds nothing anywhere would be green for ever."""
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import datetime, os, time\n"
        "from datetime import UTC, datetime as instant\n"
        "from os import getpid\n"
        "from uuid import UUID, uuid4\n"
        "def f(clock):\n"
        "    import random\n"
        "    return clock.now(), datetime.datetime.now(), os.getpid(), datetime.datetime(2030, 1, 1)\n"
    )
    assert {
        "line 1: import time",
        "line 3: from os import getpid",
        "line 4: from uuid import uuid4",
        "line 6: import random",
        "line 7: datetime.now",
        "line 7: os.getpid",
    } == set(questions(sample))
    assert {"datetime", "os", "time", "uuid", "random"} == imported_packages(sample)
    assert any(questions(CLOCK))
    assert ASKING_SQL.search("select datetime('now')")
