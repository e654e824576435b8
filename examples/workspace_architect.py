"""What is in this folder of Python, and where does a newcomer start reading?

Surveys a project, drafts its ARCHITECTURE.md, waits until somebody approves the draft, and writes it:

    survey ──> draft ──> review (a gate: here the run is paused) ──> write

The project is read, never imported or run; the same files give the same text. Approval may take days while
processes come and go, hence three habits. What passes from node to node is a frozen value of plain types that
a durable store can write and restore. The pause sits on the cheap gate, so a resume does not draft again. And
`write` may be visited twice (a crash after the rename, before its result was stored): the second visit finds
its own work and changes nothing; and it does not replace a file that was edited while the draft waited.

A language model may do the writing; none is needed. Name a function that takes the facts and the plain draft
and returns the text to review, `def rewrite(survey: Survey, text: str) -> str`, in the environment:

    WORKSPACE_ARCHITECT_WRITER=my_module:rewrite
"""

import ast
import hashlib
import importlib
import os
import re
import sys
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any

from quiesce import Graph, Transition

TARGET, WRITER = "ARCHITECTURE.md", "WORKSPACE_ARCHITECT_WRITER"
MAX_BYTES = 2_000_000  # a larger source file is generated, or data: reported, not parsed
MAX_NODES, MAX_ROWS = 25, 30  # what a reader can still follow in one diagram, in one table
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


@dataclass(frozen=True, slots=True)
class Draft:
    text: str
    target: Path
    summary: tuple[str, ...]  # what the approver is told
    replaces: str  # SHA-256 of the file that the approval is about; empty if there is none


# --- Survey: what is there ---


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
    packages = {module.name.partition(".")[0] for module in modules if module.path.endswith("__init__.py")}
    for module in modules:
        if module.runs and module.role != "test":
            packaged = module.name.partition(".")[0] in packages
            name = f"-m {module.name.removesuffix('.__main__')}" if packaged else module.path
            yield EntryPoint(f"python {name}", "module", module.name)


# --- Text: docstrings and names, whatever they hold, as Markdown that shows just them ---

MARKUP = [  # of reStructuredText and Markdown, down to what both share
    (r":[\w:.+-]+:`[~!]?([^`<]+?)(?: <[^`]*>)?`", r"`\1`"),
    (r"`([^`<]+) <[^`>]+>`__?", r"\1"),
    (r"!?\[([^\[\]]*)\]\([^)]*\)", r"\1"),
    (r"(?<![\w*])\*{1,2}(\w[^*]*)(?<=\w)\*{1,2}(?!\w)", r"\1"),
    (r"``", "`"),
    (r"(?<=`)\\(?=\w)", ""),
]


def sentence(docstring: str | None, limit: int = 160) -> str:
    """The first sentence of a docstring, on one line and with its full stop."""
    text = (docstring or "").encode("utf-8", "replace").decode()  # a store refuses lone surrogates
    text = re.sub(r"(?m)^!!! .*\n(?:[ \t].*\n?)*", "", text).strip("=~- \t\n")  # without the notes of mkdocs
    text = " ".join(re.split(r"\n\s*\n|\n\s*[=~-]{3,}", text, maxsplit=1)[0].split())
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<=[\w)`'\"])[.!?](?=\s+[A-Z`*:]|$)", text)
    text = text[: end.end()] if end else text.rstrip(":.") + "." * bool(text)
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def plain(text: str) -> str:
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text)
    spans = text.split("`") if text.count("`") % 2 == 0 else [text.replace("`", "'")]
    spans[::2] = [re.sub(r"([\\*_<>\[\]])", r"\\\1", span) for span in spans[::2]]
    return "`".join(spans)


def code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def number(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + "s" * (n != 1)


def some(names: Iterable[str], limit: int) -> str:
    shown = list(names)
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(map(code, shown[:limit])) + more


def frequent(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))


def table(head: str, rows: Iterable[tuple[str | int, ...]]) -> list[str]:
    """A Markdown table, without the columns that are empty throughout; nothing at all without rows."""
    cells = [[f"{c:,}" if isinstance(c, int) else c.replace("|", "\\|") for c in row] for row in rows]
    kept = [i for i, _ in enumerate(head.split(", ")) if any(row[i] for row in cells)]
    lines = [head.split(", "), ["---"] * 9, *cells[:MAX_ROWS]] if cells else []
    more = [f"\n… and {len(cells) - MAX_ROWS:,} more."] if len(cells) > MAX_ROWS else []
    return ["| " + " | ".join(line[i] for i in kept) + " |" for line in lines] + more


