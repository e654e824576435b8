"""Do real processes that pause, resume and claim one team agree on what happened, and in which order?

Source: cases team 25, 26, 116; spec team, "pause", "resume" and "Dispatch"; N1 to N4, N12.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Paused, Runtime
from quiesce_adapters.sqlite.checks import violations_of_file

from .test_processes import VERBS, race

import team_flows  # isort: skip

WORK = """
import sys
import anyio
import team_flows
from quiesce import Runtime

async def main():
    team_flows.go.append(anyio.Event())
    async with Runtime(sys.argv[1], flows=[team_flows.crew], durability="normal") as rt:
        run = await rt.start(team_flows.crew, run_id="r")
        async with anyio.create_task_group() as group:
            group.start_soon(tell_begun, run)
            async for line in anyio.wrap_file(sys.stdin):
                if line.strip() == "go":
                    team_flows.go[0].set()
                    print(await run.result(), flush=True)
                else:
                    break
            group.cancel_scope.cancel()

async def tell_begun(run):
    begun = 0
    async for event in run.events():
        begun += event.kind == "turn-running"
        if begun == 1 + team_flows.MEMBERS:
            print("ready", flush=True)
            return

anyio.run(main, backend=sys.argv[2])
"""

DUEL = """
import json, random, sys, time
import anyio
from quiesce import Runtime, errors

async def main():
    path, verb, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    chance = random.Random(seed)
    async with Runtime(path, drive=False, durability="normal") as rt:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(rounds):
            await anyio.sleep(chance.uniform(0, 0.004))
            repeat = number and chance.random() < 0.2
            request = f"{verb} {seed} {number - repeat}"
            began = time.monotonic()
            try:
                ack = (await getattr(rt, verb)("r", request_id=request)).model_dump(mode="json")
            except errors.NotResumable as refused:
                ack = {"refused": str(refused)}
            print(json.dumps([verb, request, began, time.monotonic(), ack]), flush=True)

anyio.run(main)
"""

CLAIM = """
import sys
import anyio
from quiesce.clock import SystemClock
from quiesce.rules import claims
from quiesce_adapters.sqlite.store import SqliteStore

async def main():
    clock = SystemClock()
    store = SqliteStore(sys.argv[1], clock, durability="normal")
    me = await store.write(lambda tx: tx.enlist(clock.pid(), clock.host(), []))
    store.hold_life(me)
    print("ready", flush=True)
    for line in sys.stdin:
        taken = await store.write(lambda tx: claims.claim(tx, line.strip(), me))
        print("taken" if taken else "left", flush=True)
        sys.stdin.readline()
        if taken:
            await store.write(lambda tx: claims.hand_back(tx, taken.id, me, taken.lease_epoch))
        print("done", flush=True)
    store.close()

