"""What does the survey of the main example find in files, and what does it say where it cannot read?"""

import os
from pathlib import Path

import pytest

import workspace_architect
import workspace_document
import workspace_survey

from .reading import Make, imports, module


def test_public_classes_and_functions_come_with_the_first_sentence_of_their_docstring(project: Make) -> None:
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
    survey = workspace_survey.survey(project({"m.py": '"""What is it, e.g. A thing? Yes."""' + source}))
    found = [(d.name, d.kind, d.summary) for d in module(survey, "m").definitions]
    assert [
        ("Thing", "class", "A thing."),
        ("go", "function", "Go over two lines."),
        ("either", "function", "One way."),
        ("many", "function", "All of them!"),
    ] == found
    assert "What is it, e.g. A thing?" == module(survey, "m").summary


def test_lines_of_code_are_neither_blank_nor_comment_nor_docstring(project: Make) -> None:
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
    found = module(workspace_survey.survey(project({"m.py": source})), "m")
    assert 10 == found.lines
    assert 4 == found.code_lines, "a line of a string that looks like a comment is the known exception"


def test_tests_are_counted_and_say_what_they_import(project: Make) -> None:
    source = """\
import pkg.a
def test_one(): ...
async def test_two():
    def test_inner(): ...
class TestMore:
    def test_three(self): ...
    def helper(self): ...
"""
    survey = workspace_survey.survey(
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
    text = workspace_document.architecture(survey)
    assert "4 tests in 2 files" in text
    assert "| `tests/test_a.py` | 1 | 3 | `pkg.a` |" in text


def test_entry_points_are_commands_plugins_and_what_python_can_run(project: Make) -> None:
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
    survey = workspace_survey.survey(
        project(
            {
                "pyproject.toml": pyproject,
                "tool/__init__.py": "",
                "tool/cli.py": "def main(): ...\n",
                "tool/one.py": "if __name__ == '__main__':\n    pass\n",
                "tool/__main__.py": "",
                "scripts/do.py": 'if "__main__" == __name__: pass\n',
                "tests/scripts/__init__.py": "",
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
    assert "1. `tool/cli.py`: `tool` starts here." in workspace_document.architecture(survey)


def test_the_purpose_is_the_first_prose_of_the_readme(project: Make) -> None:
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
    text = workspace_document.architecture(
        workspace_survey.survey(project({"README.md": readme, "m.py": ""}))
    )
    assert "\n\nIt does a thing for you.\n\n" in text


def test_without_readme_the_docstring_of_the_package_is_the_purpose_and_without_that_it_says_so(
    project: Make,
) -> None:
    root = project({"pkg/__init__.py": '"""Makes tea."""', "pkg/sub/__init__.py": '"""Boils water."""'})
    assert ("Makes tea.",) == workspace_survey.survey(root).purpose
    (root / "pkg" / "__init__.py").write_text("")
    assert "Nothing says what it is for" in workspace_document.architecture(workspace_survey.survey(root))


# --- what cannot be read ---


def test_files_that_do_not_parse_are_reported_and_their_importers_are_not_misread(project: Make) -> None:
    survey = workspace_survey.survey(
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
    text = workspace_document.architecture(survey)
    assert all(f"- `pkg/{name}.py` was not parsed: " in text for name in bad)


def test_chains_of_a_thousand_branches_or_operators_are_read_or_reported(project: Make) -> None:
    branches = "if x == 0: pass\n" + "".join(f"elif x == {n}: pass\n" for n in range(2000))
    survey = workspace_survey.survey(
        project({"a.py": "import b\n" + branches, "b.py": "x = " + " + ".join("1" * 3000) + "\n"})
    )
    assert {"a", "b"} == {m.name for m in survey.modules}
    assert all("was not parsed" in p.what for p in survey.problems)


def test_links_pipes_and_odd_names_are_reported_and_never_followed(project: Make) -> None:
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
    survey = workspace_survey.survey(root)
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
    text = workspace_architect.draft(survey).text
    assert text.encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_reported(project: Make) -> None:
    root = project({"m.py": "", "secret.py": "", "closed/n.py": ""})
    (root / "secret.py").chmod(0)
    (root / "closed").chmod(0)
    try:
        problems = workspace_survey.survey(root).problems
    finally:
        (root / "closed").chmod(0o700)
    assert ["closed", "secret.py"] == [p.path for p in problems]


def test_a_file_that_cannot_be_opened_is_reported(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"m.py": "", "secret.py": ""})
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "secret.py":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (problem,) = workspace_survey.survey(root).problems
    assert "secret.py" == problem.path
    assert "Permission denied" in problem.what


def test_environments_caches_and_built_files_are_ignored_but_a_package_called_build_is_not(
    project: Make,
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
    survey = workspace_survey.survey(
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
    tmp_path: Path, path: str, message: str
) -> None:
    (tmp_path / "file.py").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / ".venv").mkdir(parents=True)
    (tmp_path / "other" / "notes.txt").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(workspace_survey.ArchitectError, match=message):
        workspace_survey.survey(tmp_path / path)
