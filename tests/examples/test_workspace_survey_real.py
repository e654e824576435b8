"""Does the survey of the main example find what is in real packages?"""

import ast
from pathlib import Path

import workspace_document
import workspace_survey

from .reading import imports, module

ROOT = Path(__file__).parents[2]


def test_counts_of_real_packages_equal_an_independent_count(package: Path) -> None:
    survey = workspace_survey.survey(package)
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


def test_every_relative_import_of_a_real_package_is_resolved(package: Path) -> None:
    survey = workspace_survey.survey(package)
    assert [] == [i for m in survey.modules for i in m.imports if i.origin == "missing"]
    names = {m.name for m in survey.modules}
    assert {i.target for m in survey.modules for i in m.imports if i.origin == "project"} <= names


def test_what_is_known_of_real_packages_is_found(package: Path) -> None:
    survey = workspace_survey.survey(package)
    p = workspace_document.Picture(survey)
    knots = [c for c in workspace_document.components(p.loads) if len(c) > 1]
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


def test_this_repository_is_surveyed_over_all_its_source_roots() -> None:
    survey = workspace_survey.survey(ROOT)
    assert {"quiesce", "flowctl", "quiesce_adapters"} <= {
        m.name.partition(".")[0] for m in survey.modules if m.role == "core"
    }
    assert "quiesce" == survey.name
    assert "support" == module(survey, "examples.workspace_architect").role
    assert ("flowctl", "command", "flowctl.main:main") in [
        (e.name, e.kind, e.target) for e in survey.entry_points
    ]
