"""The real work of the main example: what it finds in a project, what it says of it, how it writes that."""

import ast
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "workspace_architect.py"
STDLIB = Path(sysconfig.get_path("stdlib"))


def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        from quiesce import Graph, Transition  # noqa: F401
    except ImportError:  # to be removed with the stub below once `quiesce` exports both
        monkeypatch.setitem(sys.modules, "quiesce", stub())
    spec = importlib.util.spec_from_file_location("workspace_architect", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "workspace_architect", module)
    spec.loader.exec_module(module)
    return module


def stub() -> types.ModuleType:
    class Graph:
        def __init__(self, name: str) -> None: ...
        def node(self, *args: object, **options: object) -> None: ...

        gate = edge = finish = node

        def transition(self, node: object) -> Callable[[Any], Any]:
            return lambda function: function

    module = types.ModuleType("quiesce")
    module.__dict__.update(Graph=Graph, Transition=object)
    return module


@pytest.fixture
def architect(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("WORKSPACE_ARCHITECT_WRITER", raising=False)
    return load(monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Callable[[dict[str, str | bytes]], Path]:
    """Write these files into a folder of a project."""

    def make(files: dict[str, str | bytes], name: str = "project") -> Path:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make


Make = Callable[[dict[str, str | bytes]], Path]


def module(survey: Any, name: str) -> Any:
    return next(m for m in survey.modules if m.name == name)


def imports(survey: Any, name: str) -> dict[str, str]:
    """target -> when, of the project's own modules."""
    return {i.target: i.when for i in module(survey, name).imports if i.origin == "project"}


def origins(survey: Any, name: str) -> dict[str, str]:
    return {i.target: i.origin for i in module(survey, name).imports}


# --- which module an import means ---


def test_absolute_relative_and_aliased_imports_lead_to_the_modules_that_they_mean(
    architect: Any, project: Make
) -> None:
    survey = architect.survey(
        project(
            {
                "pkg/__init__.py": "",
                "pkg/a.py": "import pkg.b\nfrom pkg import c\nfrom . import d\nfrom .e import thing\n",
                "pkg/b.py": "import pkg.sub.deep as short\nfrom .sub import deep\nfrom .sub.deep import *\n",
                "pkg/c.py": "from . import nothing_here\n",
                "pkg/d.py": "from . import *\n",
                "pkg/e.py": "thing = 1\n",
                "pkg/sub/__init__.py": "",
                "pkg/sub/deep.py": "from .. import a\nfrom ..e import thing\nfrom . import deep\n",
            }
        )
    )
    assert {"pkg.b", "pkg.c", "pkg.d", "pkg.e"} == set(imports(survey, "pkg.a"))
    assert {"pkg.sub.deep"} == set(imports(survey, "pkg.b"))
    assert {"pkg"} == set(imports(survey, "pkg.c")), "what is no module is taken from the package"
    assert {"pkg"} == set(imports(survey, "pkg.d"))
    assert {"pkg.a", "pkg.e"} == set(imports(survey, "pkg.sub.deep")), "an import of itself says nothing"
    taken = {i.target: i.names for i in module(survey, "pkg.a").imports}
    assert {"pkg.b": (), "pkg.c": (), "pkg.d": (), "pkg.e": ("thing",)} == taken


def test_a_relative_import_in_a_package_starts_at_the_package_itself(architect: Any, project: Make) -> None:
    files: dict[str, str | bytes] = {
        "pkg/__init__.py": "from .a import x\nfrom . import b\n",
        "pkg/a.py": "",
        "pkg/b.py": "",
    }
    survey = architect.survey(project(files))
    assert {"pkg.a", "pkg.b"} == set(imports(survey, "pkg"))


def test_each_import_says_when_it_runs(architect: Any, project: Make) -> None:
    source = """
import typing as t
from typing import TYPE_CHECKING
from pkg import now
if TYPE_CHECKING:
    from pkg import checked
    def f():
        from pkg import also_checked
else:
    from pkg import otherwise
if t.TYPE_CHECKING:
    from pkg import checked_too
try:
    from pkg import maybe
except (AttributeError, ImportError):
    from pkg import instead
try:
    from pkg import surely
except ValueError:
    pass
if sys.version_info >= (3, 12):
    from pkg import newer
class C:
    from pkg import in_class
    async def g(self):
        try:
            from pkg import late
        except ImportError:
            pass
match 1:
    case 1:
        from pkg import matched
with a:
    for b in c:
        from pkg import nested
"""
    names = set(re.findall(r"from pkg import (\w+)", source))
    files: dict[str, str | bytes] = {f"pkg/{name}.py": "" for name in names}
    survey = architect.survey(project({"pkg/__init__.py": "", "pkg/main.py": source, **files}))
    expected = dict.fromkeys(sorted(names), "load") | {
        "checked": "typing",
        "also_checked": "typing",
        "checked_too": "typing",
        "maybe": "conditional",
        "instead": "conditional",
        "newer": "conditional",
        "late": "lazy",
    }
    assert {f"pkg.{name}": when for name, when in expected.items()} == imports(survey, "pkg.main")


def test_several_source_roots_are_one_project(architect: Any, project: Make) -> None:
    survey = architect.survey(
        project(
            {
                "engine/quiet/__init__.py": "",
                "engine/quiet/core.py": "from quiet.words import Word\n",
                "engine/quiet/words.py": "class Word: ...\n",
                "cli/ctl/__init__.py": "",
                "cli/ctl/main.py": "import quiet.core as core\nfrom ctl import show\n",
                "cli/ctl/show.py": "",
                "tests/test_core.py": "from quiet.core import core\ndef test_it(): ...\n",
            }
        )
    )
    names = ["ctl", "ctl.main", "ctl.show", "quiet", "quiet.core", "quiet.words", "tests.test_core"]
    assert names == [m.name for m in survey.modules]
    assert {"quiet.core", "ctl.show"} == set(imports(survey, "ctl.main"))
    assert {"quiet.core"} == set(imports(survey, "tests.test_core"))


def test_a_src_layout_needs_no_package_to_be_found(architect: Any, project: Make) -> None:
    survey = architect.survey(
        project(
            {
                "src/alone.py": "import space.part\n",
                "src/space/part.py": "from space import other\nfrom . import third\nimport space\n",
                "src/space/other.py": "",
                "src/space/third.py": "",
                "tests/test_alone.py": "import alone\n",
            }
        )
    )
    assert {"space.part"} == set(imports(survey, "alone"))
    assert {"space.other", "space.third"} == set(imports(survey, "space.part"))
    assert {"alone"} == set(imports(survey, "tests.test_alone"))
    assert not [i for m in survey.modules for i in m.imports if i.origin == "missing"]


def test_a_script_imports_its_neighbour_and_the_nearest_of_several(architect: Any, project: Make) -> None:
    survey = architect.survey(
        project(
            {
                "one/run.py": "import helper\nimport json\n",
                "one/helper.py": "",
                "one/json.py": "",
                "two/run.py": "import helper\nimport json\n",
                "two/helper.py": "",
                "two/deep/run.py": "import helper\n",
            }
        )
    )
    assert {"one.helper", "one.json"} == set(imports(survey, "one.run")), "a neighbour shadows the stdlib"
    assert {"two.helper"} == set(imports(survey, "two.run"))
    assert {"two.helper"} == set(imports(survey, "two.deep.run"))
    assert "stdlib" == origins(survey, "two.run")["json"]


def test_two_packages_of_one_name_stay_apart(architect: Any, project: Make) -> None:
    files: dict[str, str | bytes] = {}
    for place in ("a", "b"):
        files |= {
            f"{place}/app/__init__.py": "",
            f"{place}/app/main.py": "from app import x\n",
            f"{place}/app/x.py": "",
        }
    survey = architect.survey(project(files))
    assert ["a.app.x"] != [*imports(survey, "app.main")]
    assert {"app.x"} == set(imports(survey, "app.main"))
    assert {"b.app.x"} == set(imports(survey, "b.app.main"))
    assert len({m.name for m in survey.modules}) == len(survey.modules)


def test_a_part_of_a_larger_package_keeps_its_full_names(architect: Any, project: Make) -> None:
    root = project(
        {
            "big/__init__.py": "",
            "big/part/__init__.py": "",
            "big/part/x.py": "from big.part import y\n",
            "big/part/y.py": "import big.other\n",
        }
    )
    survey = architect.survey(root / "big" / "part")
    assert ["big.part", "big.part.x", "big.part.y"] == [m.name for m in survey.modules]
    assert {"big.part.y"} == set(imports(survey, "big.part.x"))


def test_outside_packages_are_told_from_the_standard_library_and_from_missing_files(
    architect: Any, project: Make
) -> None:
    source = """\
import os.path, numpy.linalg as la
from yaml import load
from . import _speedups
from .gen import x
import pkg.gone
"""
    survey = architect.survey(
        project({"pkg/__init__.py": "from __future__ import annotations\n", "pkg/a.py": source})
    )
    expected = {
        "os": "stdlib",
        "numpy": "third-party",
        "yaml": "third-party",
        "pkg": "project",
        "pkg.gen": "missing",
        "pkg.gone": "missing",
    }
    assert expected == origins(survey, "pkg.a")
    assert () == module(survey, "pkg").imports
    text = architect.architecture(survey)
    assert "- `pkg.gone` has no Python source here; imported by `pkg.a`" in text


def test_a_relative_import_out_of_the_project_is_reported(architect: Any, project: Make) -> None:
    survey = architect.survey(project({"pkg/__init__.py": "", "pkg/a.py": "x = 1\nfrom ... import far\n"}))
    assert ["pkg/a.py"] == [p.path for p in survey.problems]
    assert "line 2" in survey.problems[0].what


# --- what is in a module ---


def test_public_classes_and_functions_come_with_the_first_sentence_of_their_docstring(
    architect: Any, project: Make
) -> None:
    source = '''
"""Not the docstring, since..."""
class Thing(Base):
    """A thing. With more

    to say."""
    def method(self): ...
    class Inner: ...
async def go():
    """Go over
    two lines"""
    def inside(): ...
def _private(): ...
if True:
    def either(): "One way."
else:
    def either(): "The other."
@overload
def many(x: int) -> int: ...
@overload
def many(x: str) -> str: ...
def many(x):
    """All of them!"""
'''
    survey = architect.survey(project({"m.py": '"""What is it, e.g. A thing? Yes."""' + source}))
    found = [(d.name, d.kind, d.summary) for d in module(survey, "m").definitions]
    assert [
        ("Thing", "class", "A thing."),
        ("go", "function", "Go over two lines."),
        ("either", "function", "One way."),
        ("many", "function", "All of them!"),
    ] == found
    assert "What is it, e.g. A thing?" == module(survey, "m").summary


def test_lines_of_code_are_neither_blank_nor_comment_nor_docstring(architect: Any, project: Make) -> None:
    source = '''\
"""Two
lines."""

# a comment
x = """text
# of a string
"""
def f():
    "doc"
    return 1  # one
'''
    found = module(architect.survey(project({"m.py": source})), "m")
    assert 10 == found.lines
    assert 4 == found.code_lines, "a line of a string that looks like a comment is the known exception"


def test_tests_are_counted_and_say_what_they_import(architect: Any, project: Make) -> None:
    source = """\
import pkg.a
def test_one(): ...
async def test_two():
    def test_inner(): ...
class TestMore:
    def test_three(self): ...
    def helper(self): ...
"""
    survey = architect.survey(
        project(
            {
                "pkg/__init__.py": "",
                "pkg/a.py": "def test_drive(): ...\n",
                "tests/test_a.py": source,
                "tests/conftest.py": "",
                "pkg/b_test.py": "def test_b(): ...\n",
            }
        )
    )
    assert {"pkg.a": 0, "tests.test_a": 3, "pkg.b_test": 1} == {
        name: module(survey, name).tests for name in ("pkg.a", "tests.test_a", "pkg.b_test")
    }
    assert {"core": 2, "test": 3} == {
        role: sum(m.role == role for m in survey.modules) for role in ("core", "test")
    }
    text = architect.architecture(survey)
    assert "4 tests in 2 files" in text
    assert "| `tests/test_a.py` | 1 | 3 | `pkg.a` |" in text


def test_entry_points_are_commands_plugins_and_what_python_can_run(architect: Any, project: Make) -> None:
    pyproject = """\
[project]
name = "Tool"
description = "Does it."
requires-python = ">=3.11"
[project.scripts]
tool = "tool.cli:main"
[project.entry-points."tool.plugins"]
one = "tool.one"
"""
    survey = architect.survey(
        project(
            {
                "pyproject.toml": pyproject,
                "tool/__init__.py": "",
                "tool/cli.py": "def main(): ...\n",
                "tool/one.py": "if __name__ == '__main__':\n    pass\n",
                "tool/__main__.py": "",
                "scripts/do.py": 'if "__main__" == __name__: pass\n',
                "tests/test_x.py": "if __name__ == '__main__': pass\n",
            }
        )
    )
    assert [
        ("tool", "command", "tool.cli:main"),
        ("one", "plugin, tool.plugins", "tool.one"),
        ("python scripts/do.py", "module", "scripts.do"),
        ("python -m tool", "module", "tool.__main__"),
        ("python -m tool.one", "module", "tool.one"),
    ] == [(e.name, e.kind, e.target) for e in survey.entry_points]
    assert ("Tool", (("Does it.",)), ">=3.11") == (survey.name, survey.purpose, survey.python)
    assert "1. `tool/cli.py`: `tool` starts here." in architect.architecture(survey)


def test_the_purpose_is_the_first_prose_of_the_readme(architect: Any, project: Make) -> None:
    readme = """\
# Title

[![badge](x)](y)

<p>html</p>

Title
=====

It **does** a [thing](http://x)
for you.

More.
"""
    text = architect.architecture(architect.survey(project({"README.md": readme, "m.py": ""})))
    assert "\n\nIt does a thing for you.\n\n" in text


def test_without_readme_the_docstring_of_the_package_is_the_purpose_and_without_that_it_says_so(
    architect: Any, project: Make
) -> None:
    root = project({"pkg/__init__.py": '"""Makes tea."""', "pkg/sub/__init__.py": '"""Boils water."""'})
    assert ("Makes tea.",) == architect.survey(root).purpose
    (root / "pkg" / "__init__.py").write_text("")
    assert "Nothing says what it is for" in architect.architecture(architect.survey(root))


# --- what cannot be read ---


def test_files_that_do_not_parse_are_reported_and_their_importers_are_not_misread(
    architect: Any, project: Make
) -> None:
    survey = architect.survey(
        project(
            {
                "pkg/__init__.py": "from pkg import syntax, nul\n",
                "pkg/syntax.py": "x = 1\ndef (:\n",
                "pkg/nul.py": b"x = 1\0\n",
                "pkg/latin.py": b"x = '\xe9'\n",
                "pkg/cookie.py": "# -*- coding: klingon -*-\n",
                "pkg/utf16.py": "x = 1\n".encode("utf-16"),
                "pkg/deep.py": "x = " + "(" * 500 + ")" * 500 + "\n",
                "pkg/declared.py": "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"),
                "pkg/escape.py": "x = '\\d'\n",
                "pkg/huge.py": "x = 1\n" * 400_000,
                "pyproject.toml": "[project\n",
            }
        )
    )
    bad = ["cookie", "deep", "huge", "latin", "nul", "syntax", "utf16"]
    assert [*(f"pkg/{name}.py" for name in bad), "pyproject.toml"] == [p.path for p in survey.problems]
    assert "(line 2)" in survey.problems[5].what
    assert "larger than 2,000,000 bytes" in survey.problems[2].what
    assert {"pkg.syntax", "pkg.nul"} == set(imports(survey, "pkg")), "it is there, though nobody can read it"
    text = architect.architecture(survey)
    assert all(f"- `pkg/{name}.py` was not parsed: " in text for name in bad)


def test_chains_of_a_thousand_branches_or_operators_are_read_or_reported(
    architect: Any, project: Make
) -> None:
    branches = "if x == 0: pass\n" + "".join(f"elif x == {n}: pass\n" for n in range(2000))
    survey = architect.survey(
        project({"a.py": "import b\n" + branches, "b.py": "x = " + " + ".join("1" * 3000) + "\n"})
    )
    assert {"a", "b"} == {m.name for m in survey.modules}
    assert all("was not parsed" in p.what for p in survey.problems)


def test_links_pipes_and_odd_names_are_reported_and_never_followed(architect: Any, project: Make) -> None:
    root = project({"m.py": "", "real/n.py": ""})
    (root / "loop").symlink_to(root)
    (root / "real" / "again").symlink_to(root / "real")
    (root / "link.py").symlink_to(root / "m.py")
    (root / "dangling.py").symlink_to(root / "nowhere")
    os.mkfifo(root / "pipe.py")
    (root / "folder.py").mkdir()
    (root / "folder.py" / "inside.py").write_text("")
    (root / "new\nline.py").write_text("")
    with open(os.fsencode(root) + b"/\xff.py", "w"):
        pass
    survey = architect.survey(root)
    assert {"folder.py/inside.py", "m.py", "real/n.py"} == {m.path for m in survey.modules}
    reported = [problem.path for problem in survey.problems]
    assert [
        "'\\udcff.py'",
        "'new\\nline.py'",
        "dangling.py",
        "link.py",
        "loop",
        "pipe.py",
        "real/again",
    ] == reported
    text = architect.draft(survey).text
    assert text.encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_reported(architect: Any, project: Make) -> None:
    root = project({"m.py": "", "secret.py": "", "closed/n.py": ""})
    (root / "secret.py").chmod(0)
    (root / "closed").chmod(0)
    try:
        problems = architect.survey(root).problems
    finally:
        (root / "closed").chmod(0o700)
    assert ["closed", "secret.py"] == [p.path for p in problems]


def test_a_file_that_cannot_be_opened_is_reported(
    architect: Any, project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project({"m.py": "", "secret.py": ""})
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "secret.py":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (problem,) = architect.survey(root).problems
    assert "secret.py" == problem.path
    assert "Permission denied" in problem.what


def test_environments_caches_and_built_files_are_ignored_but_a_package_called_build_is_not(
    architect: Any, project: Make
) -> None:
    noise = [
        ".git/a.py",
        "__pycache__/a.py",
        "node_modules/a.py",
        "dist/a.py",
        "out.egg-info/a.py",
        "my_env/lib/a.py",
        "pkg/.cache/a.py",
    ]
    survey = architect.survey(
        project({**dict.fromkeys(noise, "x"), "my_env/pyvenv.cfg": "", "build/__init__.py": "", "m.py": ""})
    )
    assert ["build", "m"] == [m.name for m in survey.modules]
    ignored = [".git", "__pycache__", "dist", "my_env", "node_modules", "out.egg-info", "pkg/.cache"]
    assert ignored == sorted(survey.ignored)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "there is no .*nowhere; give the folder of a Python project"),
        ("file.py", "file.py is not a folder"),
        ("empty", "no Python file to read in .*empty$"),
        ("other", r"no Python file to read in .*other; .venv is ignored"),
        ("loop", "there is no .*loop"),
    ],
)
def test_a_folder_without_python_is_refused_with_what_would_be_right(
    architect: Any, tmp_path: Path, path: str, message: str
) -> None:
    (tmp_path / "file.py").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / ".venv").mkdir(parents=True)
    (tmp_path / "other" / "notes.txt").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(architect.ArchitectError, match=message):
        architect.survey(tmp_path / path)


