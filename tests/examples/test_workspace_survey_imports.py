"""Which module does an import mean, and when does it run? The survey of the main example."""

import re

import workspace_document
import workspace_survey

from .reading import Make, imports, module, origins


def test_absolute_relative_and_aliased_imports_lead_to_the_modules_that_they_mean(project: Make) -> None:
    survey = workspace_survey.survey(
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


def test_a_relative_import_in_a_package_starts_at_the_package_itself(project: Make) -> None:
    files: dict[str, str | bytes] = {
        "pkg/__init__.py": "from .a import x\nfrom . import b\n",
        "pkg/a.py": "",
        "pkg/b.py": "",
    }
    survey = workspace_survey.survey(project(files))
    assert {"pkg.a", "pkg.b"} == set(imports(survey, "pkg"))


def test_each_import_says_when_it_runs(project: Make) -> None:
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
    survey = workspace_survey.survey(project({"pkg/__init__.py": "", "pkg/main.py": source, **files}))
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


def test_several_source_roots_are_one_project(project: Make) -> None:
    survey = workspace_survey.survey(
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


def test_a_src_layout_needs_no_package_to_be_found(project: Make) -> None:
    survey = workspace_survey.survey(
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


def test_a_script_imports_its_neighbour_and_the_nearest_of_several(project: Make) -> None:
    survey = workspace_survey.survey(
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


def test_a_test_imports_the_script_that_its_runner_put_on_the_path(project: Make) -> None:
    survey = workspace_survey.survey(
        project(
            {
                "scripts/release.py": "import json\nimport requests\n",
                "scripts/json.py": "",
                "other/twice.py": "",
                "more/twice.py": "",
                "tests/test_release.py": "import json\nimport release\nimport twice\n",
            }
        )
    )
    expected = {"json": "stdlib", "scripts.release": "project", "twice": "third-party"}
    assert expected == origins(survey, "tests.test_release"), "one of two is a guess, so it is not made"
    assert {"scripts.json": "project", "requests": "third-party"} == origins(survey, "scripts.release")


def test_two_packages_of_one_name_stay_apart(project: Make) -> None:
    files: dict[str, str | bytes] = {}
    for place in ("a", "b"):
        files |= {
            f"{place}/app/__init__.py": "",
            f"{place}/app/main.py": "from app import x\n",
            f"{place}/app/x.py": "",
        }
    survey = workspace_survey.survey(project(files))
    assert ["a.app.x"] != [*imports(survey, "app.main")]
    assert {"app.x"} == set(imports(survey, "app.main"))
    assert {"b.app.x"} == set(imports(survey, "b.app.main"))
    assert len({m.name for m in survey.modules}) == len(survey.modules)


def test_a_part_of_a_larger_package_keeps_its_full_names(project: Make) -> None:
    root = project(
        {
            "big/__init__.py": "",
            "big/part/__init__.py": "",
            "big/part/x.py": "from big.part import y\n",
            "big/part/y.py": "import big.other\n",
        }
    )
    survey = workspace_survey.survey(root / "big" / "part")
    assert ["big.part", "big.part.x", "big.part.y"] == [m.name for m in survey.modules]
    assert {"big.part.y"} == set(imports(survey, "big.part.x"))


def test_outside_packages_are_told_from_the_standard_library_and_from_missing_files(project: Make) -> None:
    source = """\
import os.path, numpy.linalg as la
from yaml import load
from . import _speedups
from .gen import x
import pkg.gone
"""
    survey = workspace_survey.survey(
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
    text = workspace_document.architecture(survey)
    assert "- `pkg.gone` has no Python source here; imported by `pkg.a`" in text


def test_a_relative_import_out_of_the_project_is_reported(project: Make) -> None:
    survey = workspace_survey.survey(
        project({"pkg/__init__.py": "", "pkg/a.py": "x = 1\nfrom ... import far\n"})
    )
    assert ["pkg/a.py"] == [p.path for p in survey.problems]
    assert "line 2" in survey.problems[0].what
