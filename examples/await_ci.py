"""A run waits for CI, for minutes or days, and CI calls back from another process.

    push ──> checks (a gate: here the run is paused) ──> announce

The run is in a file, so nothing has to stay alive in between, and whoever calls back needs only the id of the
run. CI services deliver a callback twice rather than not at all: the id of the delivery is the request id, so
the second one changes nothing. And what is delivered has a type, so a misfit is refused at the door.

    python await_ci.py                                                    the story, in several processes
    python await_ci.py wait flows.db 4f2a91c                              a run of that commit: ci-4f2a91c
    python await_ci.py deliver flows.db ci-4f2a91c ID success "passed"    what the handler of a callback does
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from quiesce import Completed, Graph, Paused, Runtime, Transition
from quiesce.errors import QuiesceError


@dataclass(frozen=True, slots=True)
class CiResult:
    """What CI may say; anything else is refused, and the run goes on waiting."""

    conclusion: Literal["success", "failure"]
    summary: str


graph = Graph("await-ci")


@graph.node(start=True)
def push(commit: str) -> str:
    """The place to trigger CI: it is evaluated once, however long the run waits afterwards."""
    return commit


def question(commit: str) -> str:
    return f"What does CI say of {commit}?"


checks = graph.gate("checks", asks=question, expects=CiResult)


@graph.node
def announce(report: str) -> str:
    return report


graph.edge(push, checks)
graph.finish(announce)


@graph.transition(checks, to=[announce])
def decide(finished: tuple[str, CiResult]) -> Transition:
    commit, ci = finished
    return announce.next(f"{commit}: {ci.conclusion}, {ci.summary}")


async def wait(db: str, commit: str) -> None:
    """Start a run, and stay until it is over. If this process dies, whoever delivers finishes the run."""
    async with Runtime(db) as rt:
        run = await rt.start(graph, commit, run_id=f"ci-{commit}")
        match await run.settled():
            case Paused(holds=(hold, *_)):
                print(f"{run.id} is paused: {hold.reason}", flush=True)
        print(f"{run.id} is over: {await run.result()}", flush=True)


async def deliver(db: str, run_id: str, delivery: str, conclusion: str, summary: str) -> None:
    """The handler of a callback. It knows no node and no object of the process that waits."""
    async with Runtime(db) as rt:
        (hold,) = await rt.holds(run_id, state=None)  # answered ones too: this may be a repetition
        answer = {"conclusion": conclusion, "summary": summary}  # as it came: JSON
        ack = await rt.answer(hold.id, answer, request_id=delivery, actor="ci")
        print(f"delivery {delivery}: {'known already' if ack.replayed else 'taken'}", flush=True)
        run = await rt.get(run_id)
        match await run.settled():  # the process that waits goes on, or else this one
            case Completed(value):
                print(f"{run_id} is over: {value}", flush=True)


def story() -> None:
    """One process waits, others deliver; the last line is printed by the one that waited."""
    with tempfile.TemporaryDirectory() as folder:
        me, db, commit = [sys.executable, __file__], str(Path(folder, "flows.db")), "4f2a91c"
        with subprocess.Popen([*me, "wait", db, commit], stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            print(waiting.stdout.readline(), end="", flush=True)
            for delivery, conclusion in (("d1", "perhaps"), ("d2", "success"), ("d2", "success")):
                subprocess.run([*me, "deliver", db, f"ci-{commit}", delivery, conclusion, "all is well"])
            print(waiting.stdout.read(), end="")


def main(arguments: list[str]) -> None:
    match arguments:
        case []:
            story()
        case ["wait", db, commit]:
            anyio.run(wait, db, commit)
        case ["deliver", db, run_id, delivery, conclusion, summary]:
            anyio.run(deliver, db, run_id, delivery, conclusion, summary)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except QuiesceError as error:
        sys.exit(f"{type(error).__name__}: {error}")