# --- real packages ---


@pytest.fixture(scope="module", params=["json", "email", "asyncio", "unittest"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = STDLIB / str(request.param)
    target = tmp_path_factory.mktemp("stdlib") / str(request.param)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "test"))
    return target


def test_counts_of_real_packages_equal_an_independent_count(architect: Any, package: Path) -> None:
    survey = architect.survey(package)
    assert () == survey.problems
    for path in sorted(package.rglob("*.py")):
        name = ".".join([package.name, *path.relative_to(package).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        found, tree = module(survey, name), ast.parse(path.read_bytes())
        assert len(path.read_bytes().splitlines()) == found.lines
        definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        plain = {n.name for n in tree.body if isinstance(n, definitions) and not n.name.startswith("_")}
        assert plain <= {d.name for d in found.definitions}
        assert {d.name for d in found.definitions} <= {
            n.name for n in ast.walk(tree) if isinstance(n, definitions)
        }
        absolute = {
            a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
        }
        absolute |= {
            (n.module or "").split(".")[0]
            for n in ast.walk(tree)
            if isinstance(n, ast.ImportFrom) and n.level == 0
        }
        outside = {i.target for i in found.imports if i.origin in ("stdlib", "third-party")}
        assert absolute - {package.name, "__future__"} == outside


def test_every_relative_import_of_a_real_package_is_resolved(architect: Any, package: Path) -> None:
    survey = architect.survey(package)
    assert [] == [i for m in survey.modules for i in m.imports if i.origin == "missing"]
    names = {m.name for m in survey.modules}
    assert {i.target for m in survey.modules for i in m.imports if i.origin == "project"} <= names


def test_what_is_known_of_real_packages_is_found(architect: Any, package: Path) -> None:
    survey = architect.survey(package)
    p = architect.Picture(survey)
    knots = [c for c in architect.components(p.loads) if len(c) > 1]
    if package.name == "json":
        assert {"json.scanner": "load"} == imports(survey, "json.decoder")
        assert {"json.decoder": "load", "json.encoder": "load"} | imports(survey, "json") == imports(
            survey, "json"
        )
        assert [] == knots
        assert "python -m json.tool" in [e.name for e in survey.entry_points]
    if package.name == "email":
        assert "lazy" == imports(survey, "email")["email.parser"]
        assert "email.message" in imports(survey, "email.feedparser") or "email._policybase" in imports(
            survey, "email.feedparser"
        )
    if package.name == "asyncio":
        assert "load" == imports(survey, "asyncio.base_events")["asyncio.events"]
        assert "python -m asyncio" in [e.name for e in survey.entry_points]
    if package.name == "unittest":
        assert "load" == imports(survey, "unittest.case")["unittest.result"]


def test_this_repository_is_surveyed_over_all_its_source_roots(architect: Any) -> None:
    survey = architect.survey(ROOT)
    assert {"quiesce", "flowctl", "quiesce_adapters"} <= {
        m.name.partition(".")[0] for m in survey.modules if m.role == "core"
    }
    assert "quiesce" == survey.name
    assert "support" == module(survey, "examples.workspace_architect").role
    assert ("flowctl", "command", "flowctl.main:main") in [
        (e.name, e.kind, e.target) for e in survey.entry_points
    ]


# --- the shape of the imports ---


def graph(architect: Any, **targets: str) -> Any:
    nodes = {*targets, *"".join(targets.values())}
    return {node: architect.Counter(targets.get(node, "")) for node in nodes}


def test_components_come_with_what_is_imported_first(architect: Any) -> None:
    found = architect.components(graph(architect, a="b", b="c", c="bd", d="e", f="a"))
    assert [["e"], ["d"], ["b", "c"], ["a"], ["f"]] == found


def test_ten_thousand_modules_in_a_row_do_not_recurse(architect: Any) -> None:
    chain = {n: architect.Counter([n + 1] if n < 9_999 else []) for n in range(10_000)}
    assert [[n] for n in range(9_999, -1, -1)] == architect.components(chain)


def test_the_order_goes_against_as_few_imports_as_possible_in_a_cycle(architect: Any) -> None:
    assert ["b", "a"] == architect.arrange(graph(architect, a="bbb", b="a"))
    assert ["a", "b"] == architect.arrange(graph(architect, a="b", b="aaa"))


def test_a_cycle_is_shown_by_its_shortest_way_round(architect: Any) -> None:
    ring = graph(architect, a="b", b="cd", c="a", d="e", e="a")
    assert ["a", "b", "c", "a"] == architect.shortest_cycle(ring, ["a", "b", "c", "d", "e"])


def test_cycles_are_called_out_with_the_way_round(architect: Any, project: Make) -> None:
    root = project(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "from . import b\n",
            "pkg/b.py": "from . import c\n",
            "pkg/c.py": "from . import a\n",
        }
    )
    text = architect.architecture(architect.survey(root))
    assert "- `pkg.a` → `pkg.b` → `pkg.c` → `pkg.a`, in a knot of 3" in text
    assert "<==>" in text
    (root / "pkg" / "c.py").write_text("def f():\n    from . import a\n")
    text = architect.architecture(architect.survey(root))
    assert "There are no import cycles." in text, "a lazy import does not close a circle"


def test_a_big_project_is_drawn_by_its_packages(architect: Any) -> None:
    names = [
        "top",
        *(f"top.p{n}" for n in range(5)),
        *(f"top.p{n}.m{k}" for n in range(5) for k in range(10)),
    ]
    shown = architect.fold(names)
    assert len(set(shown.values())) <= architect.MAX_NODES
    assert "top.p4" == shown["top.p4.m3"]
    assert "top" == shown["top"]
    flat = architect.fold(f"top.m{n}" for n in range(60))
    assert 60 == len(set(flat.values())), (
        "one box for everything shows nothing; the diagram takes the busiest"
    )


def test_the_diagram_has_few_nodes_and_only_arrows_that_say_something_new(
    architect: Any, project: Make
) -> None:
    files: dict[str, str | bytes] = {
        f"pkg/m{n}.py": "".join(f"from . import m{k}\n" for k in range(n)) for n in range(60)
    }
    text = architect.architecture(architect.survey(project({"pkg/__init__.py": "", **files})))
    diagram = text.partition("```mermaid\n")[2].partition("```")[0]
    assert architect.MAX_NODES == len(re.findall(r'^ +m\d+\["', diagram, re.M))
    assert architect.MAX_NODES - 1 == diagram.count("-->"), "a chain is drawn as a chain"
    assert "Left out: the 35 parts with the fewest imports." in text


@pytest.mark.parametrize(
    "name", ['a"]; x --> y["', "end", "a#b", "`code`", "<b>", "a|b", "né", "1. x", "%%{init}%%"]
)
def test_any_name_makes_a_valid_label(architect: Any, name: str) -> None:
    lines = architect.mermaid(
        [name], {name: architect.Counter()}, {name: architect.Counter()}, architect.Counter()
    )
    (node,) = (line for line in lines if "[" in line)
    assert re.fullmatch(r' +m0\["(?:[\w .,/()-]|#\d+;)+"\]', node)


# --- the text ---


@pytest.mark.parametrize(
    ("docstring", "first"),
    [
        (None, ""),
        ("  One line  ", "One line."),
        ("Is it? Yes.", "Is it?"),
        ("Version 1.2 of x.y is here. More.", "Version 1.2 of x.y is here."),
        ("Title\n=====\n\nBody.", "Title."),
        ("Things, e.g. A and i.e. B. More", "Things, e.g. A and i.e. B."),
        ("As follows:\n\n  x", "As follows."),
        ('!!! abstract "Usage"\n    [Models](x)\n\nA base class.', "A base class."),
        ("word " * 100, " ".join(["word"] * 32) + " …"),
        ("\ud800 alone", "? alone."),
    ],
)
def test_the_first_sentence_of_a_docstring(architect: Any, docstring: str | None, first: str) -> None:
    assert first == architect.sentence(docstring)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("Uses :class:`~a.b.C` and ``x``.", "Uses `a.b.C` and `x`."),
        ("See :meth:`that <a.b>`.", "See `that`."),
        (
            "Takes *args, **kwargs of __init__ in <module>",
            r"Takes \*args, \*\*kwargs of \_\_init\_\_ in \<module\>",
        ),
        ("A `half open", "A 'half open"),
        ("**Bold** `a*b*c`", "Bold `a*b*c`"),
    ],
)
def test_docstrings_are_shown_as_they_are_meant(architect: Any, text: str, markdown: str) -> None:
    assert markdown == architect.plain(text)


