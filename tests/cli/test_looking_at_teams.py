"""Does flowctl say of a team who waits for whom, what a resume goes on with, and draw it?"""

from __future__ import annotations

import pytest

from .conftest import Shell
from .test_terminal import Terminal, plain
from .test_verbs import one_line


def why(flowctl: Shell, run_id: str, **environment: str) -> dict[str, list[str]]:
    """The lines of `explain`, by their title."""
    done = flowctl("explain", run_id, **environment)
    assert done.code == 0, done.err
    told: dict[str, list[str]] = {}
    for line in done.out.splitlines()[1:]:
        if line.startswith("  "):
            told[list(told)[-1]].append(line.strip())
        else:
            told[line] = []
    return told


def test_an_idle_team_has_nothing_to_do_and_nothing_to_pause(flowctl: Shell) -> None:
    """Source: spec engine, 3 and 7: an idle team to pause exits 0; spec team: idle by quiescence."""
    assert flowctl("run", "teams.py:idles", "--id", "r").out == "r idle\n"
    before = flowctl("show", "r", "--json").out
    told = why(flowctl, "r")
    assert told["why it does not move"] == [
        "nothing is under way and no task is ready: it waits for a message or for another task",
        "task 2 (behind it) waits for task 1, which ended without a result; "
        "only the coordinator can change that",
        "task 3 (nobody's) has no owner",
    ]
    assert "what a resume would do" not in told
    assert told["go on"] == ["flowctl send r MESSAGE"]
    for words in (("pause", "r"), ("pause", "r", "--wait")):
        done = flowctl(*words)
        assert (done.code, done.out) == (0, "r is idle; nothing to pause\n")
    done = flowctl("pause", "r", "--json")
    assert (done.code, done.json["ack"], done.json["status"]["state"]) == (0, None, "idle")
    assert flowctl("show", "r", "--json").out == before
    assert flowctl("list", "--kind", "team").out.splitlines()[1].split("\t")[:2] == ["r", "idle"]


def test_a_pause_of_what_has_ended_is_refused_still(flowctl: Shell) -> None:
    """Source: spec engine, 3: only an idle team has nothing to pause."""
    flowctl("run", "teams.py:idles", "--id", "r")
    flowctl("cancel", "r")
    refused = flowctl("pause", "r")
    assert (refused.code, "it is cancelled" in one_line(refused.err)) == (4, True)


def test_explain_says_who_waits_for_whose_answer_and_what_is_behind(flowctl: Shell) -> None:
    """Source: issue "teams", command line: who waits for whose answer, and which task for which."""
    hold = flowctl.asked("teams.py:stuck", run_id="r")
    told = why(flowctl, "r")
    assert told["why it does not move"][2:] == [
        f"turn 2 of bob (task 1) waits for run r.2, which asks {hold}",
        "task 3 (after the answer) waits for task 1 to be completed",
    ]
    keeps = "turn 2 of bob (task 1) keeps its question; only an answer moves it"
    assert told["what a resume would do"] == [keeps]
    assert told["go on"] == [f"flowctl answer {hold} '\"…\"'"]
    assert flowctl("resume", "r").code == 5
    (told_hold,) = flowctl("holds", "r", "--json").json["holds"]
    assert (told_hold["id"], told_hold["path"]) == (hold, "bob#2/asks")
    flowctl("pause", "r")
    told = why(flowctl, "r")
    assert told["what a resume would do"] == [
        keeps,
        "the operator's lock is lifted, and it stays paused until its questions are answered",
    ]
    before = flowctl("turns", "r").out
    ack = flowctl("resume", "r", "--json").json["ack"]
    assert (ack["transitioned"], ack["generation"]) == (False, 2)
    assert flowctl("turns", "r").out == before


def test_what_is_behind_a_turn_that_waits_is_counted(flowctl: Shell) -> None:
    """Source: spec team, "Model": its member's queue stops."""
    flowctl.asked("teams.py:stuck", run_id="r")
    queued = flowctl("direct", "r", "bob", "more")
    assert (queued.code, "turn 2, which is ahead of it, waits for an answer" in queued.out) == (75, True)
    assert why(flowctl, "r")["why it does not move"][2].endswith("; 1 turn is behind it")
    assert "  bob: turn 2 waiting (task 1), turn 4 queued (user-directed)" in flowctl("status", "r").out


def test_what_explain_says_of_a_resume_is_what_it_does(flowctl: Shell) -> None:
    """Source: spec engine, 7 (explain); spec team, "resume": a continuation turn for each."""
    child, gate = flowctl.blocked("r", "teams.py:works")
    paused = flowctl("pause", "r", "--json").json
    assert (paused["ack"]["captured"], paused["ack"]["draining"]) == (2, 1)
    told = why(flowctl, "r")
    assert told["what a resume would do"] == [
        "turn 2 of bob (task 1) is continued: its body goes on where it stands, in its process, "
        "once what still runs of it has yielded",
        "turn 3 of bob (task 2) is continued: its body begins",
    ]
    assert any(line.startswith("bob#2 still runs, until ") for line in told["why it does not move"])
    gate.let_go("text")
    assert child.done().code == 75
    assert why(flowctl, "r")["what a resume would do"][0] == (
        "turn 2 of bob (task 1) is continued: its body has ended; what it gave is applied"
    )
    seen = flowctl("explain", "r", "--json").json["team"]["next"]
    ack = flowctl("resume", "r", "--no-drive", "--json").json["ack"]
    assert [item["outcome"] for item in seen] == ["continued"] * ack["continued"] == ["continued"] * 2


