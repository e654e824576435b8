"""LangGraph: its graph and its functional API; the saver is in memory or SQLite, and keeps all at once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypedDict

os.environ.setdefault("LANGSMITH_TRACING", "false")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from .lines import report, rounds
from .story import happen, reach


class State(TypedDict):
    answer: str


def saver(path: str) -> Any:
    """The saver as it comes: in SQLite it sets the WAL, and leaves `synchronous` at FULL."""
    if not path:
        return InMemorySaver()
    connection = sqlite3.connect(path, check_same_thread=False)
    kept = SqliteSaver(connection)
    kept.setup()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    assert (mode, synchronous) == ("wal", 2), "not the durability of the others any more"
    return kept


def trips(name: str, path: str = "") -> None:
    """A graph of one node, which asks and goes to itself; the functional API would replay every answer."""
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"answer": interrupt("go on?")})
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda state: "ask" if state["answer"] else END, ["ask", END])
    graph = builder.compile(checkpointer=saver(path))
    config: Any = {"recursion_limit": 10**6, "configurable": {"thread_id": "asking"}}
    graph.invoke({"answer": ""}, config, durability="sync")
    for count in rounds():
        taken = []
        for _ in range(count):
            started = perf_counter()
            graph.invoke(Command(resume="yes"), config, durability="sync")
            taken.append(perf_counter() - started)
        report(taken)


def tell(name: str, path: str, answer: str) -> None:
    flow, value = {"graph": _graph, "agent": _function}[name](saver(path))
    config: Any = {"configurable": {"thread_id": "story"}}
    state = flow.get_state(config)
    if not state.created_at:
        flow.invoke({"answer": ""}, config, durability="sync")
    elif not state.interrupts:
        flow.invoke(None, config, durability="sync")  # go on from the last checkpoint
    reach("asks")
    if flow.get_state(config).interrupts:
        flow.invoke(Command(resume=answer), config, durability="sync")
        reach("answered")
    report(value(flow.get_state(config).values))


def _graph(saver: Any) -> tuple[Any, Callable[[Any], Any]]:
    def reserve(state: State) -> dict[str, str]:
        happen("reserve")
        return {}

    def charge(state: State) -> dict[str, str]:
        happen(f"charge {state['answer']}")
        return {}

    builder = StateGraph(State)
    builder.add_node("reserve", reserve)
    builder.add_node("ask", lambda state: {"answer": interrupt("charge?")})
    builder.add_node("charge", charge)
    builder.add_edge(START, "reserve")
    builder.add_edge("reserve", "ask")
    builder.add_edge("ask", "charge")
    builder.add_edge("charge", END)
    return builder.compile(checkpointer=saver), lambda values: values["answer"]


def _function(saver: Any) -> tuple[Any, Callable[[Any], Any]]:
    @task
    def reserve() -> bool:
        happen("reserve")
        return True

    @task
    def charge(answer: str) -> str:
        happen(f"charge {answer}")
        return answer

    @entrypoint(checkpointer=saver)
    def story(state: State) -> str:
        reserve().result()
        return charge(interrupt("charge?")).result()

    return story, lambda values: values
