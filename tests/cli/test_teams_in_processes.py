"""Is a team one team for all processes: steered from any, taken up by the next when its own is killed?"""

from __future__ import annotations

import json

import pytest

from .conftest import Shell
from .test_agents import effects
from .test_verbs import one_line

WORKS = "teams.py:works"
DONE = 'r completed\n{"wait": "began text", "pack": "pack", "ship": "ship"}\n'


def turns(flowctl: Shell, run_id: str = "r") -> list[tuple[str, str, int | None, str]]:
    """Who, which kind, which task and in which state, by number."""
    rows = flowctl("turns", run_id, "--json").json["turns"]
    return [(row["participant"], row["kind"], row["task"], row["state"]) for row in rows]


def drains(flowctl: Shell) -> list[tuple[int, str, str]]:
    """Of each turn that the pause holds: what it did, and how its drain goes."""
    rows = flowctl("show", "r", "--json").json["receipts"]
    return [(row["piece"], row["was"], row["drain"]) for row in rows]


def test_a_team_runs_to_its_end_and_its_rows_say_what_each_did(flowctl: Shell) -> None:
    """Source: spec engine, 7 (run, tasks, turns): plain text in a pipe."""
    child, gate = flowctl.blocked("r", WORKS)
    gate.let_go("text")
    done = child.done()
    assert (done.code, done.out) == (0, DONE)
    assert flowctl("tasks", "r").out.splitlines() == [
        "task\tstate\towner\tafter\tattempts\ttitle\toutcome",
        '1\tcompleted\tbob\t\t1\twait\t"began text"',
        '2\tcompleted\tbob\t\t1\tpack\t"pack"',
        '3\tcompleted\tann\t1\t1\tship\t"ship"',
    ]
    assert flowctl("turns", "r").out.splitlines()[:3] == [
        "turn\tparticipant\tfor\tstate\tplace\tgeneration\tcontinues\twhy",
        "1\tcoordinator\tcoordinator\tcompleted\t1\t1\t\t",
        "2\tbob\ttask 1\tcompleted\t1\t1\t\t",
    ]
    assert sorted(effects(flowctl)) == ["began", "pack", "ship"]
    again = flowctl("run", WORKS, "other", "--id", "r")
    assert (again.code, "completed" in one_line(again.err)) == (4, True)


def test_a_pause_from_another_process_drains_and_then_is_quiescent(flowctl: Shell) -> None:
    """Source: issue "teams", command line: status shows fence, phase, each receipt."""
    child, gate = flowctl.blocked("r", WORKS)
    assert flowctl("pause", "r").out == "r is paused: 2 piece(s) held, 1 still running\n"
    told = flowctl("status", "r").out
    assert told.splitlines()[0] == "r paused, draining (1 draining), held by operator"
    assert "2\tbob\t1\trunning\tpending\t" in told
    assert "3\tbob\t2\tqueued\tabsent\t" in told
    assert drains(flowctl) == [(2, "running", "pending"), (3, "queued", "absent")]
    waiter = flowctl.spawn("pause", "r", "--wait")
    gate.let_go("text")
    assert waiter.done().out == "r paused, quiescent, held by operator\n"
    assert child.done().code == 75
    assert drains(flowctl) == [(2, "running", "released"), (3, "queued", "absent")]
    assert [task["state"] for task in flowctl("tasks", "r", "--json").json["tasks"]] == [
        "in_progress", "pending", "pending",
    ]  # fmt: skip
    done = flowctl("resume", "r")
    assert (done.code, done.out) == (0, DONE)
    assert sorted(effects(flowctl)) == ["began", "pack", "ship"]


def test_what_did_not_yield_in_time_is_overdue_and_the_fence_stands(flowctl: Shell) -> None:
    """Source: spec engine, 7: exit 7; spec team, drain: overdue may become released later."""
    child, gate = flowctl.blocked("r", WORKS)
    done = flowctl("pause", "r", "--wait", "--drain-timeout", "0")
    assert (done.code, "1 piece(s) of r did not yield in time" in one_line(done.err)) == (7, True)
    assert "1 overdue" in flowctl("status", "r").out
    gate.let_go("text")
    assert child.done().code == 75
    (kept, _) = flowctl("show", "r", "--json").json["receipts"]
    assert kept["drain"] == "released"
    assert flowctl("resume", "r").out == DONE


def test_a_directed_turn_and_a_message_while_a_team_drains(flowctl: Shell) -> None:
    """Source: spec team, model: refused while paused except `direct` and reads; a message resumes nothing."""
    child, gate = flowctl.blocked("r", WORKS)
    flowctl("pause", "r")
    done = flowctl("direct", "r", "ann", "the dishes")
    assert (done.code, done.out) == (0, 'turn 4 of ann completed\n"ann does the dishes"\n')
    kept = flowctl("direct", "r", "bob", "later", "--no-drive", "--json", "--request-id", "q1")
    assert (kept.code, kept.json["ack"]["turn"], kept.json["status"]["state"]) == (0, 5, "paused")
    again = flowctl("direct", "r", "bob", "later", "--no-drive", "--json", "--request-id", "q1")
    assert (again.json["ack"]["turn"], again.json["ack"]["replayed"]) == (5, True)
    other = flowctl("direct", "r", "ann", "later", "--no-drive", "--request-id", "q1")
    assert (other.code, "q1" in one_line(other.err)) == (4, True)
    sent = flowctl("send", "r", "hello", "--json")
    assert (sent.code, sent.json["status"]["state"], sent.json["status"]["generation"]) == (0, "paused", 2)
    assert turns(flowctl)[-2:] == [
        ("ann", "user_directed", None, "completed"),
        ("bob", "user_directed", None, "queued"),
    ]
    gate.let_go("text")
    child.done()
    assert flowctl("resume", "r").out == DONE
    assert sorted(effects(flowctl)) == ["began", "later", "pack", "ship"]