# --- Shape: what the imports say about the structure ---

Edges = dict[str, Counter[str]]  # importer -> imported -> in how many places


def edges(modules: Iterable[Module], *moments: str) -> Edges:
    """Who imports whom at these moments, among these modules."""
    found: Edges = {module.name: Counter() for module in modules}
    for module in modules:
        found[module.name].update(i.target for i in module.imports if i.when in moments and i.target in found)
    return found


def components(graph: Edges) -> list[list[str]]:
    """The strongly connected components, what is imported first. Larger than one: a cycle (Kosaraju)."""
    back: Edges = {node: Counter() for node in graph}
    for node, targets in graph.items():
        for target in targets:
            back[target][node] += 1

    def visit(start: str, ways: Edges, seen: set[str]) -> Iterator[str]:  # depth first, without recursion
        seen.add(start)
        work = [(start, iter(sorted(ways[start])))]
        while work:
            target = next((t for t in work[-1][1] if t not in seen), None)
            if target is None:
                yield work.pop()[0]
            else:
                seen.add(target)
                work.append((target, iter(sorted(ways[target]))))

    seen: set[str] = set()
    done = [node for start in sorted(graph) if start not in seen for node in visit(start, graph, seen)]
    seen.clear()
    return [sorted(visit(start, back, seen)) for start in reversed(done) if start not in seen][::-1]


def arrange(graph: Edges) -> list[str]:
    """What is imported before what imports it; a cycle is cut where the fewest imports go against that."""
    order: list[str] = []
    for component in components(graph):
        left = {node: sum(graph[node][other] for other in component) for node in component}
        while left:
            order.append(min(left, key=lambda node: (left[node], node)))
            del left[order[-1]]
            for node in left:
                left[node] -= graph[node][order[-1]]
    return order


def shortest_cycle(graph: Edges, component: list[str]) -> list[str]:
    ways, seen = [component[:1]], set[str]()
    for way in ways:  # grows while it is walked
        for target in sorted(set(component) & set(graph[way[-1]]) - seen):
            seen.add(target)
            ways.append([*way, target])
    return next(way for way in ways[1:] if way[-1] == component[0])


def fold(names: Iterable[str]) -> dict[str, str]:
    """Module -> what stands for it in the picture: itself, or a package drawn as one (the deepest first)."""
    shown = {name: name for name in names}
    while len(nodes := set(shown.values())) > MAX_NODES:
        parents = Counter(node.rpartition(".")[0] for node in nodes if "." in node)
        if len(tops := {node.partition(".")[0] for node in nodes}) == 1:
            del parents[tops.pop()]  # one box for everything shows nothing
        if not parents:
            break
        whole = max(parents, key=lambda name: (name.count("."), parents[name], name))
        shown = {name: whole if f"{node}.".startswith(f"{whole}.") else node for name, node in shown.items()}
    return shown


def folded(graph: Edges, shown: dict[str, str]) -> Edges:
    found: Edges = {node: Counter() for node in shown.values()}
    for name, targets in graph.items():
        for target, times in targets.items():
            if name in shown and target in shown and shown[name] != shown[target]:
                found[shown[name]][shown[target]] += times
    return found


