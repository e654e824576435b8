"""Does flowctl say of an agent where it stands, why it does not move, and what to do then?"""

from __future__ import annotations

import json
import re
import signal

from quiesce import Runtime
from quiesce.flows import load

from .conftest import Shell
from .test_agents import APPROVER, edit, effects, status
from .test_verbs import go_on, one_line


def asking_line(flowctl: Shell) -> int:
    lines = (flowctl.folder / "agents.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if "if ask_human(f" in line)


def test_show_has_file_line_and_source_of_a_paused_body(flowctl: Shell) -> None:
    """Source: spec engine, 7 (show)."""
    hold = flowctl.asked(APPROVER, "50")
    shown = flowctl("show", "r1")
    number, path = asking_line(flowctl), flowctl.folder / "agents.py"
    assert f'its body stands at {path}, line {number}: if ask_human(f"charge {{found}}?", expects=bool):' in (
        shown.out
    )
    assert re.search(r"1\s+step look_up\s+done\s+1\s+agents\.py:\d+", shown.out)
    assert re.search(rf"2\s+ask charge 50\?\s+open\s+agents\.py:{number}", shown.out)
    seen = flowctl("show", "r1", "--json").json
    assert (seen["stands_at"]["file"], seen["stands_at"]["line"]) == (str(path), number)
    assert [piece["hold"] for piece in seen["pieces"]] == [hold]
    flowctl("answer", hold, "true")
    assert flowctl("show", "r1", "--json").json["stands_at"] is None


def test_what_an_agent_asks_is_in_the_inbox_and_in_the_list(flowctl: Shell) -> None:
    """Source: spec engine, 7 (holds, list)."""
    hold = flowctl.asked(APPROVER, "50")
    (listed,) = flowctl("list", "--json").json["runs"]
    assert (listed["id"], listed["kind"], listed["state"], listed["reason"]) == (
        "r1", "agent", "paused", "charge 50?",
    )  # fmt: skip
    assert "charge 50?" in flowctl("list").out
    inbox = flowctl("inbox").out
    assert hold in inbox
    assert f"flowctl answer {hold} true" in inbox


def test_explain_says_what_is_done_unknown_and_not_begun(flowctl: Shell) -> None:
    """Source: spec engine, 7 (explain); spec agent: replayed dry, without effects."""
    child, gate = flowctl.blocked(flow="agents.py:blocked")
    living = flowctl("explain", "b1")
    assert "it does move: a living process drives it" in living.out
    assert "nobody knows" not in living.out
    child.process.kill()
    seen = flowctl("explain", "b1").out
    assert "its process has died" in seen
    assert "blocked is executed again, over its journal" in seen
    assert "1 recorded place is given back from the journal, and not done again" in seen
    assert "step wait (position 2) began, and nobody knows whether it happened" in seen
    assert "charge" not in seen, "it has not begun"
    assert seen.splitlines()[-1].strip() == "flowctl resume b1"
    assert effects(flowctl) == ["look_up 1"]
    gate.let_go()


def test_explain_of_a_body_at_a_fence_says_that_it_goes_on_where_it_stands(flowctl: Shell) -> None:
    """Source: spec engine, 7; 2 (lease): a process with a live continuation keeps it through pauses."""
    mailbox = load(f"{flowctl.folder / 'agents.py'}:mailbox")
    with Runtime.blocking(flowctl.folder / "flows.db") as rt:
        run = rt.start(mailbox, run_id="r1")
        paused = flowctl("pause", "r1", "--wait", "--reason", "maintenance", "--actor", "ann")
        assert paused.out == "r1 paused, quiescent, held by operator\n"
        told = flowctl("explain", "r1").out
        assert "lock operator: maintenance, by ann" in told
        assert "mailbox goes on where it stands, in its process" in told
        assert told.splitlines()[-1].strip() == "flowctl resume r1"
        assert "return receive()" in flowctl("show", "r1").out
        assert flowctl("resume", "r1", "--no-drive").code == 0
        run.send("here")
        assert run.result() == "here"


def test_explain_leaves_alone_what_the_code_prints_and_does(flowctl: Shell) -> None:
    """Source: spec agent: dry, without effects; what plain code prints is not shown."""
    flowctl.asked(APPROVER, "50")
    edit(
        flowctl,
        "    found = look_up(amount)\n    if",
        '    print("PRINTED")\n    found = look_up(amount)\n    if',
    )
    explained = flowctl("explain", "r1")
    assert "  yes" in explained.out.splitlines()
    assert "PRINTED" not in explained.out + explained.err
    assert effects(flowctl) == ["look_up 50"]


def test_what_an_inner_agent_asks_is_answered_and_the_outer_one_goes_on(flowctl: Shell) -> None:
    """Source: spec engine, 4 (nesting), 7 (explain): the outer one waits, and says for whom."""
    paused = flowctl("run", "agents.py:manager", "50", "--id", "r1")
    assert paused.code == 75
    assert "asks at manager/approver" in paused.out
    told = flowctl("explain", "r1").out
    assert "manager waits for run r1.1" in told
    assert "return str(child.result())" in flowctl("show", "r1").out
    assert flowctl("list", "--parent", "r1", "--json").json["runs"][0]["id"] == "r1.1"
    flowctl("pause", "r1")
    assert [lock["kind"] for lock in status(flowctl, "r1.1")["locks"]] == ["holds", "parent"]
    fenced = flowctl("resume", "r1.1")
    assert (fenced.code, "r1" in one_line(fenced.err)) == (4, True)
    assert "flowctl explain r1" in flowctl("explain", "r1.1").out
    assert flowctl("resume", "r1").code == 75
    assert flowctl(*go_on(paused.out)).out == 'r1 completed\n"charged 50"\n'


def test_runs_that_wait_for_each_other_are_named(flowctl: Shell) -> None:
    """Source: spec agent, "Concurrency" (Deadlock): told, not hung; explain names them."""
    failed = flowctl("run", "agents.py:ring", "--id", "r1")
    assert failed.code == 1
    told = flowctl("explain", "r1").out
    for text in (one_line(failed.err), told):
        assert "would wait for itself" in text
        assert all(f"'{run_id}'" in text for run_id in ("r1", "r1.1", "r1.1.1"))


def test_an_agent_has_no_drawing_and_no_fork_and_says_so(flowctl: Shell) -> None:
    """Source: spec engine, 7 (graph, fork): a clear refusal, and nothing changed."""
    flowctl.asked(APPROVER, "50")
    before = flowctl("show", "r1", "--json").out
    for what in (APPROVER, "r1"):
        refused = flowctl("graph", what)
        assert (refused.code, "is an agent, which has no drawing" in one_line(refused.err)) == (2, True)
    refused = flowctl("fork", "r1", "--at", "1")
    assert refused.code == 2
    assert "has no visits to fork from" in one_line(refused.err)
    assert flowctl("show", "r1", "--json").out == before


def test_events_follow_an_agent(flowctl: Shell) -> None:
    """Source: spec engine, 7 (events --follow)."""
    hold = flowctl.asked(APPROVER, "50")
    child = flowctl.spawn("events", "r1", "--follow", "--json")
    seen = [json.loads(child.out.readline())["kind"]]
    flowctl("answer", hold, "true", "--actor", "ann")
    for line in child.out:
        seen.append(json.loads(line)["kind"])
        if seen[-1] == "completed":
            break
    assert [kind for kind in seen if kind not in ("claimed", "handed-back")] == [
        "started", "asked", "paused", "answered", "resumed", "completed",
    ]  # fmt: skip
    child.process.send_signal(signal.SIGINT)
    assert child.done().code == 130


def test_watch_shows_an_agent(flowctl: Shell) -> None:
    """Source: spec engine, 7 (watch)."""
    hold = flowctl.asked(APPROVER, "50")
    child = flowctl.spawn("watch")
    assert child.out.readline().rstrip("\n").split("\t")[1:] == [
        "r1", "paused", "quiescent", "holds", "charge 50?",
    ]  # fmt: skip
    flowctl("answer", hold, "true")
    assert any(line.split("\t")[2] == "completed" for line in child.out if "completed" in line)


def test_doctor_and_prune_take_agents_as_they_take_graphs(flowctl: Shell) -> None:
    """Source: spec engine, 6 and 7: never a run that is not ended; with its journal and the runs inside."""
    done = flowctl.asked("agents.py:manager", "1", run_id="old")
    assert flowctl("answer", done, "true").code == 0
    kept = flowctl.asked("agents.py:manager", "2", run_id="new")
    checked = flowctl("doctor")
    assert (checked.code, checked.out.splitlines()[-1]) == (0, "all is well")
    assert "agents       can be run here" in checked.out
    assert flowctl("prune", "--older-than", "0s").out == "old gone\nold.1 gone\n"
    assert [flowctl("status", gone).code for gone in ("old", "old.1")] == [3, 3]
    assert flowctl("doctor").code == 0
    assert flowctl("answer", kept, "true").code == 0