def test_who_drives_a_paused_team_does_what_was_directed_before_it_leaves(flowctl: Shell) -> None:
    """Source: spec team, N9: user-directed work is never touched; a pause of the team does not end it."""
    child, gate = flowctl.blocked("r", WORKS)
    flowctl("pause", "r")
    flowctl("direct", "r", "bob", "later", "--no-drive")  # behind the turn that drains
    gate.let_go("text")
    done = child.done()
    assert (done.code, "waiting for user-directed turn 4" in done.err) == (75, True)
    assert turns(flowctl)[-1] == ("bob", "user_directed", None, "completed")
    assert effects(flowctl) == ["began", "later"]


def test_a_killed_team_is_resumed_and_every_task_is_done_once(flowctl: Shell) -> None:
    """Source: spec team, restart: what ran is queued again; recorded steps are not done again."""
    child, gate = flowctl.blocked("r", WORKS)
    child.process.kill()
    assert "(dead)" in flowctl("status", "r").out
    again = flowctl.spawn("resume", "r")
    gate.wait_for_node(again)
    refused = flowctl("resume", "r")
    assert (refused.code, "which lives" in one_line(refused.err)) == (4, True)
    gate.let_go("text")
    done = again.done()
    assert (done.code, done.out) == (0, DONE)
    assert sorted(effects(flowctl)) == ["began", "pack", "ship"]
    assert flowctl("doctor").out.endswith("all is well\n")


def test_a_team_that_was_killed_while_it_drained_is_quiescent_and_resumed(flowctl: Shell) -> None:
    """Source: spec team, drain: an obligation ends with the death of the incarnation that held it (W5)."""
    child, gate = flowctl.blocked("r", WORKS)
    flowctl("pause", "r")
    child.process.kill()
    told = flowctl("status", "r").out
    assert told.splitlines()[0] == "r paused, quiescent, held by operator"
    again = flowctl.spawn("resume", "r")
    gate.wait_for_node(again)
    gate.let_go("text")
    assert again.done().out == DONE
    assert drains(flowctl) == []
    assert sorted(effects(flowctl)) == ["began", "pack", "ship"]
    assert flowctl("doctor").out.endswith("all is well\n")


def test_of_processes_that_resume_a_team_at_once_one_does(flowctl: Shell) -> None:
    """Source: cases team 16, 24: one transitions, the others are told that it is running."""
    child, gate = flowctl.blocked("r", WORKS)
    flowctl("pause", "r")
    gate.let_go("text")
    assert child.done().code == 75
    racers = [flowctl.spawn("resume", "r", "--json") for _ in range(4)]
    done = [racer.done() for racer in racers]
    moved = [item for item in done if item.code == 0 and item.json["ack"]["transitioned"]]
    assert len(moved) == 1
    assert {item.code for item in done if item not in moved} <= {0, 4}, done
    assert flowctl("status", "r", "--json").json["state"] == "completed"
    assert [row for row in turns(flowctl) if row[3] == "completed" and row[1] == "task"] == [
        ("bob", "task", 1, "completed"),
        ("bob", "task", 2, "completed"),
        ("ann", "task", 3, "completed"),
    ]
    assert sorted(effects(flowctl)) == ["began", "pack", "ship"]


def test_a_directed_turn_is_run_by_the_process_that_drives_the_team(flowctl: Shell) -> None:
    """Source: spec engine, 7: recorded first; a living worker that serves the flow is rung."""
    child, gate = flowctl.blocked("r", WORKS)
    queued = flowctl("direct", "r", "ann", "it", "--no-drive")
    assert queued.out == "turn 4 of ann is queued\n"
    waits = flowctl("direct", "r", "ann", "that")  # behind it, so both are done when it returns
    assert waits.out == 'turn 5 of ann completed\n"ann does that"\n'
    claims = flowctl("events", "r.4", "--json").out
    assert '"claimed"' in claims
    workers = {
        json.loads(line)["data"]["worker"]
        for run_id in ("r", "r.4", "r.5")
        for line in flowctl("events", run_id, "--json").out.splitlines()
        if json.loads(line)["kind"] == "claimed"
    }
    assert len(workers) == 1
    gate.let_go("text")
    assert child.done().out == DONE


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("turns", "a"), 2, "is of the kind agent; only a team has tasks and turns"),
        (("direct", "a", "bob", "x"), 2, "is of the kind agent"),
        (("send", "a", "x", "--to", "bob"), 2, "is no team, so it has no member 'bob'"),
        (("turns", "none"), 3, "there is no run 'none'"),
        (("direct", "none", "bob", "x"), 3, "there is no run 'none'"),
        (("send", "none", "x"), 3, "there is no run 'none'"),
        (("pause", "i.2"), 4, "cannot pause run 'i.2'"),
    ],
)
def test_a_wrong_kind_or_name_is_refused_in_one_line(
    flowctl: Shell, words: tuple[str, ...], code: int, told: str
) -> None:
    """Source: spec engine, 7: exit codes, one line that says what to do next."""
    flowctl.asked("agents.py:approver", "50", run_id="a")
    flowctl("run", "teams.py:idles", "--id", "i")
    done = flowctl(*words)
    assert (done.code, told in one_line(done.err)) == (code, True), done
