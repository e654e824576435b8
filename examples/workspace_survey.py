"""What is in this folder of Python?

`survey` reads a project, and never imports or runs it: its modules, what they define and import, how it is
started, how large it is, what tests it; and what could not be read. The same files give the same `Survey`.
`workspace_architect.py` is the flow that this is a part of.
"""

import ast
import os
import re
import sys
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

MAX_BYTES = 2_000_000  # a larger source file is generated, or data: reported, not parsed
NOISE = {"__pycache__", "node_modules", "site-packages", "build", "dist", "env", "venv", "htmlcov"}
SUPPORT = {"docs", "doc", "examples", "benchmarks", "bench", "scripts", "tools", "setup.py", "noxfile.py"}


class ArchitectError(Exception):
    """The folder, the writer or the target is not what is needed; the message says what would be."""


# --- Values: plain types and one another, so that a store can restore them by their declared type ---


@dataclass(frozen=True, slots=True)
class Import:
    target: str  # a module of the project by its full name, else a top-level package
    names: tuple[str, ...]  # what `from target import ...` takes; empty for the module itself
    origin: str  # project | stdlib | third-party | missing (the project's own, without a source file here)
    when: str  # load | conditional (expects ImportError, or asks for version or platform) | lazy | typing


@dataclass(frozen=True, slots=True)
class Definition:
    name: str  # public, at the top level of its module
    kind: str  # class | function
    lines: int
    summary: str  # first sentence of its docstring, or empty


@dataclass(frozen=True, slots=True)
class Module:
    """One file. One that could not be parsed is here too, without content: others may import it."""

    name: str
    path: str  # from the root, with slashes
    role: str  # core | test | support
    summary: str = ""
    lines: int = 0
    code_lines: int = 0  # neither blank, nor comment, nor docstring
    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    tests: int = 0  # test functions and methods
    runs: bool = False  # is a __main__.py, or has `if __name__ == "__main__"`


@dataclass(frozen=True, slots=True)
class EntryPoint:
    name: str  # as a user types it
    kind: str
    target: str  # module, or module:function


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    what: str  # why it could not be read; never fatal


@dataclass(frozen=True, slots=True)
class Survey:
    root: Path
    name: str
    purpose: tuple[str, ...]  # as pyproject.toml and README state it, else the docstring of the package
    python: str  # requires-python, or empty
    modules: tuple[Module, ...]  # by name
    entry_points: tuple[EntryPoint, ...]
    ignored: tuple[str, ...]  # folders and hidden files
    problems: tuple[Problem, ...]


# --- What is there ---


def survey(root: Path) -> Survey:
    """Read the Python project in the folder `root`. Raises ArchitectError if there is none."""
    root = Path(os.path.realpath(root))  # absolute: another process may go on from another directory
    if not root.is_dir():
        what = f"{root} is not a folder" if root.exists() else f"there is no {root}"
        raise ArchitectError(f"{what}; give the folder of a Python project")
    problems: list[Problem] = []
    files, ignored = _files(root, problems)
    if not files:
        seen = [(problem.path, problem.what) for problem in problems] + [
            (name, "is ignored") for name in ignored
        ]
        raise ArchitectError("; ".join([f"no Python file to read in {root}", *map(" ".join, seen[:5])]))
    names = Names(root, files)
    with warnings.catch_warnings(action="ignore"):  # an invalid escape over there is no concern of ours
        modules = sorted((_module(root, path, names, problems) for path in files), key=lambda m: m.name)
    project = _pyproject(root, problems)
    stated = [" ".join(text.split()) for text in (str(project.get("description", "")), _readme(root))]
    tops = [m.summary for m in modules if m.role == "core" and "." not in m.name and is_package(m)]
    return Survey(
        root=root,
        name=str(project.get("name") or root.name or root),
        purpose=tuple(dict.fromkeys(filter(None, stated))) or tuple(filter(None, tops[:1])),
        python=str(project.get("requires-python", "")),
        modules=tuple(modules),
        entry_points=tuple(_entry_points(project, modules)),
        ignored=tuple(ignored),
        problems=tuple(sorted(problems, key=lambda p: (p.path, p.what))),
    )


def _files(root: Path, problems: list[Problem]) -> tuple[list[PurePosixPath], list[str]]:
    """The source files, and what is left alone; both from the root."""
    found: list[PurePosixPath] = []
    ignored: list[str] = []

    def problem(path: str, what: str) -> None:
        problems.append(Problem(path, what))

    def unlistable(error: OSError) -> None:
        problem(os.path.relpath(error.filename, root), f"cannot be listed: {error.strerror}")

    for place, folders, files in os.walk(root, onerror=unlistable):
        inside = []
        for name in sorted([*folders, *(name for name in files if name.endswith(".py"))]):
            path = Path(place, name)
            shown = path.relative_to(root).as_posix()
            # A folder of sources may well be called `build`: then it is a package.
            noise = name in NOISE and not (path / "__init__.py").exists()
            if noise or name.startswith(".") or name.endswith(".egg-info") or (path / "pyvenv.cfg").exists():
                ignored.append(ascii(shown)[1:-1])
            elif not name.isprintable():
                problem(ascii(shown), "has a name that cannot be printed: skipped")
            elif path.is_symlink():
                problem(shown, "is a symbolic link: not followed, it may lead out, or round in a circle")
            elif path.is_dir():
                inside.append(name)
            elif path.is_file():
                found.append(PurePosixPath(shown))
            else:  # to read a pipe is to wait for ever
                problem(shown, "is not a regular file: skipped")
        folders[:] = inside
    return found, ignored


