"""A CI result is delivered to a waiting run by another process, whether the first one lives or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Example, Living


@pytest.fixture
def ci(example: Callable[[str], Example]) -> Example:
    return example("await_ci")


def line(process: Living) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_callback_finishes_the_run_of_a_process_that_was_killed(ci: Example) -> None:
    """Nothing has to stay alive: the run is in the store."""
    with ci.living(ci.script, "wait", ci.db, "4f2a91c") as waiting:
        assert line(waiting) == "ci-4f2a91c is paused: What does CI say of 4f2a91c?"
        waiting.kill()
    done = ci.script_run("deliver", ci.db, "ci-4f2a91c", "d1", "success", "all is well")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "delivery d1: taken",
        "ci-4f2a91c is over: 4f2a91c: success, all is well",
    ]
    assert ci.evaluated == ["push", "checks", "checks", "announce"]


def test_a_callback_wakes_the_process_that_waits(ci: Example) -> None:
    """Spec engine, 6: processes on one store wake one another; the one with the lease goes on."""
    with ci.living(ci.script, "wait", ci.db, "4f2a91c") as waiting:
        assert "is paused" in line(waiting)
        done = ci.script_run("deliver", ci.db, "ci-4f2a91c", "d1", "failure", "2 of 90 failed")
        assert line(waiting) == "ci-4f2a91c is over: 4f2a91c: failure, 2 of 90 failed"
        assert waiting.wait(10) == 0
    assert done.returncode == 0
    assert ci.evaluated == ["push", "checks", "checks", "announce"]
    assert set(ci.evaluating) == {waiting.pid}


def test_a_delivery_that_comes_twice_counts_once(ci: Example) -> None:
    """The id of the delivery is the request id: the same ack, and nothing changes."""
    with ci.held("ci-4f2a91c", "4f2a91c"):
        pass
    for expected in ("taken", "known already"):
        done = ci.script_run("deliver", ci.db, "ci-4f2a91c", "d1", "success", "all is well")
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"delivery d1: {expected}")
    other = ci.script_run("deliver", ci.db, "ci-4f2a91c", "d2", "failure", "late")
    assert other.returncode == 1
    assert other.stderr.startswith("AlreadyAnswered: ")
    assert ci.evaluated == ["push", "checks", "checks", "announce"]


def test_what_is_no_result_is_refused_and_the_run_goes_on_waiting(ci: Example) -> None:
    """The answer has a type."""
    with ci.held("ci-4f2a91c", "4f2a91c"):
        pass
    done = ci.script_run("deliver", ci.db, "ci-4f2a91c", "d1", "perhaps", "flaky")
    assert done.returncode == 1
    assert "'perhaps' is not one of ['success', 'failure']" in done.stderr
    assert ci.status("ci-4f2a91c").state == "paused"
    assert list(ci.holds("ci-4f2a91c")) == ["checks"]


def test_the_story_is_told_by_real_processes(ci: Example) -> None:
    """`python examples/await_ci.py`."""
    done = ci.script_run()
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "ci-4f2a91c is paused: What does CI say of 4f2a91c?",
        "delivery d2: taken",
        "ci-4f2a91c is over: 4f2a91c: success, all is well",
        "delivery d2: known already",
        "ci-4f2a91c is over: 4f2a91c: success, all is well",
        "ci-4f2a91c is over: 4f2a91c: success, all is well",
    ]
