"""Do the verbs do for agents what they do for graphs, from any process, and exit as the run did?"""

from __future__ import annotations

import signal
from typing import Any

import pytest

from .conftest import Done, Shell
from .test_verbs import go_on, one_line

APPROVER = "agents.py:approver"


def effects(flowctl: Shell) -> list[str]:
    path = flowctl.folder / "effects"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def status(flowctl: Shell, run_id: str = "r1") -> Any:
    done = flowctl("status", run_id, "--json")
    assert done.code == 0, done.err
    return done.json


def edit(flowctl: Shell, old: str, new: str) -> None:
    source = flowctl.folder / "agents.py"
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new), encoding="utf-8")


# --- run, create, answer, reject --------------------------------------------------------------------------


def test_an_agent_pauses_and_the_printed_command_goes_on(flowctl: Shell) -> None:
    """Source: spec engine, 7: what is held, how to go on, exit 75; nothing recorded is done twice."""
    paused = flowctl("run", APPROVER, "50", "--id", "r1")
    assert (paused.code, paused.err) == (75, "")
    assert "charge 50?" in paused.out
    assert flowctl(*go_on(paused.out)) == Done(0, 'r1 completed\n"charged 50"\n', "")
    assert effects(flowctl) == ["look_up 50", "charge 50"]


@pytest.mark.parametrize("words", [("50",), ("--input", "50")])
def test_the_input_of_an_agent_is_its_parameter(flowctl: Shell, words: tuple[str, ...]) -> None:
    """Source: spec engine, 7: text, coerced to the input's type, or JSON."""
    assert flowctl("run", APPROVER, *words).code == 75
    refused = flowctl("run", APPROVER, "fifty")
    assert (refused.code, "expected int" in one_line(refused.err)) == (2, True)
    assert effects(flowctl) == ["look_up 50"]


def test_a_created_agent_has_not_run_and_gets_its_input_later(flowctl: Shell) -> None:
    """Source: spec engine, 4 (create); cases agent S1."""
    assert flowctl("create", APPROVER, "--id", "r1").code == 0
    assert (status(flowctl)["state"], effects(flowctl)) == ("created", [])
    assert flowctl("run", APPROVER, "7", "--id", "r1").code == 75
    assert effects(flowctl) == ["look_up 7"]


def test_an_answer_is_taken_once_and_told_to_whoever_is_late(flowctl: Shell) -> None:
    """Source: spec engine, 4 (AlreadyAnswered): one effect."""
    hold = flowctl.asked(APPROVER, "50")
    assert flowctl("answer", hold, '"maybe"').code == 5
    assert flowctl("answer", hold, "true", "--actor", "ann").code == 0
    late = flowctl("answer", hold, "true")
    assert (late.code, "answered by ann" in one_line(late.err)) == (4, True)
    assert effects(flowctl) == ["look_up 50", "charge 50"]


def test_a_rejection_fails_a_body_that_does_not_take_it(flowctl: Shell) -> None:
    """Source: spec engine, 4: `Rejected(message)` is raised at its pause."""
    refused = flowctl("reject", flowctl.asked(APPROVER, "50"), "too much")
    assert (refused.code, "too much" in one_line(refused.err)) == (1, True)
    assert effects(flowctl) == ["look_up 50"]


# --- pause, resume, cancel, reset, takeover ---------------------------------------------------------------


def test_pause_waits_until_the_step_is_over_and_the_next_does_not_begin(flowctl: Shell) -> None:
    """Source: spec engine, 4 (pause): a step that began records its result; it is the next that stands."""
    child, gate = flowctl.blocked(flow="agents.py:blocked")
    ack = flowctl("pause", "b1", "--reason", "maintenance", "--json").json
    assert (ack["ack"]["transitioned"], ack["ack"]["draining"]) == (True, 1)
    waiting = flowctl.spawn("pause", "b1", "--wait")
    gate.let_go("x")
    assert waiting.done() == Done(0, "b1 paused, quiescent, held by operator\n", "")
    paused = child.done()
    assert (paused.code, "maintenance" in paused.out) == (75, True)
    assert effects(flowctl) == ["look_up 1"]
    assert 'return f"{charge(found)} after {text}"' in flowctl("show", "b1").out
    assert flowctl("resume", "b1").out == 'b1 completed\n"charged 1 after x"\n'
    assert effects(flowctl) == ["look_up 1", "charge 1"]


