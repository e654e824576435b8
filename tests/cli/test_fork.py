"""Does `flowctl fork` go back in a new run, and leave the old one as it is?"""

from __future__ import annotations

from .conftest import Shell


def test_a_fork_asks_again_and_the_old_run_is_untouched(flowctl: Shell) -> None:
    """Source: cases failures-agent-frameworks 59: going back asks again and leaves the old branch alone."""
    flowctl("run", "sample.py:announce", "ship", "--id", "r1")
    hold = flowctl("--json", "holds", "r1").json["holds"][0]["id"]
    assert flowctl("answer", hold, "true").code == 0
    before = flowctl("--json", "status", "r1").out

    forked = flowctl("fork", "r1", "--at", "2", "--id", "r2")

    assert forked.code == 75
    assert "r2 paused" in forked.out
    assert flowctl("--json", "status", "r1").out == before
    visits = [e for e in flowctl("--json", "events", "r2").out.splitlines() if '"visit"' in e]
    assert not any('"draft"' in visit for visit in visits)


def test_a_fork_at_a_visit_that_never_was_is_refused_in_one_line(flowctl: Shell) -> None:
    """Source: issue "Graphs, complete": bad input gets a clear error."""
    flowctl("run", "sample.py:counts", "21", "--id", "r1")
    refused = flowctl("fork", "r1", "--at", "99")
    assert refused.code == 2
    assert refused.err.startswith("error: run 'r1' cannot be forked at visit 99: it has ")
