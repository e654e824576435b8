"""Does a team do what a model of a hundred lines says, in whatever order things happen?

Three ways through the same small world (`team_world.py`), each followed step by step by the model and, on
SQLite, by the checker of N1 to N14: sequences that Hypothesis draws and shrinks; sequences from seeds, on
a scheduler and a clock that the seed drives too; and every order of a few things. Source: cases team 126
to 128; spec team, "Invariants".
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from .team_world import Op, World

NUMBERS = itertools.count()


class Stage:
    """A Trio task in a thread of its own, in which everything that is called happens one after the other.

    Trio wants a runtime to be left by the task that entered it.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        portal: AbstractContextManager[Any] = start_blocking_portal("trio")
        self._portal = self._stack.enter_context(portal)
        self._send, self._receive = anyio.create_memory_object_stream[Any](1)
        self._portal.start_task_soon(self._serve)

    async def _serve(self) -> None:
        async with self._receive:
            async for function, arguments, told in self._receive:
                try:
                    told.send_nowait((await function(*arguments), None))
                except BaseException as error:
                    told.send_nowait((None, error))
                told.close()

    def call(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        value, error = self._portal.call(self._ask, function, arguments)
        if error is not None:
            raise error
        return value

    async def _ask(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Any:
        told, answer = anyio.create_memory_object_stream[Any](1)
        await self._send.send((function, arguments, told))
        async with answer:
            return await answer.receive()

    def close(self) -> None:
        self._portal.call(self._send.aclose)
        self._stack.close()


class TeamMachine(RuleBasedStateMachine):
    """A world in a file, driven by what Hypothesis draws."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.stage = Stage()
        self.world = World(f"w{next(NUMBERS)}", Path(self.folder.name) if self.durable else None)
        self.stage.call(self.world.begin)

    @rule(data=st.data())
    def happens(self, data: st.DataObject) -> None:
        self.stage.call(self.world.do, data.draw(st.sampled_from(self.world.possible())))

    @invariant()
    def the_team_is_as_the_model_says(self) -> None:
        self.stage.call(self.world.check)

    def teardown(self) -> None:
        try:
            self.stage.call(self.world.drain)
        finally:
            self.stage.call(self.world.close)
            self.stage.close()
            self.folder.cleanup()


class TeamMachineInMemory(TeamMachine):
    """A world in memory, which ends with its process."""

    durable = False


MACHINES = pytest.mark.parametrize("machine", [TeamMachine, TeamMachineInMemory], ids=["sqlite", "memory"])


def search(machine: type[TeamMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            settings.default,
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@MACHINES
def test_a_team_does_what_the_model_says(machine: type[TeamMachine]) -> None:
    """Cases team 126; N1 to N14 after each step."""
    search(machine, 10 if machine.durable else 30, 25)


@pytest.mark.slow
@MACHINES
def test_a_team_does_what_the_model_says_for_long(machine: type[TeamMachine]) -> None:
    """Cases team 126: longer and more."""
    search(machine, 1_000, 60)


# --- from seeds --------------------------------------------------------------------------------------------


@pytest.fixture
def seeded_scheduler(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """What Trio draws the order of tasks from that can run at the same time; to be seeded."""
    chance = random.Random()
    monkeypatch.setattr(trio._core._run, "_r", chance)
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    return chance


def story(seed: int, folder: Path | None, scheduler: random.Random, steps: int = 25) -> list[str]:
    """What happens in the world of this seed, and the team's whole log of it."""
    scheduler.seed(seed)
    chance = random.Random(seed)
    log: list[str] = []

    async def tell() -> None:
        world = World("w", folder)
        await world.begin()
        try:
            for _ in range(steps):
                op = chance.choice(world.possible())
                log.append(f"{seed}: {op}")
                await world.do(op)
                await world.check()
            await world.drain()
            rows = world.rt.backend.host.read(lambda tx: tx.events(None, 0, 10_000))
            log.extend(str(row) for row in rows)
        except AssertionError as error:
            raise AssertionError("\n".join([*log, str(error)])) from error
        finally:
            await world.close()

    anyio.run(tell, backend="trio")
    return log


@pytest.mark.parametrize(
    ("durable", "seeds"),
    [
        (False, 60),
        (True, 6),
        pytest.param(False, 10_000, marks=pytest.mark.slow),
        pytest.param(True, 500, marks=pytest.mark.slow),
    ],
)
def test_the_world_of_each_seed_does_what_the_model_says(
    tmp_path: Path, seeded_scheduler: random.Random, durable: bool, seeds: int
) -> None:
    """Cases team 127: one thread, a virtual clock, a seeded scheduler and plan of faults."""
    for seed in range(seeds):
        folder = tmp_path / str(seed) if durable else None
        if folder is not None:
            folder.mkdir()
        assert story(seed, folder, seeded_scheduler)


@pytest.mark.parametrize("durable", [False, True])
def test_the_same_seed_gives_the_same_log(
    tmp_path: Path, seeded_scheduler: random.Random, durable: bool
) -> None:
    """Cases team 127."""
    for seed in range(3):
        told = []
        for time in ("first", "again"):
            folder = tmp_path / f"{seed} {time}" if durable else None
            if folder is not None:
                folder.mkdir()
            told.append(story(seed, folder, seeded_scheduler))
        assert told[0] == told[1]
    assert story(1, None, seeded_scheduler) != story(2, None, seeded_scheduler)


# --- every order -------------------------------------------------------------------------------------------


def orders(things: list[Op]) -> Iterator[tuple[Op, ...]]:
    """Every order of these; of equal ones no two orders differ."""
    if not things:
        yield ()
    for thing in dict.fromkeys(things):
        left = list(things)
        left.remove(thing)
        for rest in orders(left):
            yield (thing, *rest)


TWICE: list[Op] = [("pause",), ("resume",)] * 2
ENDS: list[Op] = [("end", "t1", "ok"), ("end", "t2", "bad")]


def visit_all(owners: tuple[str, str], things: list[Op], folder: Path | None, every: int = 1) -> int:
    """Let these things happen in each order, or each so many'th; how many that were.

    What cannot happen at its place (the end of what has no body yet) happens as soon as it can.
    """

    async def visit(number: int, order: tuple[Op, ...]) -> None:
        world = World(f"w{number}", folder)
        await world.begin()
        try:
            for owner in owners:
                await world.do(("create", owner, ()))
            put_off: list[Op] = []
            for op in order:
                await world.do(op) if _can(world, op) else put_off.append(op)
                await world.check()
                for waiting in [op for op in put_off if _can(world, op)]:
                    put_off.remove(waiting)
                    await world.do(waiting)
                    await world.check()
            await world.drain()
        except AssertionError as error:
            raise AssertionError(f"{order}: {error}") from error
        finally:
            await world.close()

    chosen = list(enumerate(orders(things)))[::every]
    for number, order in chosen:
        anyio.run(visit, number, order, backend="trio")
    return len(chosen)


def _can(world: World, op: Op) -> bool:
    return op[0] != "end" or any(visit.what == op[1] for visit in world.visits)


@pytest.mark.parametrize("owners", [("m0", "m1"), ("m0", "m0")], ids=["two members", "one member"])
def test_every_order_of_two_pauses_two_resumes_and_two_ends_does_what_the_model_says(
    owners: tuple[str, str],
) -> None:
    """Cases team 128, without its crash: all 180 orders."""
    assert visit_all(owners, TWICE + ENDS, None) == 180


@pytest.mark.parametrize("owners", [("m0", "m1"), ("m0", "m0")], ids=["two members", "one member"])
@pytest.mark.parametrize(("every", "visited"), [(60, 21), pytest.param(1, 1260, marks=pytest.mark.slow)])
def test_every_order_with_a_crash_does_what_the_model_says(
    tmp_path: Path, owners: tuple[str, str], every: int, visited: int
) -> None:
    """Cases team 128: 1 team, 2 turns, 2 pauses, 2 resumes, 1 crash; all 1260 orders, or a sample of them."""
    assert visit_all(owners, [*TWICE, *ENDS, ("crash",)], tmp_path, every) == visited
