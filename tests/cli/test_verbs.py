"""Do the verbs do from any process what the specification says, and exit as the run did?"""

from __future__ import annotations

import json
import shlex
import signal

import pytest

from .conftest import Shell


def one_line(text: str) -> str:
    """Errors are one line that begins with `error: `."""
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def go_on(text: str) -> list[str]:
    """The command after `answer:` in the output."""
    (line,) = [line for line in text.splitlines() if "answer:" in line]
    program, *words = shlex.split(line.partition("answer:")[2])
    assert program == "flowctl"
    return words


# --- run --------------------------------------------------------------------------------------------------


def test_a_run_that_completes_prints_its_value_and_exits_0(flowctl: Shell) -> None:
    """Source: spec engine, 7."""
    done = flowctl("run", "sample.py:counts", "21", "--id", "r1")
    assert (done.code, done.out, done.err) == (0, "r1 completed\n42\n", "")


def test_a_run_that_pauses_says_how_to_go_on_and_exits_75(flowctl: Shell) -> None:
    """Source: spec engine, 7: it prints what is held and how to go on. The printed command does it."""
    paused = flowctl("run", "sample.py:announce", "pausing")
    assert (paused.code, paused.err) == (75, "")
    assert "Publish 'We now support pausing.'?" in paused.out
    done = flowctl(*go_on(paused.out))
    assert done.code == 0
    assert done.out.splitlines()[1] == '"published: We now support pausing."'


def test_the_command_to_go_on_names_the_store_that_was_named(flowctl: Shell) -> None:
    paused = flowctl("--db", "other store.db", "run", "sample.py:announce", "x")
    assert paused.code == 75
    assert flowctl(*go_on(paused.out)).code == 0


def test_a_run_that_fails_exits_1_in_one_line_and_a_retry_goes_on(flowctl: Shell) -> None:
    """Source: spec engine, 4 (retry): finished visits are not run again."""
    failed = flowctl("run", "sample.py:fragile", "all", "--id", "r1")
    assert (failed.code, failed.out) == (1, "")
    assert "node 'check' failed: ValueError: the file mended" in one_line(failed.err)
    assert "flowctl retry r1" in failed.err
    (flowctl.folder / "mended").touch()
    done = flowctl("retry", "r1")
    assert (done.code, done.out) == (0, 'r1 completed\n"all is fine"\n')
    assert (flowctl.folder / "prepared").read_text(encoding="utf-8") == "once\n"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("sample.py:counts", "3"), 6),
        (("sample.py:counts", "--input", "4"), 8),
        (("sample:counts", "5"), 10),
        (("./sample.py:counts", " -6 "), -12),
    ],
)
def test_an_input_is_text_or_json(flowctl: Shell, words: tuple[str, ...], value: int) -> None:
    """Source: spec engine, 7: INPUT is text, coerced to the input's type; --input is JSON."""
    done = flowctl("run", *words, "--json")
    assert (done.code, done.json["status"]["result"]) == (0, value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sample.py:counts", "three"), "expected int"),
        (("sample.py:counts", "--input", '"3"'), "expected int"),
        (("sample.py:counts", "--input", "{"), "not JSON"),
        (("sample.py:counts", "3", "--input", "3"), "twice"),
        (("sample.py:counts",), "expected int"),
        (("sample.py:counts", "3", "--id", "two words"), "run id"),
        (("sample.py:counts", "3", "--request-id", ""), "request id"),
    ],
)
def test_what_is_typed_wrong_exits_2_and_starts_nothing(
    flowctl: Shell, words: tuple[str, ...], says: str
) -> None:
    """Source: spec engine, 7: 2 is usage, bad JSON, input that does not fit."""
    refused = flowctl("run", *words)
    assert (refused.code, refused.out) == (2, "")
    assert says in one_line(refused.err)
    assert flowctl("run", "sample.py:counts", "1", "--id", "r1").code == 0
    assert [run["id"] for run in flowctl("list", "--json").json["runs"]] == ["r1"]