def test_explain_of_a_team_whose_process_died_says_what_is_taken_up(flowctl: Shell) -> None:
    """Source: spec team, restart: running turns of dead incarnations are gone on with."""
    child, gate = flowctl.blocked("r", "teams.py:works")
    child.process.kill()
    told = why(flowctl, "r")
    assert told["why it does not move"][:2] == [
        "its process has died",
        "turn 2 of bob (task 1) has no living process; 1 turn is behind it",
    ]
    assert told["what a resume would do"] == [
        "turn 2 of bob (task 1): its body goes on from what is recorded of it",
        "turn 3 of bob (task 2): its body begins",
    ]
    assert told["go on"] == ["flowctl resume r"]
    gate.let_go()


def test_a_failed_team_says_which_turn_a_retry_goes_on_with(flowctl: Shell) -> None:
    """Source: spec engine, 4 (retry): it continues from the point that failed."""
    (flowctl.folder / "bad.py").write_text(
        "from quiesce import Team, Turn\n"
        "async def plan(turn: Turn) -> None:\n    raise ValueError('no plan')\n"
        "async def idle(turn: Turn) -> None: ...\n"
        "team = Team('bad', coordinator=plan, members={'ann': idle})\n",
        encoding="utf-8",
    )
    assert flowctl("run", "bad.py:team", "--id", "r").code == 1
    told = why(flowctl, "r")
    assert told["what a resume would do"] == [
        "turn 1 of coordinator is continued: its body goes on from what is recorded of it"
    ]
    assert told["go on"] == ["flowctl retry r"]


def test_a_team_is_drawn_with_its_tasks_and_where_they_stand(flowctl: Shell) -> None:
    """Source: spec engine, 7 (graph): the drawing; with a RUN, where it is."""
    flowctl.asked("teams.py:stuck", run_id="r")
    drawn = flowctl("graph", "teams.py:stuck").out
    assert 'p2["bob<br/>agent asks"]' in drawn
    assert "t1" not in drawn
    drawn = flowctl("graph", "r").out
    assert 'p2["bob<br/>agent asks<br/>1 waiting' in drawn
    assert 't1("1 ask<br/>in_progress"):::running' in drawn
    assert 't1 -->|"then"| t3' in drawn
    assert flowctl("graph", "r", "--format", "dot").out.startswith('digraph "stuck" {')


def test_a_team_has_no_fork_and_says_so(flowctl: Shell) -> None:
    """Source: spec engine, 7 (fork): a clear refusal, and nothing changed."""
    flowctl.asked("teams.py:stuck", run_id="r")
    before = flowctl("show", "r", "--json").out
    refused = flowctl("fork", "r", "--at", "1")
    assert (refused.code, "has no visits to fork from" in one_line(refused.err)) == (2, True)
    assert flowctl("show", "r", "--json").out == before


def test_watch_shows_a_team_and_its_change(flowctl: Shell) -> None:
    """Source: spec engine, 7 (watch)."""
    hold = flowctl.asked("teams.py:stuck", run_id="r")
    child = flowctl.spawn("watch")
    while (seen := child.out.readline().rstrip("\n").split("\t")[1:])[0] != "r":
        pass
    assert seen[:4] == ["r", "paused", "quiescent", "holds"]
    flowctl("answer", hold, '"this"', "--no-drive")
    assert any(line.split("\t")[1:3] == ["r", "running"] for line in child.out if "\tr\t" in line)


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("command", ["status", "show", "tasks", "turns", "explain", "list", "holds"])
def test_what_a_team_says_reaches_a_terminal_of_any_width_without_its_control_characters(
    flowctl: Shell, command: str, columns: int
) -> None:
    """Source: spec engine, 7: control characters from data are never sent to a terminal."""
    for flow, run_id in (("stuck", "r"), ("idles", "i")):
        flowctl("run", f"teams.py:{flow}", "--id", run_id)
    words = [command] if command in ("list", "holds") else [command, "i" if command == "turns" else "r"]
    terminal = Terminal(flowctl, *words, columns=columns)
    try:
        code, shown = terminal.end()
    finally:
        terminal.close()
    assert code == 0
    assert "\x1b[31mone" not in shown
    assert "\x1b[31mluck" not in shown
    if command in ("status", "holds"):
        assert "which \\x1b[31mone?" in plain(shown)
    if command in ("tasks", "turns", "list"):
        assert max(map(len, plain(shown).splitlines())) <= columns
    if command == "turns":
        assert "participant" in plain(shown), "no word of it is broken"