def mermaid(order: list[str], loads: Edges, later: Edges, sizes: Counter[str]) -> list[str]:
    """A flowchart of the nodes in `order` (what is needed first), with the arrows that say something new."""
    ids = {node: f"m{i}" for i, node in reversed(list(enumerate(order)))}
    down = {node: [t for t in order[:i] if loads[node][t]] for i, node in enumerate(order)}
    up = {(above, node) for i, node in enumerate(order) for above in order[i:] if loads[node][above]}
    reach: dict[str, set[str]] = {}
    for node in order:
        reach[node] = set(down[node]).union(*(reach[below] for below in down[node]))
    nodes: dict[str, list[str]] = defaultdict(list)
    arrows = []
    for node in ids:
        size = f"<br/>{sizes[node]} modules" if sizes[node] > 1 else ""
        nodes[node.partition(".")[0]].append(f'    {ids[node]}["{label(node)}{size}"]')
        for other in ids:
            new = other in down[node] and not any(other in reach[below] for below in down[node])
            lonely = not any(other in targets for targets in loads.values()) and node not in reach[other]
            for arrow, drawn in {
                "<==>": (node, other) in up,
                "-->": new,
                "-.->": lonely and later[node][other],
            }.items():
                if drawn:
                    arrows.append(f"    {ids[node]} {arrow} {ids[other]}")
                    break
    boxes = []
    for i, (top, inside) in enumerate(sorted(nodes.items())):
        boxed = len(nodes) > 1 and len(inside) > 1
        boxes += [f'    subgraph g{i}["{label(top)}"]', *inside, "    end"] if boxed else inside
    return ["```mermaid", "flowchart TD", *boxes, *arrows, "```"]


def label(text: str) -> str:
    """Any text, safe between the quotes of a label."""
    return re.sub(r"[^\w .,/()-]", lambda match: f"#{ord(match[0])};", text)


# --- Draft: what a newcomer should read ---


