"""The main job: is the survey made once, whatever dies, and is nothing written before somebody says yes?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Example
from .reading import Make

FILES: dict[str, str | bytes] = {
    "pkg/__init__.py": '"""Makes tea."""\n',
    "pkg/kettle.py": "def boil(): ...\n",
}


@pytest.fixture
def architect(example: Callable[[str], Example]) -> Example:
    return example("workspace_architect")


@pytest.fixture
def root(project: Make) -> Path:
    return project(FILES)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_an_answer_from_a_new_process_writes_the_file_and_the_survey_was_made_once(
    architect: Example, root: Path
) -> None:
    """The main job: kill -9 while it is paused, then `flowctl answer HOLD true`."""
    with architect.held("tea", str(root)) as process:
        before = contents(root)
        process.kill()
    assert contents(root) == before
    assert architect.evaluated == ["survey", "draft", "review"]

    done = architect.flowctl("answer", architect.holds("tea")["review"], "true")
    assert (done.returncode, done.stderr) == (0, "")
    written = contents(root)
    assert b"Makes tea." in written.pop("ARCHITECTURE.md")
    assert written == before
    assert architect.evaluated == ["survey", "draft", "review", "review", "write"]
    assert architect.visits("tea") == ["survey", "draft", "review", "review", "write"]


@pytest.mark.parametrize(
    ("node", "evaluated"),
    [
        ("survey", ["survey", "survey", "draft", "review"]),
        ("draft", ["survey", "draft", "draft", "review"]),
    ],
)
def test_a_kill_before_the_pause_repeats_only_the_visit_that_was_under_way(
    architect: Example, root: Path, node: str, evaluated: list[str]
) -> None:
    """Spec graph, durable graphs: finished visits are not evaluated again, one in flight is."""
    died = architect.flowctl("run", architect.flow, root, "--id", "tea", DIES_OF=node)
    assert died.returncode == -9
    assert architect.flowctl("resume", "tea").returncode == 75
    assert architect.evaluated == evaluated
    assert contents(root).keys() == FILES.keys()


def test_a_kill_between_the_rename_and_its_record_writes_once_and_keeps_what_was_there(
    architect: Example, root: Path
) -> None:
    """`write` is evaluated twice: the second time finds its own work."""
    (root / "ARCHITECTURE.md").write_text("By hand.\n")
    assert architect.flowctl("run", architect.flow, root, "--id", "tea").returncode == 75
    hold = architect.holds("tea")["review"]
    assert architect.flowctl("answer", hold, "true", DIES_OF="write").returncode == -9
    after = contents(root)
    assert after["ARCHITECTURE.md.1.bak"] == b"By hand.\n"
    assert b"Makes tea." in after["ARCHITECTURE.md"]

    assert architect.flowctl("resume", "tea").returncode == 0
    assert architect.status("tea").state == "completed"
    assert contents(root) == after
    assert architect.evaluated == ["survey", "draft", "review", "review", "write", "write"]


@pytest.mark.parametrize(("words", "code"), [(["answer", "false"], 0), (["reject", "not like this"], 1)])
def test_a_no_writes_nothing(architect: Example, root: Path, words: list[str], code: int) -> None:
    """The gate is before the write: false ends the run, a rejection fails it."""
    (root / "ARCHITECTURE.md").write_text("By hand.\n")
    before = contents(root)
    assert architect.flowctl("run", architect.flow, root, "--id", "tea").returncode == 75
    verb, value = words
    done = architect.flowctl(verb, architect.holds("tea")["review"], value)
    assert done.returncode == code
    assert contents(root) == before
    assert architect.evaluated == ["survey", "draft", "review", "review"]


def test_after_a_rejection_a_retry_asks_again_with_the_same_draft(architect: Example, root: Path) -> None:
    """Spec engine, 4, retry: it continues from the point that failed."""
    assert architect.flowctl("run", architect.flow, root, "--id", "tea").returncode == 75
    assert architect.flowctl("reject", architect.holds("tea")["review"], "not yet").returncode == 1
    assert architect.flowctl("retry", "tea").returncode == 75
    assert architect.flowctl("answer", architect.holds("tea")["review"], "true").returncode == 0
    assert "ARCHITECTURE.md" in contents(root)
    assert architect.evaluated.count("survey") == architect.evaluated.count("draft") == 1


def test_a_file_that_is_edited_while_the_draft_waits_is_left_and_the_run_says_so(
    architect: Example, root: Path
) -> None:
    """What is approved is the replacement of the file as it was."""
    assert architect.flowctl("run", architect.flow, root, "--id", "tea").returncode == 75
    (root / "ARCHITECTURE.md").write_text("By hand, meanwhile.\n")
    before = contents(root)
    done = architect.flowctl("answer", architect.holds("tea")["review"], "true")
    assert done.returncode == 1
    assert "changed while the draft waited" in done.stderr
    assert contents(root) == before


def test_in_a_pipe_it_prints_how_to_go_on(architect: Example, root: Path) -> None:
    """Spec engine, 7, run: it prints what is held and how to go on, and exits 75."""
    done = architect.flowctl("run", architect.flow, ".", "--id", "tea")
    assert done.returncode == 75
    assert f" answer {architect.holds('tea')['review']} true\n" in done.stdout
    assert "Write this ARCHITECTURE.md?" in done.stdout