class Names:
    """Which file does `import a.b` mean? That depends on where it stands, here as in Python.

    A file in a package has one name, from its outermost package down. A loose one (a script, a namespace,
    tests without __init__.py) has a name from each folder above it, good for what is below that folder.
    """

    def __init__(self, root: Path, files: list[PurePosixPath]) -> None:
        base = root  # where full names start: above the root if the root is itself in a package
        while (base / "__init__.py").exists() and not (base / "pyproject.toml").exists():
            base = base.parent
        self.prefix = PurePosixPath(root.relative_to(base).as_posix())
        self.of: dict[PurePosixPath, str] = {}
        # What a name may mean: (the folder that it is imported from, the full name).
        self._known: dict[str, list[tuple[PurePosixPath, str]]] = defaultdict(list)
        self._sources = {PurePosixPath("src")}  # import folders that count everywhere
        taken: set[str] = set()
        for path in sorted(files, key=lambda path: (path.name != "__init__.py", path)):
            parts = (self.prefix / path).with_suffix("").parts
            folders, parts = parts[:-1], parts[:-1] if parts[-1] == "__init__" and parts[:-1] else parts
            depths = range(len(folders))
            tops = [i for i in depths if base.joinpath(*folders[: i + 1], "__init__.py").exists()]
            starts = tops[:1] or range(folders[:1] == ("src",), len(parts))
            names = {".".join(parts[i:]): PurePosixPath(*parts[:i]) for i in starts}
            # A second `app` gets a longer name.
            self.of[path] = next(n for n in (*names, ".".join(parts), str(path)) if n not in taken)
            taken.add(self.of[path])
            self._sources.update(names.values() if tops else ())
            for name, folder in names.items():
                self._known[name].append((folder, self.of[path]))
        self._spaces = {name.rsplit(".", n)[0] for name in self._known for n in range(1, name.count(".") + 1)}

    def module(self, name: str, folder: PurePosixPath) -> str:
        """The full name of what a file in `folder` gets by importing `name`; empty if it is not ours."""
        choices = []
        for start, full in self._known.get(name, ()):
            if (self.prefix / folder).is_relative_to(start):  # the nearest above wins
                choices.append((-len(start.parts), full))
            elif start in self._sources and name.partition(".")[0] not in sys.stdlib_module_names:
                choices.append((len(start.parts) + 1, full))
        alone = self._known.get(name, ())  # a loose file that is on somebody's path: tests of scripts
        if not choices and len(alone) == 1 and name not in sys.stdlib_module_names:
            return alone[0][1]
        return min(choices)[1] if choices else ""

    def find(self, name: str, attribute: str, relative: bool, folder: PurePosixPath) -> tuple[str, str, str]:
        """(target, what is taken from it, origin) of `import name` or `from name import attribute`."""
        top = name.partition(".")[0]
        stdlib = top in sys.stdlib_module_names
        if attribute and (full := self.module(f"{name}.{attribute}", folder)):
            return full, "", "project"
        if full := self.module(name, folder):
            return full, attribute, "project"
        if relative or self.module(top, folder) or (top in self._spaces and not stdlib):
            return name, attribute, "namespace" if name in self._spaces else "missing"
        return top, "", "stdlib" if stdlib else "third-party"


Statement = tuple[ast.stmt, str, bool]  # with when it runs, and whether it is outside of every definition
BY_VERSION, BY_IMPORT = (
    re.compile(r"version_info|platform|os\.name"),
    re.compile("ImportError|ModuleNotFoundError"),
)


