"""Does what looks tell the truth, in forms that people and scripts can use, and change nothing?"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import SAMPLES, Shell
from .test_verbs import one_line


def fingerprint(folder: Path) -> tuple[bytes, int]:
    path = folder / "flows.db"
    return path.read_bytes(), path.stat().st_mtime_ns


LOOKING = [
    ("status",),
    ("status", "r1"),
    ("list",),
    ("show", "r1"),
    ("holds",),
    ("inbox", "r1"),
    ("events",),
    ("explain", "r1"),
    ("graph", "r1"),
    ("doctor",),
    ("prune", "--older-than", "0s", "--dry-run"),
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
@pytest.mark.parametrize("killed", [False, True], ids=["tidy", "after kill -9"])
def test_looking_leaves_the_store_as_it_is(flowctl: Shell, words: tuple[str, ...], killed: bool) -> None:
    """Source: spec engine, 7: explain has no side effects. Also with a WAL that nobody has folded in."""
    flowctl.held()
    if killed:
        child, _ = flowctl.blocked()
        child.process.kill()
        assert (flowctl.folder / "flows.db-wal").stat().st_size > 0
    before = fingerprint(flowctl.folder)
    looked = flowctl(*words)
    assert (looked.code, looked.err) == (0, "" if words[0] != "prune" else "0 run(s) would go\n")
    assert fingerprint(flowctl.folder) == before


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_everything_that_looks_speaks_json(flowctl: Shell, words: tuple[str, ...]) -> None:
    """Source: spec engine, 7: --json everywhere."""
    flowctl.held()
    for line in (
        [flowctl(*words, "--json").out]
        if words[0] != "events"
        else flowctl(*words, "--json").out.splitlines()
    ):
        assert json.loads(line)


@pytest.mark.parametrize(
    "words", [("status",), ("answer", "h", "1"), ("watch",), ("doctor",), ("cancel", "r")]
)
def test_looking_for_a_store_makes_none(flowctl: Shell, words: tuple[str, ...]) -> None:
    """Source: spec engine, 7: 6, the store; only run and create make one."""
    missing = flowctl(*words)
    assert missing.code == 6
    assert "--db" in one_line(missing.err)
    made = {path.name for path in flowctl.folder.iterdir()} - {"__pycache__", *SAMPLES.values()}
    assert made == set()


@pytest.mark.parametrize("content", [b"this is no database, only text " * 40, b""])
def test_a_file_of_somebody_else_is_refused_and_kept(flowctl: Shell, content: bytes) -> None:
    path = flowctl.folder / "flows.db"
    path.write_bytes(content or sqlite_of_others(path))
    before = path.read_bytes()
    for words in (("status",), ("doctor",), ("run", "sample.py:counts", "1")):
        refused = flowctl(*words)
        assert refused.code == 6
        assert "--db" in one_line(refused.err) or "copy" in refused.err
    assert path.read_bytes() == before


def sqlite_of_others(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    return path.read_bytes()


def test_the_store_is_named_by_option_environment_or_the_folder(flowctl: Shell) -> None:
    """Source: spec engine, 7: --db (env FLOWCTL_DB, default flows.db in the working directory)."""
    flowctl("run", "sample.py:counts", "1", "--id", "folder")
    flowctl("run", "sample.py:counts", "1", "--id", "environment", FLOWCTL_DB="e.db")
    flowctl("run", "sample.py:counts", "1", "--id", "option", "--db", "o.db", FLOWCTL_DB="e.db")
    assert flowctl("status", "folder").code == 0
    assert flowctl("status", "environment", FLOWCTL_DB="e.db").code == 0
    assert flowctl("--db", "o.db", "status", "option").code == 0
    assert flowctl("status", "option", "--db", "sqlite:///o.db").code == 0
    assert flowctl("status", "--db", "redis://host/1").code == 6


def test_a_list_in_a_pipe_has_a_line_for_each_run_and_pages(flowctl: Shell) -> None:
    for number in range(3):
        flowctl("run", "sample.py:counts", str(number), "--id", f"r{number}")
    flowctl.held("r3")
    lines = [line.split("\t") for line in flowctl("list").out.splitlines()]
    assert lines[0] == ["run", "state", "flow", "locks", "why", "updated"]
    assert [line[:4] for line in lines[1:3]] == [
        ["r3", "paused", "sample.py:announce", "holds"],
        ["r2", "completed", "sample.py:counts", ""],
    ]
    assert [run["id"] for run in flowctl("list", "--state", "completed", "--json").json["runs"]] == [
        "r2",
        "r1",
        "r0",
    ]
    page = flowctl("list", "--limit", "2", "--json").json
    rest = flowctl("list", "--limit", "2", "--after", page["next"], "--json").json
    assert [run["id"] for run in page["runs"] + rest["runs"]] == ["r3", "r2", "r1", "r0"]
    assert rest["next"] is None
    assert flowctl("list", "--state", "nonsense").code == 2


def test_the_store_at_a_glance_counts_what_needs_somebody(flowctl: Shell) -> None:
    flowctl("run", "sample.py:counts", "1")
    flowctl.held()
    child, gate = flowctl.blocked("b1")
    flowctl("pause", "b1")
    dead, _ = flowctl.blocked("b2")
    dead.process.kill()
    seen = flowctl("status", "--json").json
    assert seen["counts"] == {"running": 1, "paused": 2, "completed": 1}
    assert (seen["open_holds"], seen["draining"], seen["dead"], seen["unclaimed"]) == (1, ["b1"], ["b2"], [])
    assert [worker["pid"] for worker in seen["workers"] if worker["alive"]] == [child.pid]
    text = flowctl("status").out
    assert "1 running, 2 paused, 1 completed" in text
    assert "flowctl resume b2" in text
    gate.let_go()
    child.done()


def test_show_has_all_that_a_person_needs(flowctl: Shell) -> None:
    """Source: spec engine, 7 (show): state, locks, holds and how to answer, pieces, receipts, events."""
    hold = flowctl.held()
    flowctl("pause", "r1", "--actor", "ann", "--reason", "maintenance")
    text = flowctl("show", "r1").out
    for part in (
        "r1 paused, quiescent, held by holds, operator",
        "operator: maintenance, by ann",
        f"flowctl answer {hold} true",
        f"flowctl reject {hold} MESSAGE",
        f"1\treview\theld\t1\t\t{hold}",
        "1\treview\theld\tabsent",
        "pause-requested" if "pause-requested" in text else "by ann",
    ):
        assert part in text
    seen = flowctl("show", "r1", "--events", "2", "--json").json
    assert [piece["name"] for piece in seen["pieces"]] == ["review"]
    assert len(seen["events"]) == 2
    assert flowctl("show", "nobody").code == 3


# --- explain ----------------------------------------------------------------------------------------------


def explained(flowctl: Shell, run_id: str, *words: str) -> tuple[str, dict[str, object]]:
    text = flowctl("explain", run_id, *words)
    assert text.code == 0
    found: dict[str, object] = flowctl("explain", run_id, *words, "--json").json
    return text.out, found


def test_explain_a_run_that_waits_for_an_answer(flowctl: Shell) -> None:
    """Source: spec engine, 7 (explain)."""
    hold = flowctl.held()
    text, facts = explained(flowctl, "r1")
    assert f"{hold} waits for an answer at review" in text
    assert "review keeps its question; only an answer moves it" in text
    assert f"flowctl answer {hold} true" in text
    assert facts["carried"] == ["review"]
    assert facts["code"] == {"fits": True, "changes": [], "problem": None}


def test_explain_says_what_a_resume_evaluates_again(flowctl: Shell) -> None:
    """Source: spec graph: a gate of no type is let go, so it is evaluated again."""
    flowctl.held(flow="pair", given="2")
    text, facts = explained(flowctl, "r1")
    assert facts["again"] == ["anything#2", "anything#3"]
    assert "anything#2 is evaluated again, from its start" in text


def test_explain_says_who_paused_it_and_why(flowctl: Shell) -> None:
    flowctl.held(flow="pair", given="1")
    flowctl("pause", "r1", "--actor", "ann", "--reason", "maintenance")
    text, facts = explained(flowctl, "r1")
    assert "lock operator: maintenance, by ann, since 20" in text
    assert "flowctl resume r1" in text
    assert (facts["again"], facts["carried"]) == ([], ["anything#2"])


def test_explain_a_run_whose_process_died(flowctl: Shell) -> None:
    child, _ = flowctl.blocked()
    _, living = explained(flowctl, "b1")
    assert living["holder"]["alive"] is True  # type: ignore[index]
    assert living["again"] == []
    child.process.kill()
    text, facts = explained(flowctl, "b1")
    assert f"process {child.pid} on" in text
    assert "dead, so any process may take the run" in text
    assert "wait is evaluated again, from its start" in text
    assert facts["again"] == ["wait"]


def test_explain_what_drains_and_what_is_overdue(flowctl: Shell) -> None:
    child, gate = flowctl.blocked()
    flowctl("pause", "b1", "--drain-timeout", "600")
    text, facts = explained(flowctl, "b1")
    assert (facts["draining"], facts["overdue"]) == (["wait"], [])
    assert "wait still runs, until 20" in text
    gate.let_go()
    child.done()

    child, gate = flowctl.blocked("b2")
    flowctl("pause", "b2", "--drain-timeout", "0")
    text, facts = explained(flowctl, "b2")
    assert (facts["draining"], facts["overdue"]) == ([], ["wait"])
    assert "wait still runs, overdue since 20" in text
    gate.let_go()
    child.done()


def test_explain_a_run_that_nobody_drives(flowctl: Shell) -> None:
    flowctl("run", "sample.py:counts", "1", "--id", "r1", "--detach")
    text, facts = explained(flowctl, "r1")
    assert "nobody has claimed it" in text
    assert "no living worker serves" in text
    assert (facts["fresh"], facts["served_by"]) == (["double"], [])


def test_explain_a_run_that_failed_was_reset_or_has_no_input(flowctl: Shell) -> None:
    flowctl("run", "sample.py:fragile", "x", "--id", "r1")
    text, facts = explained(flowctl, "r1")
    assert "node 'check' failed" in text
    assert "flowctl retry r1" in text
    assert facts["again"] == ["check"]
    flowctl("reset", "r1")
    assert "flowctl resume r1" in explained(flowctl, "r1")[0]
    flowctl("create", "sample.py:counts", "--id", "r2")
    assert "it has no input yet" in explained(flowctl, "r2")[0]
    flowctl("cancel", "r2")
    assert "flowctl reset r2" in explained(flowctl, "r2")[0]


def test_explain_says_whether_the_code_still_fits(flowctl: Shell) -> None:
    """Source: spec engine, 7: whether the code still fits; if it cannot be loaded, that is said."""
    flowctl.held()
    source = flowctl.folder / "sample.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("def publish(", "def proclaim(").replace("publish", "proclaim"), "utf-8")
    told, facts = explained(flowctl, "r1")
    assert "no: node 'publish' was removed" in told
    assert facts["code"]["fits"] is False  # type: ignore[index]
    source.rename(flowctl.folder / "moved.py")
    told, facts = explained(flowctl, "r1")
    assert "unknown: there is no file" in told
    assert facts["code"]["fits"] is None  # type: ignore[index]
    assert explained(flowctl, "r1", "--flow", "moved.py:announce")[1]["code"]["fits"] is False  # type: ignore[index]


# --- drawings, events, watch ------------------------------------------------------------------------------


def test_a_graph_is_drawn_as_mermaid_or_dot_with_where_the_run_is(flowctl: Shell) -> None:
    """Source: spec engine, 7 (graph)."""
    flowctl.held()
    assert flowctl("graph", "sample.py:announce").out.startswith("flowchart TD\n")
    assert flowctl("graph", "sample.py:announce", "--format", "dot").out.startswith("digraph")
    assert '"review<br/>1 paused"' in flowctl("graph", "r1").out
    assert "1 paused" in flowctl("graph", "r1", "--format", "dot").out
    assert flowctl("graph", "nobody").code == 3
    assert flowctl("graph", "r1", "--format", "png").code == 2


def test_events_follow_what_another_process_does(flowctl: Shell) -> None:
    """Source: spec engine, 7 (events --follow): live."""
    hold = flowctl.held()
    child = flowctl.spawn("events", "r1", "--follow", "--json")
    seen = []
    for line in child.out:
        seen.append(json.loads(line)["kind"])
        if seen[-1] == "handed-back":
            break
    flowctl("answer", hold, "true")
    for line in child.out:
        seen.append(json.loads(line)["kind"])
        if seen[-1] == "completed":
            break
    assert seen[0] == "started"
    assert "answered" in seen
    child.process.send_signal(signal.SIGINT)
    left = child.done()
    assert (left.code, left.err) == (130, "\ninterrupted\n")


def test_watch_in_a_pipe_prints_a_line_for_each_change(flowctl: Shell) -> None:
    """Source: spec engine, 7 (watch): live."""
    hold = flowctl.held()
    child = flowctl.spawn("watch")
    first = child.out.readline().rstrip("\n").split("\t")
    assert first[1:] == ["r1", "paused", "quiescent", "holds", "Publish 'We now support pausing.'?"]
    flowctl("answer", hold, "true")
    states = []
    for line in child.out:
        states.append(line.split("\t")[2])
        if states[-1] == "completed":
            break
    assert set(states) <= {"running", "completed"}


def test_a_reader_that_goes_away_is_no_error(flowctl: Shell) -> None:
    """`flowctl events | head -1`: quiet, as other programs are."""
    flowctl.held()
    child = flowctl.spawn("events", "--follow")
    assert child.out.readline()
    child.out.close()
    flowctl("pause", "r1")  # something to print
    assert child.process.wait() == 141
    assert child.err.read() == ""


# --- doctor, prune, completion, demo ----------------------------------------------------------------------


def test_doctor_finds_what_is_wrong(flowctl: Shell) -> None:
    """Source: spec engine, 7 (doctor): invariants; a paused run has one active episode."""
    flowctl.held()
    assert flowctl("doctor").out.endswith("all is well\n")
    connection = sqlite3.connect(flowctl.folder / "flows.db")
    connection.execute("UPDATE episodes SET closed_at = 1, ended_as = 'resumed'")
    connection.commit()
    connection.close()
    sick = flowctl("doctor", "--json")
    assert sick.code == 6
    assert any("r1 is paused" in problem for problem in sick.json["problems"])
    assert "keep a copy" in one_line(flowctl("doctor").err)


def test_doctor_names_who_holds_the_write_lock(flowctl: Shell) -> None:
    """Source: cases failures-durable-engines 64: an orphan held it, and the doctor said all was clean."""
    flowctl.held()
    program = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect('flows.db', isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute('UPDATE runs SET flow = flow')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=flowctl.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    try:
        seen = flowctl("doctor", "--json").json
    finally:
        child.communicate("")
    assert seen["writes"] == child.pid
    assert flowctl("doctor", "--json").json["writes"] is None


def test_doctor_tells_the_living_from_the_dead(flowctl: Shell) -> None:
    child, gate = flowctl.blocked("b1")
    dead, _ = flowctl.blocked("b2")
    dead.process.kill()
    seen = flowctl("doctor", "--json").json
    assert [pid for _, pid in seen["living"]] == [child.pid]
    assert len(seen["dead"]) == 1
    gate.let_go()
    child.done()


def test_prune_forgets_what_ended_and_keeps_the_replies(flowctl: Shell) -> None:
    """Source: spec engine, 6: ended runs; request ids leave a tombstone; never a run that is not ended."""
    first = flowctl("run", "sample.py:counts", "1", "--id", "old", "--request-id", "q1", "--json").json
    hold = flowctl.held()
    assert flowctl("prune", "--older-than", "1d").out == ""
    assert flowctl("prune", "--older-than", "0s", "--dry-run").out == "old would go\n"
    assert flowctl("status", "old").code == 0
    assert flowctl("prune", "--older-than", "0s").out == "old gone\n"
    assert flowctl("status", "old").code == 3
    assert first["ack"]["replayed"] is False
    assert flowctl("run", "sample.py:counts", "2", "--id", "old", "--request-id", "q1").code == 4
    assert flowctl("answer", hold, "true").code == 0
    assert flowctl("doctor").code == 0


@pytest.mark.parametrize("age", ["5", "5x", "", "-1d", "1.5h"])
def test_an_age_that_is_none_is_a_usage_error(flowctl: Shell, age: str) -> None:
    flowctl.held()
    refused = flowctl("prune", "--older-than", age)
    assert refused.code == 2
    assert "30d" in one_line(refused.err)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(flowctl: Shell, shell: str) -> None:
    done = flowctl("completion", shell)
    assert done.code == 0
    assert "_FLOWCTL_COMPLETE" in done.out


def test_completion_knows_commands_runs_and_holds(flowctl: Shell) -> None:
    """What the scripts ask flowctl for."""
    hold = flowctl.held("release-42")

    def completed(line: str) -> list[str]:
        words = line.split(" ")
        asked = {"_FLOWCTL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return [found.partition(",")[2] for found in flowctl(**asked).out.splitlines() if found]

    assert completed("flowctl re") == ["resume", "reject", "reset", "retry"]
    assert completed("flowctl status rel") == ["release-42"]
    assert completed("flowctl answer hold") == [hold]
    assert completed("flowctl --db nowhere.db status rel") == []


def test_the_demo_does_what_it_tells(flowctl: Shell) -> None:
    """Source: spec engine, 7 (demo): held, killed with SIGKILL, answered by another process, written."""
    done = flowctl("demo", "--package", "json")
    assert (done.code, done.err) == (0, "")
    told = [line for line in done.out.splitlines() if line.startswith("$ ")]
    assert [line.split()[1] for line in told] == ["flowctl", "kill", "flowctl", "flowctl"]
    assert "(dead)" in done.out
    assert "Visits before the kill: survey, draft, review." in done.out
    assert "# The architecture of json" in done.out.rpartition("begins:")[2]


# --- the command line itself ------------------------------------------------------------------------------


def test_the_version_is_the_distributions(flowctl: Shell) -> None:
    assert flowctl("--version").out.split()[0] == "flowctl"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("status", "--nonsense"), "No such option"),
        (("answer", "h"), "Missing argument"),
        (("--request-id", "q", "status"), "takes no --request-id"),
    ],
)
def test_usage_errors_are_one_line_that_names_the_help(
    flowctl: Shell, words: tuple[str, ...], says: str
) -> None:
    """Source: spec engine, 7: exit 2; errors are one line that says what to do next."""
    wrong = flowctl(*words)
    assert wrong.code == 2
    assert says in one_line(wrong.err)
    assert "--help" in wrong.err


def test_debug_shows_the_trace(flowctl: Shell) -> None:
    """Source: spec engine, 7: `--debug` shows the trace."""
    flowctl.held()
    assert "Traceback" in flowctl("status", "nobody", "--debug").err
    assert "Traceback" in flowctl("--debug", "status", "nobody").err
    assert "Traceback" not in flowctl("status", "nobody").err


def test_what_a_run_says_is_escaped_in_every_output(flowctl: Shell) -> None:
    """Source: spec engine, 7: control characters from data are never sent to a terminal."""
    hold = flowctl.held(flow="hostile")
    outputs = [
        flowctl(*words, *form)
        for words in (("show", "r1"), ("holds",), ("list",), ("explain", "r1"), ("events",), ("status", "r1"))
        for form in ((), ("--json",))
    ]
    outputs.append(flowctl("answer", hold, "false"))
    for done in outputs:
        for letter in "\x1b\x07\x9b\r\u202e\u2066":
            assert letter not in done.out + done.err