def test_a_table_keeps_its_shape_whatever_is_in_a_cell(architect: Any) -> None:
    assert ["| A | C |", "| --- | --- |", "| `x \\| y` | 1,000 |"] == architect.table(
        "A, B, C", [("`x | y`", "", 1000)]
    )
    assert [] == architect.table("A, B", [])


def test_the_same_files_give_the_same_text_wherever_they_are(
    architect: Any, package: Path, tmp_path: Path
) -> None:
    shutil.copytree(package, tmp_path / package.name)
    assert architect.architecture(architect.survey(package)) == architect.architecture(
        architect.survey(tmp_path / package.name)
    )


def test_survey_and_draft_are_restored_from_json_by_their_declared_types(
    architect: Any, package: Path
) -> None:
    survey = architect.survey(package)
    for value in (survey, architect.draft(survey)):
        adapter: TypeAdapter[Any] = TypeAdapter(type(value))
        assert value == adapter.validate_json(adapter.dump_json(value))


def test_names_to_know_are_counted_past_the_modules_that_pass_them_on(architect: Any, project: Make) -> None:
    files: dict[str, str | bytes] = {f"pkg/user{n}.py": "from pkg import Thing\n" for n in range(3)}
    survey = architect.survey(
        project(
            {
                "pkg/__init__.py": "from ._inner import Thing\n",
                "pkg/_inner.py": 'class Thing:\n    "It."\n',
                **files,
            }
        )
    )
    assert "| `Thing` | `pkg._inner` | 4 | It. |" in architect.architecture(survey)