def test_pause_exits_7_when_a_step_is_overdue(flowctl: Shell) -> None:
    """Source: spec engine, 7: 7 overdue; 4: the fence is never undone."""
    child, gate = flowctl.blocked(flow="agents.py:blocked")
    overdue = flowctl("pause", "b1", "--wait", "--drain-timeout", "0.05")
    assert (overdue.code, "did not yield" in one_line(overdue.err)) == (7, True)
    gate.let_go()
    assert child.done().code == 75
    assert effects(flowctl) == ["look_up 1"]


def test_cancel_ends_an_agent_that_another_process_drives(flowctl: Shell) -> None:
    """Source: spec engine, 4 (cancel) and 7."""
    child, gate = flowctl.blocked(flow="agents.py:blocked")
    assert flowctl("cancel", "b1").code == 0
    gate.let_go()
    cancelled = child.done()
    assert (cancelled.code, "was cancelled" in one_line(cancelled.err)) == (1, True)
    assert effects(flowctl) == ["look_up 1"]


def test_a_reset_agent_begins_anew_with_a_resume(flowctl: Shell) -> None:
    """Source: spec engine, 4 (reset): its journal does not follow it into the next execution."""
    hold = flowctl.asked(APPROVER, "50")
    assert flowctl("reset", "r1").code == 0
    late = flowctl("answer", hold, "true")
    assert (late.code, "withdrawn" in one_line(late.err)) == (4, True)
    assert flowctl("resume", "r1").code == 75
    assert effects(flowctl) == ["look_up 50", "look_up 50"]
    assert status(flowctl)["execution"] == 2


def test_a_stopped_process_keeps_its_agent_until_it_is_taken_over(flowctl: Shell) -> None:
    """Source: spec engine, 4 (takeover): the step that was in flight is unknown, and runs again."""
    child, gate = flowctl.blocked(flow="agents.py:blocked")
    child.process.send_signal(signal.SIGSTOP)
    assert flowctl("resume", "b1").code == 4
    taker = flowctl.spawn("takeover", "b1")
    gate.wait_for_node(taker)
    child.process.kill()
    gate.let_go("mine")
    assert taker.done() == Done(0, 'b1 completed\n"charged 1 after mine"\n', "")
    assert effects(flowctl) == ["look_up 1", "charge 1"]


# --- runs inside a run ------------------------------------------------------------------------------------


def test_an_answer_under_the_lock_of_the_outer_run_acts_when_that_is_resumed(flowctl: Shell) -> None:
    """Source: spec engine, 4: in a process that has never loaded the flow of the inner run."""
    hold = flowctl.asked("agents.py:manager", "50")
    assert flowctl("pause", "r1").code == 0
    stored = flowctl("answer", hold, "true")
    assert (stored.code, "flowctl resume r1" in stored.out) == (75, True)
    assert flowctl("resume", "r1") == Done(0, 'r1 completed\n"charged 50"\n', "")
    assert effects(flowctl) == ["look_up 50", "charge 50"]


def test_a_process_that_takes_up_a_run_takes_up_what_is_inside(flowctl: Shell) -> None:
    """Source: spec engine, 4: also what the outer body does not wait for yet; any process can go on."""
    child, gate = flowctl.blocked(flow="agents.py:delegate")
    child.process.kill()
    again = flowctl.spawn("resume", "b1")
    gate.wait_for_node(again)  # the step of the inner run, while the outer body waits for a message
    gate.let_go("x")
    flowctl("cancel", "b1")
    assert again.done().code == 1


# --- retry, changed code, poison --------------------------------------------------------------------------


def test_a_retry_does_what_failed_again_and_nothing_before_it(flowctl: Shell) -> None:
    """Source: spec engine, 4 (retry)."""
    failed = flowctl("run", "agents.py:fragile", "3", "--id", "r1")
    assert (failed.code, failed.out) == (1, "")
    assert "ValueError: the file mended" in one_line(failed.err)
    assert "flowctl retry r1" in failed.err
    (flowctl.folder / "mended").touch()
    assert flowctl("retry", "r1") == Done(0, 'r1 completed\n"fine"\n', "")
    assert effects(flowctl) == ["look_up 3"]


