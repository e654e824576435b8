"""A retry continues from the node that failed, in a new process, and repeats nothing that finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Example


@pytest.fixture
def sales(example: Callable[[str], Example], tmp_path: Path) -> Example:
    (tmp_path / "index.txt").write_text("north.csv south.csv west.csv\n")
    (tmp_path / "north.csv").write_text("amount\n1.50\n2.25\n")
    (tmp_path / "west.csv").write_text("amount\n4\n")
    return example("retry_from_failure")


def read(*outputs: str) -> list[str]:
    return [line.split()[1] for output in outputs for line in output.splitlines() if "reading" in line]


def test_only_what_failed_and_what_had_not_begun_is_evaluated_after_the_retry(sales: Example) -> None:
    """Spec engine, 4, retry: finished visits are not run again."""
    first = sales.flowctl("run", sales.flow, sales.folder, "--id", "s")
    assert first.returncode == 1
    assert "No such file or directory" in first.stderr
    assert read(first.stdout) == ["north.csv", "south.csv"]
    (sales.folder / "south.csv").write_text("amount\n8.25\n")
    second = sales.flowctl("retry", "s")
    assert second.returncode == 0
    assert read(second.stdout) == ["south.csv", "west.csv"]
    assert "16.00" in second.stdout
    assert sales.evaluated == ["index", "read", "read", "read", "read", "total"]
    assert sales.visits("s").count("total") == 1


def test_a_retry_that_fails_again_loses_nothing(sales: Example) -> None:
    """The cause was not mended: the run fails at the same point, and can be retried again."""
    assert sales.flowctl("run", sales.flow, sales.folder, "--id", "s").returncode == 1
    assert sales.flowctl("retry", "s").returncode == 1
    (sales.folder / "south.csv").write_text("amount\n8.25\n")
    assert sales.flowctl("retry", "s").returncode == 0
    assert sales.evaluated == ["index", *["read"] * 5, "total"]


def test_a_failed_run_outlives_the_process_that_ran_it_and_a_killed_retry_is_taken_up(sales: Example) -> None:
    """Killed after the failure, and again while the retry reads: each time a new process goes on."""
    with sales.living("hold", sales.db, sales.flow, "s", f'"{sales.folder}"') as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert "node 'read' failed: FileNotFoundError" in lines[2]
        process.kill()
    (sales.folder / "south.csv").write_text("amount\n8.25\n")
    died = sales.flowctl("retry", "s", DIES_OF="read")
    assert died.returncode == -9
    assert sales.status("s").state == "running"
    last = sales.flowctl("resume", "s")
    assert last.returncode == 0
    assert read(last.stdout) == ["south.csv", "west.csv"]
    assert sales.evaluated == ["index", *["read"] * 5, "total"]


def test_the_story_is_told(sales: Example) -> None:
    """`python examples/retry_from_failure.py`."""
    done = sales.script_run()
    assert (done.returncode, done.stderr) == (0, "")
    assert read(done.stdout) == ["north.csv", "south.csv", "south.csv", "west.csv"]
    assert done.stdout.splitlines()[-1].split() == ["total", "5", "127.84"]
