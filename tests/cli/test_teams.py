"""Are teams steered and told like everything else, by their own commands and by those of every run?"""

from __future__ import annotations

import pytest

from .conftest import Shell
from .test_verbs import one_line

CREW = """
from quiesce import Team, Turn, agent, step

@step
def build(what: str) -> str:
    with open("effects", "a") as file:
        file.write(what + "\\n")
    return what.upper()

async def plan(turn: Turn) -> None:
    tasks = turn.tasks()
    if not tasks:
        first = turn.create_task("draft the notes", owner="ann")
        turn.create_task("build it", owner="bob", after=[first])
    elif all(task.state == "completed" for task in tasks):
        turn.finish({task.title: task.result for task in tasks})

@agent
def ann(turn: Turn) -> str:
    return turn.pause("what changed?", expects=str)

async def bob(turn: Turn) -> str:
    if turn.kind == "user_directed":
        return f"bob does {turn.prompt}"
    if turn.kind == "inbox":
        return ""
    return build(turn.task.title)

team = Team("crew", coordinator=plan, members={"ann": ann, "bob": bob}, input=str)
"""


@pytest.fixture
def crew(flowctl: Shell) -> Shell:
    (flowctl.folder / "crew.py").write_text(CREW, encoding="utf-8")
    done = flowctl("run", "crew.py:team", "go", "--id", "r")
    assert (done.code, "asks at ann#2/ann" in done.out) == (75, True)
    return flowctl


def test_a_team_that_waits_says_who_waits_and_what_is_behind(crew: Shell) -> None:
    """issue "teams", command line: fence, phase, each receipt, tasks and queues."""
    told = crew("status", "r").out
    assert "tasks: 1 in_progress, 1 pending" in told
    assert "  ann: turn 2 waiting (task 1)" in told
    assert "2\tann\t1\twaiting\tabsent" in told
    tasks = crew("tasks", "r", "--json").json["tasks"]
    assert [(task["owner"], task["state"], task["after"]) for task in tasks] == [
        ("ann", "in_progress", []),
        ("bob", "pending", [1]),
    ]
    turns = crew("turns", "r", "--json").json["turns"]
    assert [(turn["participant"], turn["state"]) for turn in turns] == [
        ("coordinator", "completed"),
        ("ann", "waiting"),
    ]


def test_an_answer_from_another_process_brings_a_team_to_its_end(crew: Shell) -> None:
    """spec team, resume: an answer releases its turn; every task is done once."""
    (hold,) = crew("holds", "--json").json["holds"]
    done = crew("answer", hold["id"], '"all new"')
    assert done.code == 0, done.err
    assert '"build it": "BUILD IT"' in done.out
    assert (crew.folder / "effects").read_text(encoding="utf-8") == "build it\n"
    assert crew("doctor").out.endswith("all is well\n")


def test_a_paused_team_takes_directed_turns_and_keeps_messages(crew: Shell) -> None:
    """spec team, model: all refused while paused except `direct` and reads; a message is stored unread."""
    assert crew("pause", "r").code == 0
    done = crew("direct", "r", "bob", "the dishes")
    assert done.code == 0, done.err
    assert done.out == 'turn 3 of bob completed\n"bob does the dishes"\n'
    behind = crew("direct", "r", "ann", "anything")
    assert (behind.code, "turn 2, which is ahead of it, waits for an answer" in behind.out) == (75, True)
    assert crew("send", "r", "hello", "--to", "bob").code == 0
    status = crew("status", "r", "--json").json
    assert (status["state"], status["generation"]) == ("paused", 2)
    assert crew("resume", "r").code == 75  # what is asked is asked still
    assert crew("status", "r", "--json").json["state"] == "paused"


def test_a_message_that_a_body_leaves_unread_is_offered_once(crew: Shell) -> None:
    """spec team, scheduling: one turn per batch of arrivals, whatever the body makes of it."""
    (hold,) = crew("holds", "--json").json["holds"]
    assert crew("send", "r", "hello", "--to", "bob").code == 0
    assert crew("answer", hold["id"], '"all new"').code == 0
    turns = crew("turns", "r", "--json").json["turns"]
    assert [turn["kind"] for turn in turns if turn["participant"] == "bob"] == ["inbox", "task"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("direct", "r", "zoe", "x"), 2, "has no member 'zoe'; its members are ann, bob"),
        (("direct", "r", "coordinator", "x"), 2, "is the coordinator, who owns no task"),
        (("send", "r", "x", "--to", "zoe"), 2, "has no member 'zoe'"),
        (("tasks", "nope"), 3, "there is no run 'nope'"),
        (("tasks", "r.1"), 2, "is of the kind agent; only a team has tasks and turns"),
        (("reset", "r.2"), 4, "it is the body of turn 2 of team run 'r'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    crew: Shell, words: tuple[str, ...], code: int, told: str
) -> None:
    """spec engine, 7: errors are one line that says what to do next."""
    done = crew(*words)
    assert done.code == code, done
    assert told in one_line(done.err)