@pytest.mark.parametrize(
    ("flow", "source", "code", "says"),
    [
        ("sample.py:nothing", None, 3, "it has announce"),
        ("sample.py:HOSTILE", None, 3, "not a flow"),
        ("sample.py", None, 3, "package.module:name"),
        ("missing.py:g", None, 3, "there is no file"),
        ("no.such.module:g", None, 3, "no module"),
        ("broken.py:g", "raise RuntimeError('at import')", 2, "RuntimeError: at import"),
        ("broken.py:g", "def f(:", 2, "line 1"),
        ("broken.py:g", "import nowhere_to_be_found", 2, "nowhere_to_be_found"),
        ("broken.py:g", "from quiesce import Graph\ng = Graph('empty')\n", 2, "start"),
        ("broken.py:g", "raise SystemExit(9)", 2, "SystemExit"),
    ],
)
def test_a_flow_that_cannot_be_run_is_told_in_one_line(
    flowctl: Shell, flow: str, source: str | None, code: int, says: str
) -> None:
    """Source: spec engine, 7: 3 FlowNotFound; 2 a flow file that does not import, GraphError."""
    if source is not None:
        (flowctl.folder / "broken.py").write_text(source, encoding="utf-8")
    refused = flowctl("run", flow, "x")
    assert refused.code == code
    assert says in one_line(refused.err)


def test_a_detached_run_is_recorded_and_driven_by_a_later_resume(flowctl: Shell) -> None:
    """Source: spec engine, 4: start commits `running`, whether a worker has claimed it or not."""
    done = flowctl("run", "sample.py:counts", "4", "--id", "r1", "--detach")
    assert done.code == 0
    assert "nothing drives it" in done.out
    assert flowctl("status", "r1", "--json").json["state"] == "running"
    assert flowctl("resume", "r1").out == "r1 completed\n8\n"


def test_a_created_run_gets_its_input_later(flowctl: Shell) -> None:
    """Source: spec engine, 4: create makes a run without an input."""
    assert flowctl("create", "sample.py:counts", "--id", "r1").code == 0
    assert flowctl("resume", "r1").code == 4
    assert flowctl("run", "sample.py:counts", "4", "--id", "r1").out == "r1 completed\n8\n"
    assert flowctl("run", "sample.py:counts", "4", "--id", "r1").code == 4


# --- answers ----------------------------------------------------------------------------------------------