def test_outside_packages_are_listed_with_where_and_when(architect: Any, project: Make) -> None:
    survey = architect.survey(
        project(
            {
                "pkg/__init__.py": "import requests\n",
                "pkg/a.py": "def f():\n    import numpy\n",
                "tests/test_a.py": "import pytest\nimport requests\n",
            }
        )
    )
    text = architect.architecture(survey)
    assert "| `numpy` | `pkg.a` |  | when called |" in text
    assert "| `pytest` | `tests.test_a` | tests |  |" in text
    assert "| `requests` | `pkg` |  |  |" in text


def test_a_project_of_nothing_but_tests_or_scripts_is_its_own_subject(architect: Any, project: Make) -> None:
    text = architect.architecture(
        architect.survey(project({"scripts/a.py": "import b\n", "scripts/b.py": "x = 1\n"}))
    )
    assert "2 modules; 2 lines of code" in text
    assert "scripts.b" in text.partition("```mermaid")[2]


# --- the draft and its writer ---


def test_the_draft_says_what_it_would_replace_and_where_that_is_kept(architect: Any, project: Make) -> None:
    root = project({"m.py": "x = 1\n"})
    first = architect.draft(architect.survey(root))
    assert root / "ARCHITECTURE.md" == first.target
    assert "" == first.replaces
    assert f"It will be a new file: {first.target}" in first.summary
    architect.write(first)
    again = architect.draft(architect.survey(root))
    assert f"{first.target} already says exactly this: nothing will change." in again.summary
    first.target.write_text("By hand.\n")
    draft = architect.draft(architect.survey(root))
    question = architect.question(draft)
    assert f"It will REPLACE {first.target}: +{len(draft.text.splitlines())} -1 lines." in question
    assert "ARCHITECTURE.md.1.bak" in question
    assert question.endswith("Write this ARCHITECTURE.md?")
    assert hashlib.sha256(b"By hand.\n").hexdigest() == draft.replaces


