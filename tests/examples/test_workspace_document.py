"""What does the main example say of a survey?"""

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import workspace_architect
import workspace_document
import workspace_survey

from .reading import Make


def graph(**targets: str) -> Any:
    nodes = {*targets, *"".join(targets.values())}
    return {node: Counter(targets.get(node, "")) for node in nodes}


def test_components_come_with_what_is_imported_first() -> None:
    found = workspace_document.components(graph(a="b", b="c", c="bd", d="e", f="a"))
    assert [["e"], ["d"], ["b", "c"], ["a"], ["f"]] == found


def test_ten_thousand_modules_in_a_row_do_not_recurse() -> None:
    names = [f"m{n:04}" for n in range(10_000)]
    chain = {name: Counter(names[n + 1 : n + 2]) for n, name in enumerate(names)}
    assert [[name] for name in reversed(names)] == workspace_document.components(chain)


def test_the_order_goes_against_as_few_imports_as_possible_in_a_cycle() -> None:
    assert ["b", "a"] == workspace_document.arrange(graph(a="bbb", b="a"))
    assert ["a", "b"] == workspace_document.arrange(graph(a="b", b="aaa"))


def test_a_cycle_is_shown_by_its_shortest_way_round() -> None:
    ring = graph(a="b", b="cd", c="a", d="e", e="a")
    assert ["a", "b", "c", "a"] == workspace_document.shortest_cycle(ring, ["a", "b", "c", "d", "e"])


def test_cycles_are_called_out_with_the_way_round(project: Make) -> None:
    root = project(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "from . import b\n",
            "pkg/b.py": "from . import c\n",
            "pkg/c.py": "from . import a\n",
        }
    )
    text = workspace_document.architecture(workspace_survey.survey(root))
    assert "- `pkg.a` → `pkg.b` → `pkg.c` → `pkg.a`, in a knot of 3" in text
    assert "<==>" in text
    (root / "pkg" / "c.py").write_text("def f():\n    from . import a\n")
    text = workspace_document.architecture(workspace_survey.survey(root))
    assert "There are no import cycles." in text, "a lazy import does not close a circle"


def test_a_big_project_is_drawn_by_its_packages() -> None:
    names = [
        "top",
        *(f"top.p{n}" for n in range(5)),
        *(f"top.p{n}.m{k}" for n in range(5) for k in range(10)),
    ]
    shown = workspace_document.fold(names)
    assert len(set(shown.values())) <= workspace_document.MAX_NODES
    assert "top.p4" == shown["top.p4.m3"]
    assert "top" == shown["top"]
    flat = workspace_document.fold(f"top.m{n}" for n in range(60))
    assert 60 == len(set(flat.values())), (
        "one box for everything shows nothing; the diagram takes the busiest"
    )


def test_the_diagram_has_few_nodes_and_only_arrows_that_say_something_new(project: Make) -> None:
    files: dict[str, str | bytes] = {
        f"pkg/m{n}.py": "".join(f"from . import m{k}\n" for k in range(n)) for n in range(60)
    }
    text = workspace_document.architecture(workspace_survey.survey(project({"pkg/__init__.py": "", **files})))
    diagram = text.partition("```mermaid\n")[2].partition("```")[0]
    assert workspace_document.MAX_NODES == len(re.findall(r'^ +m\d+\["', diagram, re.M))
    assert workspace_document.MAX_NODES - 1 == diagram.count("-->"), "a chain is drawn as a chain"
    assert "Left out: the 35 parts with the fewest imports." in text


@pytest.mark.parametrize(
    "name", ['a"]; x --> y["', "end", "a#b", "`code`", "<b>", "a|b", "né", "1. x", "%%{init}%%"]
)
def test_any_name_makes_a_valid_label(name: str) -> None:
    lines = workspace_document.mermaid([name], {name: Counter()}, {name: Counter()}, Counter())
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
def test_the_first_sentence_of_a_docstring(docstring: str | None, first: str) -> None:
    assert first == workspace_survey.sentence(docstring)


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
def test_docstrings_are_shown_as_they_are_meant(text: str, markdown: str) -> None:
    assert markdown == workspace_document.plain(text)


def test_a_table_keeps_its_shape_whatever_is_in_a_cell() -> None:
    assert ["| A | C |", "| --- | --- |", "| `x \\| y` | 1,000 |"] == workspace_document.table(
        "A, B, C", [("`x | y`", "", 1000)]
    )
    assert [] == workspace_document.table("A, B", [])


def test_the_same_files_give_the_same_text_wherever_they_are(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / package.name)
    assert workspace_document.architecture(
        workspace_survey.survey(package)
    ) == workspace_document.architecture(workspace_survey.survey(tmp_path / package.name))


def test_survey_and_draft_are_restored_from_json_by_their_declared_types(package: Path) -> None:
    survey = workspace_survey.survey(package)
    for value in (survey, workspace_architect.draft(survey)):
        adapter: TypeAdapter[Any] = TypeAdapter(type(value))
        assert value == adapter.validate_json(adapter.dump_json(value))


def test_names_to_know_are_counted_past_the_modules_that_pass_them_on(project: Make) -> None:
    files: dict[str, str | bytes] = {f"pkg/user{n}.py": "from pkg import Thing\n" for n in range(3)}
    survey = workspace_survey.survey(
        project(
            {
                "pkg/__init__.py": "from ._inner import Thing\n",
                "pkg/_inner.py": 'class Thing:\n    "It."\n',
                **files,
            }
        )
    )
    assert "| `Thing` | `pkg._inner` | 4 | It. |" in workspace_document.architecture(survey)


def test_outside_packages_are_listed_with_where_and_when(project: Make) -> None:
    survey = workspace_survey.survey(
        project(
            {
                "pkg/__init__.py": "import requests\n",
                "pkg/a.py": "def f():\n    import numpy\n",
                "tests/test_a.py": "import pytest\nimport requests\n",
            }
        )
    )
    text = workspace_document.architecture(survey)
    assert "| `numpy` | `pkg.a` |  | when called |" in text
    assert "| `pytest` | `tests.test_a` | tests |  |" in text
    assert "| `requests` | `pkg` |  |  |" in text


def test_a_project_of_nothing_but_tests_or_scripts_is_its_own_subject(project: Make) -> None:
    text = workspace_document.architecture(
        workspace_survey.survey(project({"scripts/a.py": "import b\n", "scripts/b.py": "x = 1\n"}))
    )
    assert "2 modules; 2 lines of code" in text
    assert "scripts.b" in text.partition("```mermaid")[2]
