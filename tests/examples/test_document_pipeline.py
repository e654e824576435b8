"""Two reviewers, in parallel, in any order, across processes that are killed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import document_pipeline
from document_pipeline import Document, measure

from .conftest import Example

TEXT = """\
# Tea

Boil water. See [how](kettle.md), or [ask](https://example.com/a).

## Cups

```
[not a link](nowhere.md)
```
Two cups are enough.
"""
YES = json.dumps({"approved": True, "comment": "good"})
NO = json.dumps({"approved": False, "comment": "1 broken link"})


@pytest.fixture
def pipeline(example: Callable[[str], Example]) -> Example:
    return example("document_pipeline")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "tea.md"
    path.write_text(TEXT)
    return path


def test_what_is_counted_is_in_the_file(text: Path) -> None:
    """The figures are of the prose: no code, no link of the web."""
    assert measure(text) == Document(text, 12, 2.4, ("Tea", "Cups"), ("kettle.md",))
    text.with_name("kettle.md").touch()
    assert measure(text).broken_links == ()
    text.write_text("")
    assert measure(text) == Document(text, 0, 0.0, (), ())


def test_a_review_goes_on_over_two_kills_and_a_round_of_rework(pipeline: Example, text: Path) -> None:
    """Spec graph: an answer evaluates only its branch again, what arrived at the join survives a kill."""
    with pipeline.held("tea", str(text)) as process:
        first = pipeline.holds("tea")
        assert list(first) == ["editor", "maintainer"]
        done = pipeline.flowctl("answer", first["maintainer"], NO)  # the process that lives goes on
        assert done.returncode == 75
        assert pipeline.holds("tea") == {"editor": first["editor"]}
        process.kill()
    assert set(pipeline.evaluating) == {process.pid}
    assert pipeline.evaluated == ["measure", "editor", "maintainer", "maintainer"]

    assert pipeline.flowctl("answer", first["editor"], YES).returncode == 75
    assert list(pipeline.holds("tea")) == ["author"]
    assert pipeline.evaluated[4:] == ["editor", "verdict", "author"]

    text.with_name("kettle.md").touch()
    assert pipeline.flowctl("answer", pipeline.holds("tea")["author"], '"added it"').returncode == 75
    second = pipeline.holds("tea")
    assert not set(first.values()) & set(second.values())
    assert pipeline.flowctl("answer", second["editor"], YES).returncode == 75
    died = pipeline.flowctl("answer", second["maintainer"], YES, DIES_OF="publish")
    assert died.returncode == -9
    assert pipeline.flowctl("resume", "tea").returncode == 0

    report = text.with_suffix(".review.txt").read_text()
    assert "broken links: none" in report
    assert report.count("approved: good") == 2
    assert Counter(pipeline.evaluated) == {
        "measure": 2,
        "editor": 4,
        "maintainer": 4,
        "verdict": 2,
        "author": 2,
        "publish": 2,  # once more after the kill
    }
    assert Counter(pipeline.visits("tea"))["publish"] == 1


def test_what_is_no_decision_is_refused_and_both_gates_stay_open(pipeline: Example, text: Path) -> None:
    """Spec engine, 4, answer: validated first, nothing changed."""
    assert pipeline.flowctl("run", pipeline.flow, text, "--id", "tea").returncode == 75
    holds = pipeline.holds("tea")
    for wrong in ("true", '{"approved": "perhaps"}', '{"comment": "hm"}'):
        assert pipeline.flowctl("answer", holds["editor"], wrong).returncode == 5
    assert pipeline.holds("tea") == holds
    assert pipeline.evaluated == ["measure", "editor", "maintainer"]


def test_the_story_reworks_the_document_once(pipeline: Example) -> None:
    """`python examples/document_pipeline.py`."""
    done = pipeline.script_run()
    assert (done.returncode, done.stderr) == (0, "")
    links = len(
        re.findall(
            r"\]\(([^)]+\.py)\)", (Path(document_pipeline.__file__).parent / "README.md").read_text("utf-8")
        )
    )
    assert f"took out {links} links" in done.stdout
    assert done.stdout.count("editor#") == done.stdout.count("maintainer#") == 2
    assert "broken links: none\napproved: " in done.stdout
