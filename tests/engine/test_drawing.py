"""A graph as a picture: what is drawn, and that no name breaks it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quiesce import Team, Turn
from quiesce.graph import Graph, Transition, dot, mermaid
from quiesce.team import drawing as of_teams
from quiesce.team.values import Task

AWKWARD = [
    'say "hi"',
    "a\\b",
    "x;y|z",
    "end",
    "<b>bold</b>",
    "#35;",
    "{braces}",
    "line\nbreak",
    "ünï ☃",
    "a-->b",
    "]]",
]


def node(value: Any) -> Any:
    return value


def release() -> Graph:
    graph = Graph("release")
    build = graph.node(node, name="build", start=True)
    test, lint, check = (graph.node(node, name=name) for name in ("test", "lint", "check"))
    approve = graph.gate("approve", asks="Ship it?", expects=bool)
    inner = graph.node(Graph("publish"))
    graph.transition(build, to=[test, lint])(
        lambda value: Transition.fan_out([(test, 1), (lint, 1)], join=check)
    )
    graph.join(test, into=check)
    graph.join(lint, into=check)
    graph.edge(check, approve)
    graph.transition(approve)(lambda answered: inner.next(answered))
    graph.rejected(approve, to=[build])(lambda value, message: build.next(value))
    graph.finish(inner)
    return graph


def test_mermaid_shows_what_is_declared_and_leaves_open_what_is_not() -> None:
    assert mermaid(release()) == (
        "flowchart TD\n"
        '    start(("start"))\n'
        '    n0["build"]\n'
        '    n1["test"]\n'
        '    n2["lint"]\n'
        '    n3["check"]\n'
        '    n4{{"approve<br/>Ship it?"}}\n'
        '    n5[["publish<br/>graph publish"]]\n'
        '    un4(["decides at run time"])\n'
        '    finish((("finish")))\n'
        "    start --> n0\n"
        "    n0 --> n1\n"
        "    n0 --> n2\n"
        '    n1 -->|"join"| n3\n'
        '    n2 -->|"join"| n3\n'
        "    n3 --> n4\n"
        "    n4 -.-> un4\n"
        '    n4 -->|"rejected"| n0\n'
        "    n5 --> finish\n"
    )


def test_dot_shows_the_same() -> None:
    text = dot(release())
    assert text.startswith('digraph "release" {\n')
    assert text.endswith("}\n")
    assert 'n4 [label="approve\\nShip it?", shape=hexagon];' in text
    assert 'n1 -> n3 [label="join"];' in text
    assert "n4 -> un4 [style=dashed];" in text
    assert mermaid(release()).count("-->") + 1 == text.count(" -> ")


def test_a_run_is_marked_where_it_is() -> None:
    where = {"approve": {"paused": 2, "running": 0}, "test": {"queued": 1, "running": 1}}
    drawn = mermaid(release(), where)
    assert 'n4{{"approve<br/>Ship it?<br/>2 paused"}}:::paused' in drawn
    assert 'n1["test<br/>1 running, 1 queued"]:::running' in drawn
    assert 'n0["build"]\n' in drawn
    assert re.findall(r"classDef (\w+)", drawn) == ["running", "paused"]
    assert 'label="approve\\nShip it?\\n2 paused"' in dot(release(), where)
    assert "penwidth=3" in dot(release(), where)


def test_a_branch_at_a_node_that_was_removed_is_shown() -> None:
    assert "review<br/>no longer in this graph<br/>1 paused" in mermaid(release(), {"review": {"paused": 1}})


@pytest.mark.parametrize("name", AWKWARD)
def test_any_node_name_can_be_drawn(name: str) -> None:
    graph = Graph(name)
    graph.finish(graph.node(node, name=name, start=True))
    drawn = mermaid(graph, {name: {"paused": 1}})
    labels = re.findall(r'n0\["(.*?)"\]:::paused', drawn)
    assert len(labels) == 1
    assert not re.search(r'["<>\\|{}\[\]`]', labels[0].replace("<br/>", ""))
    quoted = re.findall(r'n0 \[label="((?:[^"\\]|\\.)*)", shape=box', dot(graph))
    assert len(quoted) == 1
    assert dot(graph).count("\n") == 8


def test_a_graph_without_a_start_or_transitions_can_be_drawn() -> None:
    graph = Graph("bare")
    graph.node(node)
    assert mermaid(graph) == 'flowchart TD\n    n0["node"]\n'


async def plan(turn: Turn) -> None:
    """Plans nothing."""


def crew() -> Team:
    return Team("crew", coordinator=plan, members={"ann": plan})


def task(number: int, title: str, owner: str | None, state: Any, after: tuple[int, ...] = ()) -> Task:
    return Task(number, title, None, owner, state, after)


def test_a_team_is_drawn_with_its_tasks_in_their_states_and_order() -> None:
    """Source: spec engine, 7 (graph): the drawing; with a run, where it is."""
    tasks = [task(1, "build", "ann", "completed"), task(2, "test", "zoe", "in_progress", (1,))]
    tasks.append(task(3, "ship", None, "pending", (1, 2)))
    assert of_teams.mermaid(crew(), tasks).splitlines()[:14] == [
        "flowchart TD",
        '    p0[["coordinator<br/>agent plan"]]',
        '    p1["ann<br/>agent plan"]',
        '    p2["zoe<br/>no longer in this team"]',
        '    t1("1 build<br/>completed"):::completed',
        '    t2("2 test<br/>in_progress"):::running',
        '    t3("3 ship<br/>pending"):::queued',
        "    p0 --> p1",
        "    p0 --> p2",
        "    p1 -.-> t1",
        "    p2 -.-> t2",
        '    t1 -->|"then"| t2',
        '    t1 -->|"then"| t3',
        '    t2 -->|"then"| t3',
    ]
    drawn = of_teams.dot(crew(), tasks)
    assert drawn.startswith('digraph "crew" {\n')
    assert 't1 -> t2 [label="then"];' in drawn


@pytest.mark.parametrize("title", AWKWARD)
def test_any_title_of_a_task_can_be_drawn(title: str) -> None:
    drawn = of_teams.mermaid(crew(), [task(1, title, None, "pending")])
    (label,) = re.findall(r't1\("(.*?)"\):::queued', drawn)
    assert not re.search(r'["<>\\|{}\[\]`]', label.replace("<br/>", ""))
