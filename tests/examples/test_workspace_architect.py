"""What does the main example put before its approver, and what does it write?"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import workspace_architect
import workspace_document
import workspace_survey

from .reading import Make


def test_the_draft_says_what_it_would_replace_and_where_that_is_kept(project: Make) -> None:
    root = project({"m.py": "x = 1\n"})
    first = workspace_architect.draft(workspace_survey.survey(root))
    assert root / "ARCHITECTURE.md" == first.target
    assert "" == first.replaces
    assert f"It will be a new file: {first.target}" in first.summary
    workspace_architect.write(first)
    again = workspace_architect.draft(workspace_survey.survey(root))
    assert f"{first.target} already says exactly this: nothing will change." in again.summary
    first.target.write_text("By hand.\n")
    draft = workspace_architect.draft(workspace_survey.survey(root))
    question = workspace_architect.question(draft)
    assert f"It will REPLACE {first.target}: +{len(draft.text.splitlines())} -1 lines." in question
    assert "ARCHITECTURE.md.1.bak" in question
    assert question.endswith("Write this ARCHITECTURE.md?")
    assert hashlib.sha256(b"By hand.\n").hexdigest() == draft.replaces


def test_a_writer_gets_the_facts_and_the_draft_and_its_text_is_reviewed(
    project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pens.py").write_text(
        "def shout(survey, text):\n    return survey.name + text.upper()\ndef mute(survey, text): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("WORKSPACE_ARCHITECT_WRITER", "pens:shout")
    survey = workspace_survey.survey(project({"m.py": ""}))
    assert (
        "project" + workspace_document.architecture(survey).upper() == workspace_architect.draft(survey).text
    )
    monkeypatch.setenv("WORKSPACE_ARCHITECT_WRITER", "pens:mute")
    with pytest.raises(workspace_survey.ArchitectError, match="pens:mute returned None; expected the text"):
        workspace_architect.draft(survey)


@pytest.mark.parametrize("name", ["no_such_module_here:f", "json", "json:nothing", ":f", "a b:c"])
def test_a_writer_that_cannot_be_found_is_named(
    project: Make, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("WORKSPACE_ARCHITECT_WRITER", name)
    with pytest.raises(
        workspace_survey.ArchitectError, match=re.escape(f"WORKSPACE_ARCHITECT_WRITER={name}: ")
    ):
        workspace_architect.draft(workspace_survey.survey(project({"m.py": ""})))


# --- writing ---


@pytest.fixture
def old(project: Make) -> Iterator[Path]:
    root = project({"m.py": "x = 1\n", "ARCHITECTURE.md": "By hand.\n"})
    yield root
    assert [] == list(root.glob(".*.part")), "no half of a file is left behind"


def test_what_is_replaced_is_kept_beside_it(old: Path) -> None:
    draft = workspace_architect.draft(workspace_survey.survey(old))
    assert old / "ARCHITECTURE.md" == workspace_architect.write(draft)
    assert draft.text == (old / "ARCHITECTURE.md").read_text()
    assert "By hand.\n" == (old / "ARCHITECTURE.md.1.bak").read_text()


def test_kept_texts_are_never_overwritten(old: Path) -> None:
    (old / "ARCHITECTURE.md.1.bak").write_text("Older.\n")
    workspace_architect.write(workspace_architect.draft(workspace_survey.survey(old)))
    assert "Older.\n" == (old / "ARCHITECTURE.md.1.bak").read_text()
    assert "By hand.\n" == (old / "ARCHITECTURE.md.2.bak").read_text()


def test_writing_twice_changes_nothing_the_second_time(old: Path) -> None:
    draft = workspace_architect.draft(workspace_survey.survey(old))
    workspace_architect.write(draft)
    before = {path.name: path.stat() for path in old.iterdir()}
    workspace_architect.write(draft)
    assert before == {path.name: path.stat() for path in old.iterdir()}


def test_a_crash_between_keeping_and_replacing_is_repaired_by_the_second_visit(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = workspace_architect.draft(workspace_survey.survey(old))
    replace = os.replace

    def crash(source: Path, target: Path) -> None:
        if Path(target).name == "ARCHITECTURE.md":
            raise OSError("power lost")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(OSError, match="power lost"):
            workspace_architect.write(draft)
    assert "By hand.\n" == (old / "ARCHITECTURE.md").read_text()
    workspace_architect.write(draft)
    assert draft.text == (old / "ARCHITECTURE.md").read_text()
    assert ["ARCHITECTURE.md.1.bak"] == [path.name for path in old.glob("*.bak")]


@pytest.mark.parametrize("meanwhile", ["edited", "removed"])
def test_a_file_that_changed_while_the_draft_waited_is_left_as_it_is(old: Path, meanwhile: str) -> None:
    draft = workspace_architect.draft(workspace_survey.survey(old))
    target = old / "ARCHITECTURE.md"
    if meanwhile == "edited":
        target.write_text("By hand, later.\n")
    else:
        target.unlink()
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    with pytest.raises(workspace_survey.ArchitectError, match="changed while the draft waited"):
        workspace_architect.write(draft)
    assert before == {path.name: path.read_bytes() for path in old.iterdir()}


def test_a_link_is_written_through_and_a_folder_in_the_way_is_named(project: Make) -> None:
    root = project({"m.py": "", "docs/arch.md": "Old.\n"})
    (root / "ARCHITECTURE.md").symlink_to(root / "docs" / "arch.md")
    draft = workspace_architect.draft(workspace_survey.survey(root))
    workspace_architect.write(draft)
    assert (root / "ARCHITECTURE.md").is_symlink()
    assert draft.text == (root / "docs" / "arch.md").read_text()
    (root / "ARCHITECTURE.md").unlink()
    (root / "ARCHITECTURE.md").mkdir()
    with pytest.raises(workspace_survey.ArchitectError, match="is a folder; the file needs that name"):
        workspace_architect.draft(workspace_survey.survey(root))
