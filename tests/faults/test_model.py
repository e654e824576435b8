"""Does the engine do what a model of a hundred lines says, whatever the order of verbs?

Hypothesis draws sequences of verbs, ends of visits, restarts and jumps of the clock, and shrinks what
fails to a short story. The model knows one kind of flow: work, which ends or fails when the test says so;
then a question, whose answer sends it back to work or finishes it. Source: spec engine, 3 and 4.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quiesce import Runtime
from quiesce.clock import ManualClock
from quiesce.errors import (
    AlreadyAnswered,
    AnswerRequired,
    Expired,
    IllegalTransition,
    NotResumable,
    QuiesceError,
    RunActive,
    UnknownHold,
    Withdrawn,
)
from quiesce_adapters.memory.store import MemoryStore
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

from .model_flow import LIMIT, VISITS, story

NAMES = ("a", "b")
POISON = 3
ENDED = ("completed", "failed", "cancelled")


@dataclass
class Model:
    """What a run is, by the rules alone."""

    state: str = "running"
    generation: int = 1
    execution: int = 1
    locks: set[str] = field(default_factory=set)
    at: str = "work"
    """`work`, `asks` (a question is open), `told` (it is answered, and the gate is queued), or `over`."""
    visiting: bool = True
    leased: bool = True
    lost: int = 0
    """How often a process was taken away from the visit that is under way."""
    asked: float = 0.0
    answer: Any = None
    rejected: bool = False

    def fence(self, lock: str) -> None:
        self.state, self.locks = "paused", {lock}
        self.generation += 1

    def go(self, now: float) -> None:
        """Leave `paused` if nothing keeps the run, and do what follows at once."""
        if self.locks - {"holds"}:
            return
        if self.at == "asks":
            self.locks = {"holds"}
            return
        if self.state == "paused":
            self.state, self.generation, self.locks = "running", self.generation + 1, set()
        self.leased = True
        self.run(now)

    def run(self, now: float) -> None:
        """What a running run does until it waits for somebody."""
        if self.at == "work":
            self.visiting = True
        elif self.at == "gate":
            self.at, self.asked = "asks", now
            self.fence("holds")
        elif self.at == "told":
            if self.rejected:
                self.fail()
            elif self.answer:
                self.at = "work"
                self.visiting = True
            else:
                self.end("completed")

    def end(self, state: str) -> None:
        self.state, self.at, self.locks = state, "over", set()
        self.visiting = self.leased = False
        self.lost = 0

    def fail(self) -> None:
        self.state, self.locks, self.visiting, self.leased = "failed", set(), False, False

    def visited(self, fails: bool, now: float) -> None:
        self.visiting, self.lost = False, 0
        if fails:
            self.fail()
            return
        self.at = "gate"
        if self.state == "running":
            self.run(now)

    def told(self, answer: Any, rejected: bool, now: float) -> None:
        self.at, self.answer, self.rejected = "told", answer, rejected
        self.locks.discard("holds")
        self.go(now)


class Machine(RuleBasedStateMachine):
    """The rules: what a user, a body, the clock and the operating system can do."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Model] = {}
        self.sent: list[tuple[Callable[[], Any], Any]] = []
        self.holds: dict[str, list[str]] = {}
        self.count = 0
        self.clock = ManualClock()
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.exit = ExitStack()
        VISITS.clear()

    @initialize(backend=st.sampled_from(["asyncio", "trio"]))
    def begin(self, backend: str) -> None:
        self.portal = self.exit.enter_context(start_blocking_portal(backend))
        self.memory = MemoryStore(self.clock)
        self.open()

    def open(self) -> None:
        store = SqliteStore(self.folder / "flows.db", self.clock) if self.durable else self.memory
        self.rt = Runtime(store, flows=[story], clock=self.clock)
        self.runtime: AbstractContextManager[Any] = self.portal.wrap_async_context_manager(self.rt)
        self.runtime.__enter__()
        self.rest()

    def rest(self) -> None:
        self.portal.call(wait_all_tasks_blocked)

    def teardown(self) -> None:
        if hasattr(self, "runtime"):
            self.runtime.__exit__(None, None, None)
            if self.durable:
                assert violations_of_file(self.folder / "flows.db") == []
        self.exit.close()
        shutil.rmtree(self.folder)

    def verb(self, name: str, *arguments: Any, expected: type[QuiesceError] | None = None) -> Any:
        """Send a verb; what it does is in the model, whether it is refused is `expected`."""
        self.count += 1
        request_id = f"{name} {self.count}"

        async def send() -> Any:
            return await getattr(self.rt, name)(*arguments, request_id=request_id)

        if expected is not None:
            with pytest.raises(expected):
                self.portal.call(send)
            self.rest()
            return None
        ack = self.portal.call(send)
        self.rest()
        if name != "start":
            self.sent.append((send, ack))
        return ack

    # --- rules -----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def start(self, name: str) -> None:
        model = self.models.get(name)

        async def send() -> None:
            await self.rt.start(story, 0, run_id=name)

        if model is None:
            self.portal.call(send)
            self.models[name] = Model()
        else:
            fresh = model.state == "created" and model.at == "new"
            assert not fresh
            active = model.state in ("created", "running", "paused")
            with pytest.raises(RunActive if active else IllegalTransition):
                self.portal.call(send)
        self.rest()

    @precondition(lambda self: any(model.visiting for model in self.models.values()))
    @rule(data=st.data(), fails=st.integers(0, 3))
    def end_visit(self, data: st.DataObject, fails: int) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, m in self.models.items() if m.visiting)))
        visit = VISITS[name][-1]
        self.portal.call(lambda: visit.end(fails=fails == 0))
        self.rest()
        self.models[name].visited(fails == 0, self.clock.monotonic())

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        name, model = self.pick(data)
        if model.state not in ("running", "paused"):
            self.verb("pause", name, expected=IllegalTransition)
            return
        ack = self.verb("pause", name)
        assert ack.transitioned == (model.state == "running")
        assert ack.locked == ("operator" not in model.locks)
        if model.state == "running":
            model.fence("operator")
        else:
            model.locks.add("operator")

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        name, model = self.pick(data)
        if model.state == "created":
            self.verb("resume", name)
            model.state, model.at, model.leased = "running", "work", True
            model.run(self.clock.monotonic())
        elif model.state != "paused":
            self.verb("resume", name, expected=NotResumable)
        elif "fault" in model.locks:
            assert not self.verb("resume", name).transitioned  # the cause stands; a retry says it is mended
        elif "operator" not in model.locks:
            self.verb("resume", name, expected=AnswerRequired)
        else:
            before = model.generation
            ack = self.verb("resume", name)
            model.locks.discard("operator")
            model.go(self.clock.monotonic())
            assert ack.transitioned == (model.state != "paused" or model.generation > before)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), value=st.sampled_from([0, 1, 2]), rejects=st.integers(0, 4))
    def answer(self, data: st.DataObject, value: int, rejects: int) -> None:
        name, model = self.pick(data)
        known = self.holds.get(name, [])
        hold = data.draw(st.sampled_from(known)) if known else "nobody"
        is_open = model.at == "asks" and known and hold == known[-1]
        verb, what = ("reject", "no") if rejects == 0 else ("answer", value)
        if is_open:
            self.verb(verb, hold, what)
            model.told(what, verb == "reject", self.clock.monotonic())
        else:
            self.count += 1
            with pytest.raises((AlreadyAnswered, Withdrawn, UnknownHold, Expired)):
                self.verb(verb, hold, what)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), sure=st.sampled_from([False, False, True]))
    def cancel(self, data: st.DataObject, sure: bool) -> None:
        if not sure:  # it ends most stories; let them begin
            return
        name, model = self.pick(data)
        if model.state in ("completed", "cancelled"):
            self.verb("cancel", name, expected=IllegalTransition)
        else:
            self.verb("cancel", name)
            model.end("cancelled")
            model.generation += 1

    @precondition(lambda self: self.models)
    @rule(data=st.data(), sure=st.sampled_from([False, False, True]))
    def reset(self, data: st.DataObject, sure: bool) -> None:
        if not sure:  # it ends most stories; let them begin
            return
        name, model = self.pick(data)
        ack = self.verb("reset", name)
        assert ack.transitioned == (model.state != "created")
        if model.state != "created":
            model.end("created")
            model.generation += 1
            model.execution += 1

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        name, model = self.pick(data)
        if model.state == "paused" and "fault" in model.locks:
            self.verb("retry", name)
            model.lost = 0
            model.locks.discard("fault")
            model.go(self.clock.monotonic())
        elif model.state != "failed":
            self.verb("retry", name, expected=IllegalTransition)
        elif model.at == "work":  # what a rejected gate does then is its own test
            self.verb("retry", name)
            model.state, model.generation, model.leased = "running", model.generation + 1, True
            model.run(self.clock.monotonic())

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def take_over(self, data: st.DataObject) -> None:
        name, model = self.pick(data)
        if not model.leased or model.state not in ("running", "paused"):
            self.verb("takeover", name, expected=IllegalTransition)
            return
        self.verb("takeover", name)
        model.lost += model.visiting and self.durable
        model.visiting = False
        model.leased = False
        if model.state == "running" and model.lost >= POISON:
            model.fence("fault")
        elif model.state == "running":
            model.leased = True
            model.run(self.clock.monotonic())

    @precondition(lambda self: self.durable)
    @rule()
    def restart(self) -> None:
        self.runtime.__exit__(None, None, None)
        self.open()
        for model in self.models.values():
            model.leased = model.state == "running"
            model.visiting = False
            if model.state == "running":
                model.run(self.clock.monotonic())

    @rule(seconds=st.sampled_from([1.0, LIMIT / 2, LIMIT]))
    def time_passes(self, seconds: float) -> None:
        async def advance() -> None:
            self.clock.advance(seconds)

        self.portal.call(advance)
        self.rest()
        now = self.clock.monotonic()
        for model in self.models.values():
            if model.at == "asks" and now - model.asked >= LIMIT:
                model.told(0, False, now)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        """A reply was lost: the same request gets the same ack, also long after, and changes nothing."""
        send, ack = data.draw(st.sampled_from(self.sent))
        again = self.portal.call(send)
        self.rest()
        assert again.replayed
        assert again.model_dump() | {"replayed": False} == ack.model_dump()

    def pick(self, data: st.DataObject) -> tuple[str, Model]:
        name = data.draw(st.sampled_from(sorted(self.models)))
        return name, self.models[name]

    # --- what always holds -------------------------------------------------------------------------

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        for name, model in self.models.items():
            status = self.portal.call(self.rt.status, name)
            said = (
                status.state.value,
                status.generation,
                status.execution,
                {lock.kind for lock in status.locks},
            )
            assert said == (model.state, model.generation, model.execution, model.locks), name
            assert len(status.holds) == (model.at == "asks" and model.state not in ENDED), name
            if status.holds and status.holds[0].id not in self.holds.setdefault(name, []):
                self.holds[name].append(status.holds[0].id)
            drains = model.state == "paused" and model.visiting
            assert (status.phase == "draining") == drains, name

    @invariant()
    def one_body_at_a_time(self) -> None:
        for name, model in self.models.items():
            assert sum(not visit.over for visit in VISITS[name]) == model.visiting, name

    @invariant()
    def the_rows_are_true_together(self) -> None:
        if self.durable and self.models:
            assert violations_of_file(self.folder / "flows.db") == []


class MemoryMachine(Machine):
    """The same over a store in memory, which ends with its process: nothing is restarted, nothing counts as
    lost.
    """

    durable = False


def check(machine: type[Machine], examples: int, steps: int) -> None:
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


MACHINES = pytest.mark.parametrize("machine", [Machine, MemoryMachine], ids=["sqlite", "memory"])


@MACHINES
def test_the_engine_does_what_the_model_says(machine: type[Machine]) -> None:
    """spec engine, 3 and 4, in whatever order."""
    check(machine, 20, 25)


@pytest.mark.slow
@MACHINES
def test_the_engine_does_what_the_model_says_for_long(machine: type[Machine]) -> None:
    """spec engine, 3 and 4: longer and more."""
    check(machine, 1_000, 60)