def test_an_answer_is_taken_once(flowctl: Shell) -> None:
    """Source: spec engine, 4: AlreadyAnswered says who and what; 7: exit 4."""
    hold = flowctl.held()
    assert flowctl("answer", hold, "false", "--actor", "ann").out == 'r1 completed\n"not published"\n'
    late = flowctl("answer", hold, "true")
    assert late.code == 4
    assert "answered by ann" in one_line(late.err)
    assert flowctl("status", "r1", "--json").json["result"] == "not published"


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        ("yes", 2, """'"yes"'"""),
        ("{", 2, "not JSON"),
        ("3", 5, "boolean"),
        ('"true"', 5, "boolean"),
        ("null", 5, "boolean"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(
    flowctl: Shell, answer: str, code: int, says: str
) -> None:
    """Source: spec engine, 7: answers are JSON, bad JSON 2; AnswerRejected 5."""
    hold = flowctl.held()
    before = flowctl("show", "r1", "--json").out
    refused = flowctl("answer", hold, answer)
    assert (refused.code, refused.out) == (code, "")
    assert says in one_line(refused.err)
    assert flowctl("show", "r1", "--json").out == before


@pytest.mark.parametrize("answer", ["null", "false", "0", '""', "{}", "[]"])
def test_every_json_value_is_an_answer_where_nothing_is_declared(flowctl: Shell, answer: str) -> None:
    """Source: spec engine, 4: None, False, 0, "" and {} included."""
    hold = flowctl.held(flow="pair", given="1")
    done = flowctl("answer", hold, answer, "--json")
    assert (done.code, done.json["status"]["result"]) == (0, [json.loads(answer)])


def test_a_refusal_fails_a_gate_that_takes_none(flowctl: Shell) -> None:
    """Source: spec engine, 4: a ready-made gate fails its branch with `Rejected`."""
    refused = flowctl("reject", flowctl.held(), "not like this")
    assert refused.code == 1
    assert "not like this" in one_line(refused.err)


def test_one_of_several_answers_leaves_the_run_paused(flowctl: Shell) -> None:
    """Source: spec engine, 4: the others are carried, with the same ids."""
    hold = flowctl.held(flow="pair", given="2")
    other = flowctl("holds", "r1", "--json").json["holds"][1]["id"]
    paused = flowctl("answer", hold, "1")
    assert paused.code == 75
    assert (hold in paused.out, other in paused.out) == (False, True)
    assert flowctl("answer", other, "2", "--json").json["status"]["result"] == [1, 2]


def test_an_unknown_hold_exits_3_and_lists_the_open_ones(flowctl: Shell) -> None:
    """Source: spec engine, 4 and 7."""
    hold = flowctl.held()
    missing = flowctl("answer", "nobody", "true", "--json")
    assert missing.code == 3
    assert hold in one_line(missing.err)
    assert missing.json["error"]["code"] == "unknown-hold"
    assert missing.json["error"]["open_holds"] == [hold]


def test_resume_with_an_answer_must_say_what_it_is_for(flowctl: Shell) -> None:
    """Source: spec engine, 7: `flowctl resume --answer` needs --hold or --episode; exit 5 with the holds."""
    hold = flowctl.held()
    unbound = flowctl("resume", "r1", "--answer", "true")
    assert unbound.code == 5
    assert hold in one_line(unbound.err)
    assert flowctl("resume", "r1", "--answer", "true", "--episode", "r1:9").code == 4
    assert flowctl("resume", "r1", "--answer", "true", "--hold", hold).code == 0


def test_resume_without_an_answer_is_refused_while_typed_answers_are_missing(flowctl: Shell) -> None:
    """Source: spec engine, 4 (AnswerRequired) and 7 (exit 5)."""
    hold = flowctl.held()
    refused = flowctl("resume", "r1")
    assert refused.code == 5
    assert hold in one_line(refused.err)


# --- pause, resume, cancel, reset -------------------------------------------------------------------------


def test_pause_waits_until_nothing_runs(flowctl: Shell) -> None:
    """Source: spec engine, 4 (pause) and 7 (`pause --wait`)."""
    child, gate = flowctl.blocked()
    ack = flowctl("pause", "b1", "--reason", "maintenance", "--json").json
    assert (ack["ack"]["transitioned"], ack["ack"]["draining"]) == (True, 1)
    assert ack["status"]["phase"] == "draining"
    waiting = flowctl.spawn("pause", "b1", "--wait")
    gate.let_go("x")
    out, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, err) == (0, "")
    assert out == "b1 paused, quiescent, held by operator\n"
    assert child.wait(30) == 75
    assert "maintenance" in child.stdout.read()  # type: ignore[union-attr]
    assert flowctl("resume", "b1").out == 'b1 completed\n"after x"\n'


def test_pause_exits_7_when_something_is_overdue(flowctl: Shell) -> None:
    """Source: spec engine, 7: 7 overdue; 4: the fence is never undone."""
    child, gate = flowctl.blocked()
    overdue = flowctl("pause", "b1", "--wait", "--drain-timeout", "0.05")
    assert overdue.code == 7
    assert "1 piece(s) of b1 did not yield" in one_line(overdue.err)
    assert flowctl("status", "b1", "--json").json["state"] == "paused"
    gate.let_go()
    assert child.wait(30) == 75


def test_a_second_pause_of_an_operator_is_recorded_and_changes_nothing(flowctl: Shell) -> None:
    """Source: spec engine, 7: 0 done, also: nothing to do."""
    flowctl.held()
    assert flowctl("pause", "r1", "--json").json["ack"]["locked"] is True
    again = flowctl("pause", "r1", "--json")
    assert (again.code, again.json["ack"]["transitioned"], again.json["ack"]["locked"]) == (0, False, False)


