"""An approval that expires; effects that are repeated after a kill and happen once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Example

YES = '{"approved": true}'
HOURS = str(3 * 3600)


@pytest.fixture
def deploy(example: Callable[[str], Example], tmp_path: Path) -> Example:
    (tmp_path / "source" / "deep").mkdir(parents=True)
    (tmp_path / "source" / "index.html").write_text("Hello.\n")
    (tmp_path / "source" / "deep" / "data").write_bytes(b"\0\1")
    return example("deploy")


def asked(deploy: Example) -> list[str]:
    return [str(deploy.folder / "source"), str(deploy.folder / "www")]


def asked_json(deploy: Example) -> str:
    return json.dumps(asked(deploy))


def deployed(deploy: Example) -> dict[str, bytes]:
    current = deploy.folder / "www" / "current"
    return {str(p.relative_to(current)): p.read_bytes() for p in current.rglob("*") if p.is_file()}


def test_an_approval_that_expired_deploys_nothing_and_a_retry_asks_again(deploy: Example) -> None:
    """Spec engine, 4: on_deadline="fail"; a retry continues from the point that failed."""
    with deploy.held("d", asked(deploy)):
        pass
    first = deploy.holds("d")["approval"]
    late = deploy.flowctl("answer", first, YES, LATER=HOURS)
    assert late.returncode == 4
    assert "expired" in late.stderr
    assert deploy.status("d").state == "failed"
    assert not (deploy.folder / "www").exists()

    assert deploy.flowctl("retry", "d", LATER=HOURS).returncode == 75
    second = deploy.holds("d")["approval"]
    assert second != first
    assert deploy.flowctl("answer", second, YES, LATER=HOURS).returncode == 0
    assert deployed(deploy) == {"index.html": b"Hello.\n", "deep/data": b"\0\1"}
    assert deploy.evaluated.count("pack") == 1
    assert deploy.evaluated.count("stage") == deploy.evaluated.count("switch") == 1


@pytest.mark.parametrize("node", ["stage", "switch"])
def test_an_effect_whose_process_was_killed_is_evaluated_again_and_happens_once(
    deploy: Example, node: str
) -> None:
    """Spec graph, durable graphs: a visit in flight is evaluated again; the key makes it one effect."""
    assert deploy.flowctl("run", deploy.flow, "--input", asked_json(deploy), "--id", "d").returncode == 75
    died = deploy.flowctl("answer", deploy.holds("d")["approval"], YES, DIES_OF=node)
    assert died.returncode == -9
    (release,) = (deploy.folder / "www" / "releases").iterdir()
    before = release.stat()
    assert deploy.flowctl("resume", "d").returncode == 0
    assert deploy.evaluated == [
        "pack",
        "approval",
        "approval",
        *(["stage", "stage", "switch"] if node == "stage" else ["stage", "switch", "switch"]),
    ]
    assert [path.name for path in (deploy.folder / "www" / "releases").iterdir()] == [release.name]
    assert release.stat() == before
    assert os.readlink(deploy.folder / "www" / "current") == f"releases/{release.name}"
    assert sorted(os.listdir(deploy.folder / "www")) == ["current", "releases"]


def test_what_was_approved_is_what_is_deployed(deploy: Example) -> None:
    """The approval is about a digest: if the source changed meanwhile, the run fails."""
    assert deploy.flowctl("run", deploy.flow, "--input", asked_json(deploy), "--id", "d").returncode == 75
    page = deploy.folder / "source" / "index.html"
    page.write_text("Changed.\n")
    done = deploy.flowctl("answer", deploy.holds("d")["approval"], YES)
    assert done.returncode == 1
    assert "is not what was approved" in done.stderr
    assert not (deploy.folder / "www" / "current").exists()
    page.write_text("Hello.\n")
    assert deploy.flowctl("retry", "d").returncode == 0
    assert deployed(deploy)["index.html"] == b"Hello.\n"
    assert deploy.evaluated == ["pack", "approval", "approval", "stage", "stage", "switch"]


def test_a_no_deploys_nothing(deploy: Example) -> None:
    """`approved: false` is an answer, and ends the run."""
    assert deploy.flowctl("run", deploy.flow, "--input", asked_json(deploy), "--id", "d").returncode == 75
    done = deploy.flowctl("answer", deploy.holds("d")["approval"], '{"approved": false}')
    assert done.returncode == 0
    assert not (deploy.folder / "www").exists()


def test_the_story_expires_and_is_brought_back(deploy: Example) -> None:
    """`python examples/deploy.py`."""
    done = deploy.script_run()
    assert (done.returncode, done.stderr) == (0, "")
    told = done.stdout.splitlines()
    assert told[0].endswith("Until 01:00, it is 00:00.")
    assert "expired" in told[1]
    assert told[2] == "Asked again, until 02:00."
    assert told[3].startswith("current -> releases/")