def test_a_writer_gets_the_facts_and_the_draft_and_its_text_is_reviewed(
    architect: Any, project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pens.py").write_text(
        "def shout(survey, text):\n    return survey.name + text.upper()\ndef mute(survey, text): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("WORKSPACE_ARCHITECT_WRITER", "pens:shout")
    survey = architect.survey(project({"m.py": ""}))
    assert "project" + architect.architecture(survey).upper() == architect.draft(survey).text
    monkeypatch.setenv("WORKSPACE_ARCHITECT_WRITER", "pens:mute")
    with pytest.raises(architect.ArchitectError, match="pens:mute returned None; expected the text"):
        architect.draft(survey)


@pytest.mark.parametrize("name", ["no_such_module_here:f", "json", "json:nothing", ":f", "a b:c"])
def test_a_writer_that_cannot_be_found_is_named(
    architect: Any, project: Make, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("WORKSPACE_ARCHITECT_WRITER", name)
    with pytest.raises(architect.ArchitectError, match=re.escape(f"WORKSPACE_ARCHITECT_WRITER={name}: ")):
        architect.draft(architect.survey(project({"m.py": ""})))


# --- writing ---


@pytest.fixture
def old(project: Make) -> Iterator[Path]:
    root = project({"m.py": "x = 1\n", "ARCHITECTURE.md": "By hand.\n"})
    yield root
    assert [] == list(root.glob(".*.part")), "no half of a file is left behind"


def test_what_is_replaced_is_kept_beside_it(architect: Any, old: Path) -> None:
    draft = architect.draft(architect.survey(old))
    assert old / "ARCHITECTURE.md" == architect.write(draft)
    assert draft.text == (old / "ARCHITECTURE.md").read_text()
    assert "By hand.\n" == (old / "ARCHITECTURE.md.1.bak").read_text()


def test_kept_texts_are_never_overwritten(architect: Any, old: Path) -> None:
    (old / "ARCHITECTURE.md.1.bak").write_text("Older.\n")
    architect.write(architect.draft(architect.survey(old)))
    assert "Older.\n" == (old / "ARCHITECTURE.md.1.bak").read_text()
    assert "By hand.\n" == (old / "ARCHITECTURE.md.2.bak").read_text()


def test_writing_twice_changes_nothing_the_second_time(architect: Any, old: Path) -> None:
    draft = architect.draft(architect.survey(old))
    architect.write(draft)
    before = {path.name: path.stat() for path in old.iterdir()}
    architect.write(draft)
    assert before == {path.name: path.stat() for path in old.iterdir()}


def test_a_crash_between_keeping_and_replacing_is_repaired_by_the_second_visit(
    architect: Any, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = architect.draft(architect.survey(old))
    replace = os.replace

    def crash(source: Path, target: Path) -> None:
        if Path(target).name == "ARCHITECTURE.md":
            raise OSError("power lost")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(OSError, match="power lost"):
            architect.write(draft)
    assert "By hand.\n" == (old / "ARCHITECTURE.md").read_text()
    architect.write(draft)
    assert draft.text == (old / "ARCHITECTURE.md").read_text()
    assert ["ARCHITECTURE.md.1.bak"] == [path.name for path in old.glob("*.bak")]


@pytest.mark.parametrize("meanwhile", ["edited", "removed"])
def test_a_file_that_changed_while_the_draft_waited_is_left_as_it_is(
    architect: Any, old: Path, meanwhile: str
) -> None:
    draft = architect.draft(architect.survey(old))
    target = old / "ARCHITECTURE.md"
    if meanwhile == "edited":
        target.write_text("By hand, later.\n")
    else:
        target.unlink()
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    with pytest.raises(architect.ArchitectError, match="changed while the draft waited"):
        architect.write(draft)
    assert before == {path.name: path.read_bytes() for path in old.iterdir()}


def test_a_link_is_written_through_and_a_folder_in_the_way_is_named(architect: Any, project: Make) -> None:
    root = project({"m.py": "", "docs/arch.md": "Old.\n"})
    (root / "ARCHITECTURE.md").symlink_to(root / "docs" / "arch.md")
    draft = architect.draft(architect.survey(root))
    architect.write(draft)
    assert (root / "ARCHITECTURE.md").is_symlink()
    assert draft.text == (root / "docs" / "arch.md").read_text()
    (root / "ARCHITECTURE.md").unlink()
    (root / "ARCHITECTURE.md").mkdir()
    with pytest.raises(architect.ArchitectError, match="is a folder; the file needs that name"):
        architect.draft(architect.survey(root))