anyio.run(main)
"""


def serve(start: Any, db: Path, backend: str = "asyncio") -> Any:
    """A process that serves a team, all members of which are at work."""
    worker = start(WORK, db, backend)
    assert worker.hear() == "ready"
    return worker


def let_go(worker: Any) -> None:
    worker.say("go")
    assert worker.hear() == str([f"task {number}" for number in range(team_flows.MEMBERS)])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_of_eight_processes_that_pause_or_resume_a_team_one_has_the_effect(
    db: Path, start: Any, backend: str
) -> None:
    """Cases team 25: one id gives one ack to all; of several ids one transitions; N3: one episode."""
    worker = serve(start, db, backend)
    processes = [start(VERBS, db, ("asyncio", "trio")[n % 2]) for n in range(8)]
    assert [process.hear() for process in processes] == ["ready"] * 8
    for generation in (2, 6):
        told = race(processes, "pause", "r", ids=[f"pause {generation}"] * 8)
        assert sorted(answer["replayed"] for answer in told) == [False] + [True] * 7
        assert len({json.dumps(answer | {"replayed": None}) for answer in told}) == 1
        assert (told[0]["generation"], told[0]["captured"]) == (generation, team_flows.MEMBERS)
        told = race(processes, "resume", "r", ids=[f"resume {generation}"] * 8)
        assert sorted(answer["replayed"] for answer in told) == [False] + [True] * 7
        assert {answer["continued"] for answer in told} == {team_flows.MEMBERS}

        told = race(processes, "pause", "r", ids=[f"pause {generation} {n}" for n in range(8)])
        assert sorted(answer["transitioned"] for answer in told) == [False] * 7 + [True]
        assert len({answer["episode_id"] for answer in told}) == 1
        told = race(processes, "resume", "r", ids=[f"resume {generation} {n}" for n in range(8)])
        assert sorted(str(answer.get("error")) for answer in told) == ["None"] + ["NotResumable"] * 7
    let_go(worker)
    with closing(sqlite3.connect(db)) as connection:
        episodes = "SELECT generation, ended_as FROM episodes WHERE run_id = 'r' ORDER BY generation"
        assert connection.execute(episodes).fetchall() == [(n, "resumed") for n in (2, 4, 6, 8)]
    assert violations_of_file(db) == []


def duel(db: Path, start: Any, rounds: int) -> list[list[Any]]:
    """What four processes that pause and four that resume were told, each so often, at random moments."""
    worker = serve(start, db)
    fighters = [
        start(DUEL, db, verb, rounds, f"{verb[0]}{n}") for n in range(4) for verb in ("pause", "resume")
    ]
    assert [fighter.hear() for fighter in fighters] == ["ready"] * 8
    for fighter in fighters:
        fighter.say()
    told = [json.loads(fighter.hear()) for _ in range(rounds) for fighter in fighters]

    async def settle() -> None:
        async with Runtime(db, drive=False) as rt:
            if (await rt.status("r")).state == "paused":
                await rt.resume("r")

    anyio.run(settle)
    let_go(worker)
    assert violations_of_file(db) == []
    return told


def check_history(told: list[list[Any]]) -> None:
    """Is there an order of all calls, none moved before one that had ended, that the model allows?

    The model: `generation` rises by one with each pause of a running and each resume of a paused team; a
    pause of a paused one changes nothing and tells its episode; a resume of a running one is refused; an id
    that is known gets its ack again. So each ack says at which generation it was given, and the order that
    is asked for is that of the generations.
    """
    acks: dict[str, Any] = {}
    for _, request, _, _, ack in sorted(told, key=lambda one: bool(one[4].get("replayed"))):
        if "refused" in ack:
            continue  # which is not remembered
        known = acks.setdefault(request, ack)
        assert ack | {"replayed": None} == known | {"replayed": None}
    moved = {ack["generation"]: request for request, ack in acks.items() if ack.get("transitioned")}
    assert sorted(moved) == list(range(2, len(moved) + 2))
    assert all(request.startswith("pause") == (at % 2 == 0) for at, request in moved.items())
    first = [one for one in told if not one[4].get("replayed")]
    effects = [one for one in first if one[4].get("transitioned")]
    seen = [one for one in first if "generation" in one[4] and not one[4]["transitioned"]]
    assert all(ack["episode_id"] == f"r:{ack['generation']}" for *_, ack in seen)
    latest = ["", "", 0.0]
    for _, group in groupby(sorted(effects + seen, key=_place), key=_place):
        together = list(group)
        for one in together:
            assert latest[2] <= one[3], f"{latest} was asked after {one} was told"
        latest = max(latest, *together, key=lambda one: float(one[2]))
    started = {ack["generation"]: began for *_, began, _, ack in effects} | {1: 0.0}
    over = {ack["generation"] - 1: ended for *_, ended, ack in effects}
    for *_, began, ended, ack in first:
        if "refused" in ack:  # it ran at some moment of the call
            assert any(
                started[at] <= ended and began <= over.get(at, ended) for at in started if at % 2 == 1
            ), ack


def _place(one: list[Any]) -> tuple[int, bool]:
    """Where a call stands in the order: behind what made its generation, and in no order with its like."""
    return one[4]["generation"], not one[4]["transitioned"]


@pytest.mark.parametrize("rounds", [25, pytest.param(500, marks=pytest.mark.slow)])
def test_what_processes_are_told_that_pause_and_resume_at_random_has_one_order(
    db: Path, start: Any, rounds: int
) -> None:
    """Cases team 26: the history is linearizable; N2, N12: no replay and no refusal moves the generation."""
    check_history(duel(db, start, rounds))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda told: told.append(["resume", "resume x", 9.0, 9.1, {"refused": "it is running"}]),
        lambda told: told[1][4].update(generation=4),
        lambda told: told[2].__setitem__(2, 7.0),
        lambda told: told.append(
            ["pause", "pause 1", 9.0, 9.1, told[0][4] | {"captured": 1, "replayed": True}]
        ),
    ],
    ids=["refused while paused", "a generation left out", "told before it was asked", "another ack"],
)
def test_a_history_without_an_order_is_found(wrong: Callable[[list[list[Any]]], None]) -> None:
    """The check of case 26 itself: what no order explains is refused."""

    def ack(generation: int, *, transitioned: bool = True) -> dict[str, Any]:
        episode = f"r:{generation - generation % 2}"
        return {"generation": generation, "transitioned": transitioned, "episode_id": episode}

    told: list[list[Any]] = [
        ["pause", "pause 1", 1.0, 1.2, ack(2)],
        ["resume", "resume 1", 2.0, 2.2, ack(3)],
        ["pause", "pause 2", 3.0, 3.2, ack(4)],
        ["pause", "pause 3", 3.1, 3.4, ack(4, transitioned=False)],
        ["resume", "resume 2", 2.5, 2.8, {"refused": "it is running"}],
    ]
    check_history(told)
    wrong(told)
    with pytest.raises(AssertionError):
        check_history(told)


def test_two_processes_that_claim_one_continuation_never_both_get_it(db: Path, start: Any) -> None:
    """Cases team 116: a thousand times, exactly one; the epoch of the lease counts them."""
    worker = serve(start, db)

    async def hold() -> str:
        async with Runtime(db, drive=False, durability="normal") as rt:
            await rt.pause("r")
            assert isinstance(await (await rt.get("r")).settled(), Paused)
            worker.kill()
            await rt.resume("r")
            return next(turn.child for turn in await (await rt.get("r")).turns() if turn.state == "queued")

    child = anyio.run(hold)
    rivals = [start(CLAIM, db) for _ in range(2)]
    assert [rival.hear() for rival in rivals] == ["ready"] * 2
    winners = []
    for number in range(1_000):
        order = rivals if number % 2 else rivals[::-1]
        for rival in order:
            rival.say(child)
        told = [rival.hear() for rival in rivals]
        assert sorted(told) == ["left", "taken"], number
        winners.append(told.index("taken"))
        for rival in rivals:
            rival.say()
        assert [rival.hear() for rival in rivals] == ["done"] * 2
    assert {0, 1} == set(winners)
