"""Is the repository what it says to whoever clones it?

The README's commands, example, tables and picture are checked against the code; no file knows the
machine that it was written on.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from flowctl.main import main
from quiesce.states import TRANSITIONS, Row, RunState

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

NOT_OURS = re.compile(
    r"\.git|\.venv.*|__pycache__|node_modules|dist|build|\.[a-z]+_cache|\.hypothesis|\.benchmarks|\.coverage"
    r"|.*\.egg-info|uv\.lock|flows\.db.*"
)
# Written in pieces, so that this file does not find itself.
A_MACHINE = re.compile(
    r"(?<![\w./~-])/(?:" + "|".join(["home", "Users", "root", "work", "mnt"]) + r")/\w|\b[A-Z]:\\\\?Users\\"
)
AN_INDEX = re.compile(
    "|".join(
        [r"pypi\." + "org", "python" + "hosted", "npm" + r"js\.", r"\bindex" + "-url", r"//registry" + r"\."]
    )
)


def text_files() -> Iterator[tuple[str, str]]:
    """Every text file of the checkout, as (name, text)."""
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if NOT_OURS.fullmatch(path.name):
                continue
            if path.is_dir():
                folders.append(path)
            else:
                try:
                    yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue


def blocks(language: str) -> list[str]:
    """The fenced code blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def table_of(first_header: str) -> list[list[str]]:
    """The rows of the README's table whose first column has this header."""
    found = re.search(rf"^\| {re.escape(first_header)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert found is not None, f"README.md has no table that begins with {first_header!r}"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]


@pytest.mark.parametrize("pattern", [A_MACHINE, AN_INDEX], ids=["path", "package index"])
def test_no_file_names_a_machine(pattern: re.Pattern[str]) -> None:
    """Paths of one machine and hosts of one package index are wrong everywhere else."""
    wrong = [
        f"{name}:{number}: {line.strip()}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert wrong == []


def test_lock_files_that_name_hosts_are_ignored() -> None:
    """uv writes the address of every file into its lock, so it must not be added by accident."""
    assert "uv.lock" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("end", ["flowctl demo", "pytest -n auto"])
def test_a_readme_command_does_all_the_set_up(end: str) -> None:
    """One line each, from nothing; `.ci/run` takes these very lines from the README and runs them."""
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.endswith(f"/{end}")]
    assert len(lines) == 1
    assert re.fullmatch(
        r"python3 -m venv \.venv && \.venv/bin/pip install -q -e (\.|'\.\[dev\]') && \.venv/bin/" + end,
        lines[0],
    )
    assert f'readme_command "{end}"' in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_ci_names_no_command_of_its_own_for_set_up_and_tests() -> None:
    """Two spellings of one command drift apart."""
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "pip install -q -e" not in script
    assert "-m pytest" not in script.replace("-m pytest benchmarks --benchmark-disable", "")


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_in_the_readme_runs(number: int, tmp_path: Path) -> None:
    """As a script in an empty folder, warnings being errors."""
    script = tmp_path / "example.py"
    script.write_text(blocks("python")[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that is not hidden, as ("flowctl answer", command)."""
    for name, command in sorted(getattr(group, "commands", {}).items()):
        if command.hidden:
            continue
        if getattr(command, "commands", None):
            yield from commands(command, (*path, name))
        else:
            yield " ".join(["flowctl", *path, name]), command


COMMANDS = dict(commands(main))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_options_have_help(name: str) -> None:
    command = COMMANDS[name]
    assert (command.help or "").strip()
    assert [
        option.name for option in command.params if isinstance(option, click.Option) and not option.help
    ] == []


def test_the_readme_lists_the_commands_that_there_are() -> None:
    """Each has a row or is named in one as another's alias; nothing is promised that does not exist."""
    named = {
        match.rstrip()
        for row in table_of("command")
        for cell in row
        for match in re.findall(r"`(flowctl [a-z -]+?)(?= \[?[A-Z-]|`)", cell)
    }
    assert named == set(COMMANDS)


def test_the_readme_draws_the_table() -> None:
    """The picture is the lifecycle table without what keeps the state."""
    nodes = {row: "queued" if row is Row.QUEUED else row.value for row in Row}

    def node_of(row: Row, target: RunState) -> str:
        """Where an event leads: a reset run has its last input queued, unless it never had one."""
        return "queued" if target is RunState.CREATED and row is not Row.CREATED else target.value

    expected = {
        (nodes[row], event.value, node_of(row, target))
        for row, cells in TRANSITIONS.items()
        for event, targets in cells.items()
        for target in targets
        if node_of(row, target) != nodes[row]
    }
    (picture,) = blocks("mermaid")
    drawn = [
        (source, event, target)
        for source, target, events in re.findall(r"^ +(\w+) --> (\w+): (.+)$", picture, re.MULTILINE)
        for event in events.split(", ")
    ]
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == expected


def test_links_in_the_documents_lead_somewhere() -> None:
    wrong = [
        f"{name}: {target}"
        for name, text in text_files()
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
        if not re.match(r"[a-z]+:", target) and not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert wrong == []


def test_the_changelog_is_well_formed() -> None:
    """Keep a Changelog: Unreleased first, then versions from new to old, known headings, one line each."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert text.startswith("# Changelog\n")
    assert headings[0] == "[Unreleased]"
    released = [
        re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:]
    ]
    assert all(released), headings
    versions = [tuple(map(int, found.groups())) for found in released if found]
    assert all(newer > older for newer, older in pairwise(versions))
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds
    entries = text[text.index("## ") :].splitlines()
    assert [line for line in entries if line and not re.match(r"##|- .+\.$", line)] == []