class Picture:
    """A survey, and what follows from it. Each section of the document draws on it."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.modules = {module.name: module for module in survey.modules}
        # What the project is about; everything, if it is nothing but tests and scripts.
        self.core = {name: m for name, m in self.modules.items() if m.role == "core"} or self.modules
        self.loads = edges(self.core.values(), "load", "conditional")
        self.later = edges(self.core.values(), "lazy", "typing")
        both = (self.loads[name] | self.later[name] for name in self.core)
        self.importers = Counter(chain.from_iterable(both))  # of a module: how many others import it
        self.users = Counter[tuple[str, str]]()  # of a (module, definition): how many import it by name
        for module in survey.modules:
            self.users.update({(self.home(i.target, name), name) for i in module.imports for name in i.names})

    def home(self, module: str, name: str) -> str:
        """Where `name` is defined, past the modules that only pass it on."""
        for _ in range(9):
            found = self.modules.get(module)
            if found is None or any(d.name == name for d in found.definitions):
                break
            module = next((i.target for i in found.imports if name in i.names), module)
        return module


def architecture(survey: Survey) -> str:
    """The whole document, from the facts alone."""
    p = Picture(survey)
    sections = {
        f"# The architecture of {plain(survey.name)}": opening(p),
        "## Where to start reading": reading_order(p),
        "## How it is run": entry_points(p),
        "## How it is laid out": layout(p),
        "## How the parts depend on each other": dependencies(p),
        "## What each module answers": answers(p),
        "## Names to know": names(p),
        "## What it needs from outside": outside(p),
        "## Tests": tests(p),
        "## What this leaves out": gaps(p),
    }
    written = {title: "\n".join(lines) for title, lines in sections.items()}
    return "\n\n".join(f"{title}\n\n{text.strip()}" for title, text in written.items() if text) + "\n"


def opening(p: Picture) -> Iterator[str]:
    for text in p.survey.purpose or ["Nothing says what it is for: no README, description or docstring."]:
        yield f"{plain(text)}\n"
    tests = [module for module in p.survey.modules if module.tests]
    lines = sum(module.code_lines for module in p.core.values())
    facts = [number(len(p.core), "module"), f"{number(lines, 'line')} of code"]
    if tests:
        facts.append(f"{number(sum(m.tests for m in tests), 'test')} in {number(len(tests), 'file')}")
    if p.survey.python:
        facts.append(f"Python {p.survey.python}")
    yield f"{'; '.join(facts)}. Drafted by reading the source; nothing was run."


def reading_order(p: Picture) -> Iterator[str]:
    steps: dict[str, str] = {}
    for entry in p.survey.entry_points:
        name = entry.target.partition(":")[0]
        if entry.kind == "command" and name in p.core and len(steps) < 3:
            steps.setdefault(name, f"{code(entry.name)} starts here")
    faces = (name for name in p.core if "." not in name and p.loads[name] and is_package(p.core[name]))
    for name in frequent(Counter({name: p.importers[name] for name in faces}))[:4]:
        steps.setdefault(name, "what a user of the package imports")
    words = Counter({name: 0 for name in p.core if p.importers[name] > 1 and name not in steps})
    for name in words:  # a vocabulary is classes, if there are any
        classes = (d.name for d in p.core[name].definitions if d.kind == "class")
        words[name] = 1000 * max((p.users[name, cls] for cls in classes), default=0) + p.importers[name]
    for name in sorted(frequent(words)[:5], key=arrange(p.loads).index):
        steps[name] = f"the vocabulary, imported by {number(p.importers[name], 'module')}"
    sizes = Counter({name: module.code_lines for name, module in p.core.items()})
    for name in frequent(sizes)[:3]:
        steps.setdefault(name, f"much of the work, {number(sizes[name], 'line')} of code")
    for n, (name, why) in enumerate(steps.items(), 1):
        yield f"{n}. {code(p.core[name].path)}: {why}. {answer(p, p.core[name])}".strip()
    tests = Counter({module.path: module.tests for module in p.survey.modules if module.tests})
    for path in frequent(tests)[:1]:
        yield f"{len(steps) + 1}. {code(path)}: the code in use, in {number(tests[path], 'test')}."


def answer(p: Picture, module: Module) -> str:
    """What a module is for: in its own words, or by what is most used and largest in it."""
    found = sorted(module.definitions, key=lambda d: (-p.users[module.name, d.name], -d.lines, d.name))
    main = max(found, key=lambda d: d.lines, default=None)
    passed = Counter({i.target: len(i.names) for i in module.imports if i.origin == "project"})
    if module.summary:
        return plain(module.summary)
    if passed and is_package(module):
        return f"What is public here? What it passes on from {some(frequent(passed), 4)}."
    if main and main.summary and (len(found) == 1 or main.lines * 2 > module.lines):
        asks = f"What is {code(main.name)}?" if main.kind == "class" else f"What does {code(main.name)} do?"
        return f"{asks} {plain(main.summary)}"
    what = some((d.name for d in found), 4)
    if any(d.kind == "class" for d in found):
        return f"What {'are' if len(found) > 1 else 'is'} {what}?"
    return f"What {'do' if len(found) > 1 else 'does'} {what} do?" if found else ""


def is_package(module: Module) -> bool:
    return PurePosixPath(module.path).name == "__init__.py"


def entry_points(p: Picture) -> list[str]:
    rows = ((code(entry.name), entry.kind, code(entry.target)) for entry in p.survey.entry_points)
    return table("Start it with, Kind, It starts in", rows)


def layout(p: Picture) -> list[str]:
    rows = []
    for folder, inside in by_folder(p.survey.modules).items():
        face = "".join(m.summary for m in inside if m.path == f"{folder}__init__.py".removeprefix("./"))
        sizes = Counter({m.path.removeprefix(folder): m.code_lines for m in inside})
        rows.append((code(folder), len(inside), sizes.total(), plain(face) or some(frequent(sizes), 4)))
    return table("Folder, Files, Lines of code, What it holds", rows)


def by_folder(modules: Iterable[Module]) -> dict[str, list[Module]]:
    """As deep as one table can show; what only supports the project, not deeper than its top folder."""
    for depth in range(9, -1, -1):
        found: dict[str, list[Module]] = defaultdict(list)
        for module in modules:
            folders = module.path.split("/")[:-1][: 1 if module.role == "support" else depth]
            found["".join(f"{folder}/" for folder in folders) or "./"].append(module)
        if len(found) <= MAX_ROWS:
            break
    return dict(sorted(found.items()))


def dependencies(p: Picture) -> Iterator[str]:
    """The diagram, the same as layers in words, and the cycles."""
    shown = fold(name for name, module in p.core.items() if module.code_lines or p.importers[name])
    loads, later = folded(p.loads, shown), folded(p.later, shown)
    weight = Counter({node: targets.total() for node, targets in loads.items()})
    weight.update(chain.from_iterable(targets.elements() for targets in loads.values()))
    kept = frequent(weight)[:MAX_NODES]
    order = [node for node in arrange(loads) if node in kept]
    yield from mermaid(order, loads, later, Counter(shown.values()))
    yield "\nAn arrow points at what a part needs to load; what follows from other arrows is left out."
    yield "Thick: each needs the other, directly or through others. Dotted: needed later, when it is called."
    if len(loads) > len(kept):
        yield f"Left out: the {number(len(loads) - len(kept), 'part')} with the fewest imports."
    layers: dict[int, list[str]] = defaultdict(list)
    depth: dict[str, int] = {}
    for node in order:
        depth[node] = 1 + max((depth.get(below, 0) for below in loads[node]), default=0)
        layers[depth[node]].append(node)
    yield "\nAs layers, each of which loads only from below it, the cycles aside:\n"
    yield from table("Layer, Parts", ((n, some(sorted(layers[n]), 99)) for n in sorted(layers, reverse=True)))
    knots = [component for component in components(p.loads) if len(component) > 1]
    yield "\n**Import cycles**, each to be understood as one:\n" if knots else "\nThere are no import cycles."
    for knot in knots:
        way = " → ".join(map(code, shortest_cycle(p.loads, knot)))
        yield f"- {way}" + (f", in a knot of {len(knot)}: {some(knot, 12)}" if len(knot) > 2 else "")
    known = {entry.target.partition(":")[0] for entry in p.survey.entry_points} | {*p.importers}
    idle = [n for n, m in p.core.items() if m.code_lines and n not in known and not is_package(m)]
    if idle:
        yield f"\nImported by nothing but tests (for users, loaded by name, or unused): {some(idle, 12)}."


def answers(p: Picture) -> Iterator[str]:
    full = {name: module for name, module in p.core.items() if module.code_lines or module.summary}
    lines, times = sum(module.code_lines for module in full.values()) or 1, p.importers.total() or 1
    weight = {n: -p.importers[n] / times - m.code_lines / lines for n, m in full.items()}
    main = sorted(sorted(full, key=lambda name: (weight[name], name))[:MAX_ROWS])
    rows = ((code(n), answer(p, full[n]), full[n].code_lines, p.importers[n]) for n in main)
    yield from table("Module, What it answers, Lines of code, Imported by", rows)
    if len(full) > len(main):
        yield f"\n{number(len(full) - len(main), 'smaller module')} not shown."


def names(p: Picture) -> list[str]:
    found = [(p.users[m.name, d.name], d, m.name) for m in p.core.values() for d in m.definitions]
    found.sort(key=lambda x: (-x[0], -x[1].lines, x[2], x[1].name))
    rows = ((code(d.name), code(module), users, plain(d.summary)) for users, d, module in found[:20])
    return table("Name, Where, Imported by, What it is", rows)


ROLES = {"core": "", "support": "scripts, docs, examples", "test": "tests"}
MOMENTS = {"load": "", "conditional": "if there, or by version", "lazy": "when called", "typing": "for types"}


def outside(p: Picture) -> Iterator[str]:
    uses: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for module in p.survey.modules:
        for i in (i for i in module.imports if i.origin == "third-party"):
            uses[i.target].append(([*ROLES].index(module.role), [*MOMENTS].index(i.when), module.name))
    rows = []
    for name in sorted(uses):
        role, moment, _ = min(uses[name])  # what matters most
        users = sorted({user for r, _, user in uses[name] if r == role})
        rows.append((code(name), some(users, 3), [*ROLES.values()][role], [*MOMENTS.values()][moment]))
    yield from table("Package, Imported by, For, When", rows) or ["Nothing but the standard library."]
    stdlib = Counter(i.target for m in p.core.values() for i in m.imports if i.origin == "stdlib")
    if stdlib:
        most = ", ".join(f"{code(name)} ({stdlib[name]})" for name in frequent(stdlib)[:10])
        yield f"\nOf the standard library mostly {most}."


def tests(p: Picture) -> list[str]:
    tests = [module for module in p.survey.modules if module.tests]
    groups = {m.path: [m] for m in tests} if len(tests) <= MAX_ROWS else by_folder(tests)
    rows = []
    for path, inside in sorted(groups.items()):
        uses = Counter(i.target for m in inside for i in m.imports if i.target in p.core)
        rows.append((code(path), len(inside), sum(m.tests for m in inside), some(frequent(uses), 5)))
    return table("Where, Files, Tests, What they import", rows)


def gaps(p: Picture) -> Iterator[str]:
    lines = [f"- {code(problem.path)} {plain(problem.what)}" for problem in p.survey.problems]
    missing = {i.target for m in p.survey.modules for i in m.imports if i.origin == "missing"}
    for target in sorted(missing):
        users = [m.name for m in p.survey.modules if any(i.target == target for i in m.imports)]
        lines.append(f"- {code(target)} has no Python source here; imported by {some(users, 3)}")
    yield from lines[:MAX_ROWS]
    if len(lines) > MAX_ROWS:
        yield f"- … and {len(lines) - MAX_ROWS:,} more"
    if ignored := sorted({path.rpartition("/")[2] for path in p.survey.ignored}):
        yield f"- Ignored: {some(ignored, 12)}"


def draft(survey: Survey) -> Draft:
    """Write the document, and what its approver should know. Nothing on disk changes."""
    text = _writer()(survey, architecture(survey))
    if not isinstance(text, str) or not text.strip():
        raise ArchitectError(f"{WRITER}={os.environ.get(WRITER)} returned {text!r:.60}; expected the text")
    target = Path(os.path.realpath(survey.root / TARGET))  # behind a link: what it leads to
    old = _read(target)
    size = f"{number(len(survey.modules), 'module')}, {number(sum(m.lines for m in survey.modules), 'line')}"
    summary = [f"{TARGET} for {survey.name} ({size}) is drafted: {number(len(text.splitlines()), 'line')}."]
    if old is None:
        summary.append(f"It will be a new file: {target}")
    elif old == text.encode():
        summary.append(f"{target} already says exactly this: nothing will change.")
    else:
        before, after = old.decode("utf-8", "replace").splitlines(), text.splitlines()
        same = sum(block.size for block in SequenceMatcher(None, before, after, False).get_matching_blocks())
        summary.append(f"It will REPLACE {target}: +{len(after) - same} -{len(before) - same} lines.")
        summary.append(f"What is there now will be kept beside it as {_kept(target, old).name}.")
    if survey.problems:
        summary.append(f"{number(len(survey.problems), 'thing')} could not be read: see its end.")
    return Draft(text, target, tuple(summary), _digest(old))


def question(draft: Draft) -> str:
    """What the gate asks."""
    return "\n".join([*draft.summary, f"Write this {TARGET}?"])


def document(draft: Draft) -> str:
    """What the gate shows with its question."""
    return draft.text


def _writer() -> Callable[[Survey, str], str]:
    name = os.environ.get(WRITER, "")
    if not name:
        return lambda survey, text: text
    module, _, function = name.partition(":")
    try:
        found: Callable[[Survey, str], str] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArchitectError(f"{WRITER}={name}: {error}; expected module:function") from error
    return found


# --- Write: whole or not at all, once, and nothing is lost ---


def write(draft: Draft) -> Path:
    """Put the approved text in place, and what it replaces beside it. A second time changes nothing.

    Raises ArchitectError if the file is no longer the one that the approval was about.
    """
    old = _read(draft.target)
    if old == draft.text.encode():
        return draft.target
    if _digest(old) != draft.replaces:
        raise ArchitectError(f"{draft.target} changed while the draft waited: left as it is, draft again")
    if old is not None:
        _put(_kept(draft.target, old), old)
    _put(draft.target, draft.text.encode())
    return draft.target


def _read(target: Path) -> bytes | None:
    if target.is_dir():
        raise ArchitectError(f"{target} is a folder; the file needs that name")
    return target.read_bytes() if target.exists() else None


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _kept(target: Path, old: bytes) -> Path:
    """Where the replaced text goes: the first name that is free, or that holds just this text."""
    names = (target.with_name(f"{target.name}.{n}.bak") for n in count(1))
    return next(path for path in names if not path.exists() or path.read_bytes() == old)


def _put(path: Path, content: bytes) -> None:
    """A reader, or a crash, finds the old file or the new one, never a part."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


# --- The graph ---

graph = Graph("workspace-architect")

survey_node = graph.node(survey, start=True, blocking=True)
draft_node = graph.node(draft, blocking=True)
review = graph.gate("review", asks=question, payload=document, expects=bool)
write_node = graph.node(write, blocking=True)

graph.edge(survey_node, draft_node)
graph.edge(draft_node, review)
graph.finish(write_node)


@graph.transition(review)
def decide(decision: tuple[Draft, bool]) -> Transition:
    draft, approved = decision
    return write_node.next(draft) if approved else Transition.finish(None)