def test_an_answer_under_an_operators_lock_acts_when_it_is_lifted(flowctl: Shell) -> None:
    """Source: spec engine, 4: stored at once."""
    hold = flowctl.held()
    flowctl("pause", "r1")
    stored = flowctl("answer", hold, "true")
    assert stored.code == 75
    assert "flowctl resume r1" in stored.out
    assert flowctl("resume", "r1").code == 0


def test_cancel_ends_a_run_that_another_process_waits_for(flowctl: Shell) -> None:
    """Source: spec engine, 7: 1 the run failed or was cancelled."""
    child, gate = flowctl.blocked()
    assert flowctl("cancel", "b1").code == 0
    gate.let_go()
    assert child.wait(30) == 1
    assert "was cancelled" in one_line(child.stderr.read())  # type: ignore[union-attr]
    assert flowctl("cancel", "b1").code == 4


def test_a_reset_run_begins_anew_with_a_resume(flowctl: Shell) -> None:
    """Source: spec engine, 4 (reset): the last input is queued; holds are withdrawn."""
    hold = flowctl.held()
    assert flowctl("reset", "r1").code == 0
    assert flowctl("answer", hold, "true").code == 4
    paused = flowctl("resume", "r1")
    assert paused.code == 75
    assert flowctl(*go_on(paused.out)).code == 0
    assert flowctl("status", "r1", "--json").json["execution"] == 2


# --- requests, no-drive, other processes ----------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after it"])
def test_a_repeated_request_gets_the_same_ack(flowctl: Shell, before: bool) -> None:
    """Source: spec engine, 4; options are accepted on both sides of the command's name."""
    hold = flowctl.held()
    options = ["--request-id", "q1", "--actor", "ann", "--reason", "fine", "--json"]
    command = ["answer", hold, "true"]
    words = [*options, *command] if before else [*command, *options]
    first, second = flowctl(*words), flowctl(*words)
    assert (first.code, second.code) == (0, 0)
    assert first.json["ack"] | {"replayed": True} == second.json["ack"]
    assert first.json["ack"]["request_id"] == "q1"
    assert flowctl("answer", hold, "false", "--request-id", "q1").code == 4
    answered = [
        json.loads(line)
        for line in flowctl("events", "r1", "--json").out.splitlines()
        if '"answered"' in line
    ]
    assert [(event["actor"], event["request_id"]) for event in answered] == [("ann", "q1")]


def test_a_repeated_run_gets_the_same_run(flowctl: Shell) -> None:
    """Source: spec engine, 4: start's request ids are scoped by the store."""
    words = ("run", "sample.py:counts", "2", "--request-id", "q1", "--json")
    first, second = flowctl(*words).json, flowctl(*words).json
    assert first["status"] == second["status"]
    assert second["ack"]["replayed"] is True
    assert flowctl("run", "sample.py:counts", "3", "--request-id", "q1").code == 4


@pytest.mark.parametrize("verb", ["answer", "resume", "retry"])
def test_without_driving_a_verb_is_recorded_and_a_resume_goes_on(flowctl: Shell, verb: str) -> None:
    """Source: spec engine, 7: --no-drive records and returns 0."""
    if verb == "retry":
        flowctl("run", "sample.py:fragile", "x", "--id", "r1")
        (flowctl.folder / "mended").touch()
        words = ["retry", "r1"]
    elif verb == "resume":
        flowctl.held(flow="pair", given="1")
        words = ["resume", "r1"]
    else:
        words = ["answer", flowctl.held(), "true"]
    assert flowctl(*words, "--no-drive").code == 0
    status = flowctl("status", "r1", "--json").json
    assert (status["state"], status["worker"]) == ("running", None)
    assert flowctl("resume", "r1").code == (75 if verb == "resume" else 0)


