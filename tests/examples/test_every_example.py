"""Is every example a script that runs by itself, and is it in their README?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs_without_arguments_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    """As `.ci/run` runs it: warnings are errors, there is nobody to ask."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_readme_of_the_examples_names_each_of_them() -> None:
    """One paragraph each; links to what is not there are the document pipeline's to find."""
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f"[{path.name}]({path.name})" not in text] == []