def _module(root: Path, path: PurePosixPath, names: Names, problems: list[Problem]) -> Module:
    name, role = names.of[path], "core"
    if {"test", "tests"} & {*path.parts[:-1]} or re.fullmatch(r"test_.*|.*_test\.py|conftest\.py", path.name):
        role = "test"
    elif path.parts[0] in SUPPORT and not names.prefix.parts:
        role = "support"
    try:
        if (root / path).stat().st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES:,} bytes")
        source = (root / path).read_bytes()
        tree = ast.parse(source)
        statements = list(_statements(tree.body))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        what = getattr(error, "msg", "") or str(error) or type(error).__name__
        problems.append(Problem(str(path), f"was not parsed: {what}{line}"))
        return Module(name, str(path), role)
    package = name.split(".")[: None if path.name == "__init__.py" else -1]
    imports: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    definitions: dict[str, Definition] = {}
    unread = set(_docstring_lines(tree))
    tests = 0
    for node, when, top in statements:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            unread.update(_docstring_lines(node))
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            tests += role == "test" and kind == "function" and node.name.startswith("test") and when != "lazy"
            old = definitions.get(node.name)  # of several overloads, the one that explains itself
            if top and not node.name.startswith("_") and not (old and old.summary):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                definitions[node.name] = Definition(node.name, kind, size, sentence(ast.get_docstring(node)))
            continue
        relative = isinstance(node, ast.ImportFrom) and node.level > 0
        asked: list[tuple[str, str]] = []
        if isinstance(node, ast.Import):
            asked = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if relative else []
            if relative and not above:
                problems.append(Problem(str(path), f"line {node.lineno} imports from above the project"))
                continue
            asked = [(".".join([*above, *filter(None, [node.module])]), alias.name) for alias in node.names]
        for base, attribute in asked:
            target, taken, origin = names.find(base, attribute, relative, path.parent)
            if target not in (name, "__future__") and origin != "namespace":
                imports[target, origin, when].update(filter(None, [taken]))
    lines = source.splitlines()
    code = (n for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith(b"#"))
    guards = (node for node in tree.body if isinstance(node, ast.If))
    return Module(
        name=name,
        path=str(path),
        role=role,
        summary=sentence(ast.get_docstring(tree)),
        lines=len(lines),
        code_lines=sum(n not in unread for n in code),
        definitions=tuple(definitions.values()),
        imports=tuple(Import(key[0], tuple(sorted(imports[key])), *key[1:]) for key in sorted(imports)),
        tests=tests,
        runs=path.name == "__main__.py" or any("'__main__'" in ast.unparse(node.test) for node in guards),
    )


def _statements(body: Iterable[ast.stmt], when: str = "load", top: bool = True) -> Iterator[Statement]:
    """Every statement, at any depth. Imports and definitions are statements: no need to look deeper."""
    for node in body:
        yield node, when, top
        inner = when
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _statements(node.body, "typing", top)
                yield from _statements(node.orelse, when, top)
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() if when != "typing":
                inner = "lazy"
            case ast.If() if when == "load" and BY_VERSION.search(ast.unparse(node.test)):
                inner = "conditional"
            case ast.Try() if when == "load":
                caught = " ".join(ast.unparse(handler.type) for handler in node.handlers if handler.type)
                inner = "conditional" if BY_IMPORT.search(caught) else when
        definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _statements([child], inner, top and not definition)
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                yield from _statements(child.body, inner, top)


def _docstring_lines(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    there = ast.get_docstring(node, clean=False) is not None
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1) if there else range(0)


def _pyproject(root: Path, problems: list[Problem]) -> dict[str, Any]:
    """The [project] table, or Poetry's."""
    try:
        document = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        return {**(document.get("project") or document.get("tool", {}).get("poetry", {}))}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:  # also TOML of another shape
        problems.append(Problem("pyproject.toml", f"was not understood: {error}"))
        return {}


def _readme(root: Path) -> str:
    """The first paragraph of prose in the README: no heading, badge or code."""
    for path in (root / name for name in ("README.md", "README.rst", "README.txt", "README")):
        if path.is_file():
            blocks = re.split(r"\n\s*\n", path.read_text(encoding="utf-8", errors="replace"))
            titles = re.compile(r"^([=~*#-])\1{2,}\s*$", re.MULTILINE)
            prose = next((b for b in blocks if re.match(r"[\w*`_\"']", b) and not titles.search(b)), "")
            return re.sub(r"`?\b([\w ]+)`?_(?=[\s.,)])", r"\1", prose) if path.suffix == ".rst" else prose
    return ""


def _entry_points(project: dict[str, Any], modules: list[Module]) -> Iterator[EntryPoint]:
    tables = {"command": {**project.get("scripts", {}), **project.get("gui-scripts", {})}}
    tables |= {f"plugin, {group}": table for group, table in sorted(project.get("entry-points", {}).items())}
    for kind, table in tables.items():
        yield from (EntryPoint(name, kind, str(target)) for name, target in sorted(table.items()))
    packages = {PurePosixPath(module.path).parent for module in modules if is_package(module)}
    for module in modules:
        if module.runs and module.role != "test":
            packaged = PurePosixPath(module.path).parent in packages
            name = f"-m {module.name.removesuffix('.__main__')}" if packaged else module.path
            yield EntryPoint(f"python {name}", "module", module.name)


def is_package(module: Module) -> bool:
    return PurePosixPath(module.path).name == "__init__.py"


def sentence(docstring: str | None, limit: int = 160) -> str:
    """The first sentence of a docstring, on one line and with its full stop."""
    text = (docstring or "").encode("utf-8", "replace").decode()  # a store refuses lone surrogates
    text = re.sub(r"(?m)^!!! .*\n(?:[ \t].*\n?)*", "", text).strip("=~- \t\n")  # without the notes of mkdocs
    text = " ".join(re.split(r"\n\s*\n|\n\s*[=~-]{3,}", text, maxsplit=1)[0].split())
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<=[\w)`'\"])[.!?](?=\s+[A-Z`*:]|$)", text)
    text = text[: end.end()] if end else text.rstrip(":.") + "." * bool(text)
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"
