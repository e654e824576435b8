"""quiesce itself: the agent, the graph and the team that do the work of the other subjects."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from quiesce import Completed, Graph, Paused, Runtime, Team, Transition, Turn, agent, pause, step
from quiesce.errors import AlreadyAnswered

from .lines import report, rounds
from .story import happen, happened, reach

# --- what asks for ever -------------------------------------------------------------------------------


@agent
def asking_agent() -> None:
    while True:
        pause("go on?")


asking_graph = Graph("asking")
asking_gate = asking_graph.gate("ask", asks="go on?", takes=type(None), start=True)


@asking_graph.transition(asking_gate)
def again(answered: tuple[None, Any]) -> Transition:
    return asking_gate.next(answered[0])


@agent
def asking_coordinator(turn: Turn) -> None:
    while True:
        turn.pause("go on?")


async def member(turn: Turn) -> None:
    """Nobody has anything for it to do."""


asking_team = Team("asking", coordinator=asking_coordinator, members={"member": member})

# --- the story ----------------------------------------------------------------------------------------


@step
def reserve() -> None:
    happen("reserve")


@step
def charge(answer: str) -> str:
    happen(f"charge {answer}")
    return answer


@step(verify=lambda: happened("reserve"))
def reserve_if_not() -> None:
    happen("reserve")


@step(verify=lambda answer: answer if happened(f"charge {answer}") else None)
def charge_if_not(answer: str) -> str:
    happen(f"charge {answer}")
    return answer


@agent
def story_agent() -> str:
    reserve()
    return charge(pause("charge?", expects=str))


@agent
def looking_agent() -> str:
    reserve_if_not()
    return charge_if_not(pause("charge?", expects=str))


story_graph = Graph("story")


@story_graph.node(start=True)
def reserved(nothing: None) -> None:
    happen("reserve")


story_gate = story_graph.gate("ask", asks="charge?", expects=str, takes=type(None))


@story_graph.node
def charged(answered: tuple[None, str]) -> str:
    happen(f"charge {answered[1]}")
    return answered[1]


story_graph.edge(reserved, story_gate)
story_graph.edge(story_gate, charged)
story_graph.finish(charged)


@agent
def story_coordinator(turn: Turn) -> None:
    turn.step(reserve)
    turn.finish(turn.step(charge, turn.pause("charge?", expects=str)))


story_team = Team("story", coordinator=story_coordinator, members={"member": member})

ASKING = {"agent": asking_agent, "graph": asking_graph, "team": asking_team}
STORIES = {"agent": story_agent, "looking": looking_agent, "graph": story_graph, "team": story_team}


def trips(name: str, path: str = "") -> None:
    async def run() -> None:
        async with Runtime(path or None) as runtime:
            outcome = await runtime.run(ASKING[name])
            for count in rounds():
                taken = []
                for _ in range(count):
                    started = perf_counter()
                    assert isinstance(outcome, Paused), outcome
                    outcome = await outcome.resume(True)
                    taken.append(perf_counter() - started)
                report(taken)

    asyncio.run(run())


def tell(name: str, path: str, answer: str) -> None:
    async def run() -> None:
        flow = STORIES[name]
        async with Runtime(path, flows=[flow]) as runtime:
            run = await runtime.start(flow, run_id="story", request_id="start")  # once, whoever repeats it
            for hold in await runtime.holds("story", None):
                try:
                    await runtime.answer(hold.id, answer)  # whoever asked before has heard of no answer
                except AlreadyAnswered:
                    pass
            outcome = await run.settled()
            reach("asks")
            if isinstance(outcome, Paused):
                await run.answer(answer)
                reach("answered")
                outcome = await run.settled()
            assert isinstance(outcome, Completed), outcome
            report(outcome.value)

    asyncio.run(run())