def test_changed_code_is_held_until_somebody_accepts_it(flowctl: Shell) -> None:
    """Source: spec agent, journal: position, expected, got; retry --accept-changes; the rest is shown."""
    hold = flowctl.asked(APPROVER, "50")
    edit(flowctl, "found = look_up(amount)", "found = look_up(amount + 1)")
    seen = flowctl("explain", "r1", "--json").json
    assert seen["code"]["fits"] is False
    held = flowctl("answer", hold, "true")
    assert held.code == 75
    assert "position 1 of the journal: expected step 'look_up', got step 'look_up' with other" in held.out
    assert held.out.splitlines()[-1] == "go on:  flowctl explain r1"
    told = flowctl("explain", "r1").out
    assert told.splitlines()[-1].strip() == "flowctl retry r1 --accept-changes"
    assert "approver is executed again, over its journal" in told
    assert flowctl("resume", "r1").code == 75
    assert [lock["kind"] for lock in status(flowctl)["locks"]] == ["fault"]
    accepted = flowctl("retry", "r1", "--accept-changes")
    assert accepted.code == 75
    assert "charge 51?" in accepted.out
    journal = flowctl("show", "r1", "--json").json["journal"]
    assert [(line["position"], line["aside"]) for line in journal] == [(1, 0), (2, 0), (1, 1), (2, 1)]
    assert flowctl(*go_on(accepted.out)).out == 'r1 completed\n"charged 51"\n'
    assert effects(flowctl) == ["look_up 50", "look_up 51", "charge 51"]


def test_old_code_that_is_back_goes_on_with_a_resume(flowctl: Shell) -> None:
    """Source: spec engine, 4 (resume): under the lock `fault` it checks again."""
    hold = flowctl.asked(APPROVER, "50")
    edit(flowctl, "look_up(amount)\n", "look_up(amount + 1)\n")
    assert flowctl("answer", hold, "true").code == 75
    edit(flowctl, "look_up(amount + 1)\n", "look_up(amount)\n")
    assert "  yes" in flowctl("explain", "r1").out.splitlines()
    assert flowctl("resume", "r1") == Done(0, 'r1 completed\n"charged 50"\n', "")
    assert effects(flowctl) == ["look_up 50", "charge 50"]


def test_changed_parameters_are_refused_before_anything_runs(flowctl: Shell) -> None:
    """Source: spec engine, 4: FlowChanged, exit 4, with the difference and the way on."""
    hold = flowctl.asked(APPROVER, "50")
    edit(flowctl, "def approver(amount: int)", "def approver(amount: int, more: int = 0)")
    refused = flowctl("answer", hold, "true")
    assert refused.code == 4
    assert "parameter 'more' was added" in one_line(refused.err)
    assert "--accept-changes" in refused.err
    assert [item["state"] for item in flowctl("holds", "--json").json["holds"]] == ["open"]


def test_an_agent_that_moved_is_named_with_flow(flowctl: Shell) -> None:
    """Source: spec engine, 7: `--flow` names the flow if it moved."""
    hold = flowctl.asked(APPROVER, "50")
    (flowctl.folder / "agents.py").rename(flowctl.folder / "moved.py")
    lost = flowctl("answer", hold, "true")
    assert (lost.code, "agents.py" in one_line(lost.err)) == (3, True)
    assert "unknown: there is no file" in flowctl("explain", "r1").out
    assert flowctl("answer", hold, "true", "--flow", "moved.py:approver").code == 0


def test_a_step_that_kills_its_process_is_held_with_the_way_on(flowctl: Shell) -> None:
    """Source: spec agent, journal (poison): paused with the lock `fault` and the reason, not looped."""
    killed = flowctl("run", "agents.py:dies", "1", "--id", "r1")
    assert killed.code == -signal.SIGKILL
    told = flowctl("explain", "r1").out
    assert "step die (position 2) began, and nobody knows whether it happened" in told
    assert "flowctl resume r1" in told
    for _ in range(2):
        assert flowctl("resume", "r1").code == -signal.SIGKILL
    (flowctl.folder / "mended").touch()
    done = flowctl("resume", "r1")
    if done.code == 75:  # after three it is not tried again without being told to
        assert "the process died 3 times" in done.out
        done = flowctl("retry", "r1")
    assert done == Done(0, 'r1 completed\n"lived"\n', "")
    assert effects(flowctl) == ["look_up 1"]