def test_a_killed_process_is_seen_and_a_resume_takes_over(flowctl: Shell) -> None:
    """Source: spec engine, 4: a running run with a dead holder is claimed; spec graph: at least once."""
    child, gate = flowctl.blocked()
    child.kill()
    child.wait()
    status = flowctl("status", "b1", "--json").json
    assert status["state"] == "running"
    assert status["worker"].startswith(f"{child.pid}@")
    assert status["worker"].endswith("(dead)")
    assert "b1" in flowctl("status").out
    again = flowctl.spawn("resume", "b1")
    gate.wait_for_node()
    gate.let_go("twice")
    out, _ = again.communicate(timeout=30)
    assert (again.returncode, out) == (0, 'b1 completed\n"after twice"\n')


def test_a_stopped_process_keeps_its_run_until_it_is_taken_over(flowctl: Shell) -> None:
    """Source: spec engine, 4: a stopped holder lives; takeover forces it."""
    child, gate = flowctl.blocked()
    child.send_signal(signal.SIGSTOP)
    assert flowctl("resume", "b1").code == 4
    taker = flowctl.spawn("takeover", "b1")
    gate.wait_for_node()
    child.kill()  # its node reads the same FIFO
    child.wait()
    gate.let_go("mine")
    out, _ = taker.communicate(timeout=30)
    assert (taker.returncode, out) == (0, 'b1 completed\n"after mine"\n')
    assert flowctl("takeover", "b1").code == 4


def test_an_interrupted_command_hands_its_run_back(flowctl: Shell) -> None:
    """Source: spec engine, 7: 130 interrupted; 5: leaving a runtime hands work back."""
    child, _ = flowctl.blocked()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "flowctl resume b1" in err
    assert "Traceback" not in err
    status = flowctl("status", "b1", "--json").json
    assert (status["state"], status["worker"], status["generation"]) == ("running", None, 1)


# --- code that moved or changed ---------------------------------------------------------------------------


def test_a_flow_that_moved_is_named_with_flow(flowctl: Shell) -> None:
    """Source: spec engine, 7: `--flow` names the flow if it moved."""
    hold = flowctl.held()
    (flowctl.folder / "sample.py").rename(flowctl.folder / "moved.py")
    lost = flowctl("answer", hold, "true")
    assert lost.code == 3
    assert "sample.py" in one_line(lost.err)
    assert flowctl("answer", hold, "true", "--flow", "moved.py:announce").code == 0


def test_changed_code_is_refused_until_somebody_accepts_it(flowctl: Shell) -> None:
    """Source: spec graph: FlowChanged says what changed; --accept-changes is the way on."""
    hold = flowctl.held()
    source = flowctl.folder / "sample.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("def publish(", "def proclaim(").replace("publish", "proclaim"), "utf-8")
    for words in (("answer", hold, "true"), ("resume", "r1", "--answer", "true", "--hold", hold)):
        refused = flowctl(*words)
        assert refused.code == 4
        assert "publish" in one_line(refused.err)
    accepted = flowctl("resume", "r1", "--answer", "true", "--hold", hold, "--accept-changes")
    assert (accepted.code, accepted.out.splitlines()[0]) == (0, "r1 completed")


# --- ids --------------------------------------------------------------------------------------------------


def test_the_beginning_of_an_id_will_do_if_only_one_begins_so(flowctl: Shell) -> None:
    hold = flowctl.held("alpha-1")
    found = flowctl("answer", hold[:12], "true")
    assert found.code == 0
    assert found.err == f"{hold[:12]} is {hold}\n"
    flowctl.held("alpha-2")
    several = flowctl("status", "alph")
    assert several.code == 2
    assert "alpha-1, alpha-2" in one_line(several.err)
    assert flowctl("status", "alpha-2").code == 0
    assert flowctl("status", "beta").code == 3


def test_an_id_that_is_the_beginning_of_another_is_itself(flowctl: Shell) -> None:
    flowctl("run", "sample.py:counts", "1", "--id", "r")
    flowctl("run", "sample.py:counts", "2", "--id", "r2")
    assert flowctl("status", "r", "--json").json["result"] == 2
