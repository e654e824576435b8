"""Is an action's approval bound to what runs, spent once, and told to everybody who asks later?

Over both stores; on disk each answer is given in a new runtime. Source: spec agent, "Actions that need
approval"; cases agent S37 to S39, B7.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from quiesce import Completed, Hold, Paused, Run, Runtime, action, agent, current_step, errors, gather, step
from quiesce.clock import ManualClock

pytestmark = pytest.mark.anyio


class Bank:
    """What was paid, and agents that pay."""

    def __init__(self) -> None:
        self.paid: list[tuple[int, str]] = []
        self.fails = False

        @action(approval=lambda amount, to: amount > 10, deadline=60)
        def pay(amount: int, to: str = "ann") -> str:
            self.paid.append((amount, current_step().key))
            if self.fails:
                raise ConnectionError("the line is down")
            return f"paid {amount} to {to}"

        @step
        async def look_up(name: str) -> str:
            return name

        @agent
        def teller(amount: int) -> str:
            try:
                return pay(amount, to="bob")
            except (errors.Rejected, errors.Expired) as error:
                return f"{type(error).__name__}: {error}"

        @agent
        def strict(amount: int) -> str:
            return pay(amount)

        @agent
        def batch() -> list[str]:
            return gather(pay.call(100), look_up("c"), pay.call(5), pay.call(200))

        self.pay = pay
        self.teller, self.strict, self.batch = teller, strict, batch
        self.flows = [teller, strict, batch]


class Desk:
    """One runtime after another over the same file; one for all in memory."""

    def __init__(self, store: Path | None, bank: Bank) -> None:
        self.store, self.bank, self.clock = store, bank, ManualClock()
        self._open = AsyncExitStack()
        self._now: Runtime | None = None

    async def next(self) -> Runtime:
        if self._now is None or self.store is not None:
            await self._open.aclose()
            self._now = await self._open.enter_async_context(
                Runtime(self.store, flows=self.bank.flows, clock=self.clock)
            )
        return self._now

    async def close(self) -> None:
        await self._open.aclose()


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture(params=["memory", "sqlite"])
async def desk(request: pytest.FixtureRequest, bank: Bank) -> AsyncIterator[Desk]:
    desk = Desk(None if request.param == "memory" else request.getfixturevalue("db"), bank)
    yield desk
    await desk.close()


async def settled(rt: Runtime, run_id: str = "r") -> Any:
    with anyio.fail_after(20):
        return await Run(rt, run_id).settled()


async def asked(rt: Runtime) -> list[Hold]:
    outcome = await settled(rt)
    assert isinstance(outcome, Paused)
    return list(outcome.holds)


def by_amount(holds: list[Hold]) -> list[Hold]:
    """Tasks begin in any order; each hold says what it asks."""
    return sorted(holds, key=lambda hold: str(hold.payload["arguments"]["amount"]))


async def approvals(rt: Runtime) -> list[dict[str, Any]]:
    found = []
    with anyio.move_on_after(0.05):
        async for event in rt.events("r"):
            if event.kind == "approved":
                found.append({"actor": event.actor, **event.data})
    return found


async def test_the_exact_arguments_are_shown_and_run_once_approved(desk: Desk, bank: Bank) -> None:
    """S37, S38: no approval, no effect; approved, one effect with the arguments that were shown."""
    rt = await desk.next()
    await rt.start(bank.teller, 50, run_id="r")
    (hold,) = await asked(rt)
    assert hold.payload["action"] == bank.pay.name
    assert hold.payload["arguments"] == {"amount": 50, "to": "bob"}
    assert bank.paid == []
    rt = await desk.next()
    await rt.answer(hold.id, {"approve": True}, actor="alice")
    assert await settled(rt) == Completed("paid 50 to bob")
    assert [amount for amount, _ in bank.paid] == [50]
    (approved,) = await approvals(rt)
    assert approved["actor"] == "alice"
    assert approved["arguments"] == {"amount": 50, "to": "bob"}
    assert approved["digest"] == hold.payload["digest"]
    assert approved["edited"] is False


async def test_an_approval_may_change_the_arguments_and_the_history_says_so(desk: Desk, bank: Bank) -> None:
    """spec agent, actions: what runs is what was approved; failures-agent-frameworks 33."""
    rt = await desk.next()
    await rt.start(bank.teller, 50, run_id="r")
    (hold,) = await asked(rt)
    rt = await desk.next()
    await rt.answer(hold.id, {"approve": True, "arguments": {"amount": 20}}, actor="alice")
    assert await settled(rt) == Completed("paid 20 to bob")
    (approved,) = await approvals(rt)
    assert approved["arguments"] == {"amount": 20, "to": "bob"}
    assert approved["edited"] is True
    assert approved["digest"] != hold.payload["digest"]
    assert [amount for amount, _ in bank.paid] == [20]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "yes",
        {},
        {"approve": False},
        {"approve": "true"},
        {"approve": True, "arguments": {"amount": "a lot"}},
        {"approve": True, "arguments": {"sum": 3}},
    ],
)
async def test_only_an_explicit_yes_that_fits_runs(desk: Desk, bank: Bank, answer: Any) -> None:
    """B9; failures-agent-frameworks 23: anything else is refused, the question stays, nothing is lost."""
    rt = await desk.next()
    await rt.start(bank.teller, 50, run_id="r")
    (hold,) = await asked(rt)
    with pytest.raises(errors.AnswerRejected):
        await rt.answer(hold.id, answer)
    with pytest.raises(errors.AnswerRequired):
        await rt.resume("r")
    assert [item.id for item in await asked(rt)] == [hold.id]
    assert bank.paid == []
    await rt.answer(hold.id, {"approve": True})
    assert await settled(rt) == Completed("paid 50 to bob")


async def test_a_rejection_is_raised_in_the_body(desk: Desk, bank: Bank) -> None:
    """spec agent, actions: `reject` raises Rejected with the message, and nothing runs."""
    rt = await desk.next()
    await rt.start(bank.teller, 50, run_id="r")
    (hold,) = await asked(rt)
    rt = await desk.next()
    await rt.reject(hold.id, "too much", actor="alice")
    assert await settled(rt) == Completed("Rejected: too much")
    assert bank.paid == []


async def test_an_approval_that_does_not_come_expires(desk: Desk, bank: Bank) -> None:
    """spec agent, actions: expired is not rejected: it raises Expired."""
    rt = await desk.next()
    await rt.start(bank.teller, 50, run_id="r")
    (hold,) = await asked(rt)
    desk.clock.advance(61)
    rt = await desk.next()
    with anyio.fail_after(20):
        value = await Run(rt, "r").result()
    assert value.startswith("Expired: nobody answered")
    assert bank.paid == []
    with pytest.raises(errors.Expired):
        await rt.answer(hold.id, {"approve": True})


async def test_a_predicate_decides_which_calls_ask(desk: Desk, bank: Bank) -> None:
    """spec agent, actions: `approval=` may be a predicate on the arguments."""
    rt = await desk.next()
    assert await rt.run(bank.teller, 10) == Completed("paid 10 to bob")
    assert await approvals(rt) == []


async def test_an_approval_is_spent_once(desk: Desk, bank: Bank) -> None:
    """S39; failures-agent-frameworks 13: the second answer is refused, a second call asks anew."""
    rt = await desk.next()
    await rt.start(bank.teller, 50, run_id="r")
    (hold,) = await asked(rt)
    await rt.answer(hold.id, {"approve": True})
    with pytest.raises(errors.AlreadyAnswered):
        await rt.answer(hold.id, {"approve": True})
    await settled(rt)
    await rt.start(bank.teller, 50, run_id="again")
    assert isinstance(await settled(rt, "again"), Paused)
    assert len(bank.paid) == 1


async def test_the_questions_of_a_batch_are_all_there_and_the_rest_is_done(desk: Desk, bank: Bank) -> None:
    """failures-agent-frameworks 1, 38, 39: only what needs asking asks; each is decided alone, once."""
    rt = await desk.next()
    await rt.start(bank.batch, run_id="r")
    holds = by_amount(await asked(rt))
    assert [hold.payload["arguments"]["amount"] for hold in holds] == [100, 200]
    assert [amount for amount, _ in bank.paid] == [5]
    rt = await desk.next()
    await rt.answer(holds[1].id, {"approve": True})
    left = await asked(rt)
    while len(left) > 1:
        left = await asked(rt)
    assert [hold.id for hold in left] == [holds[0].id]
    assert sorted(amount for amount, _ in bank.paid) == [5, 200]
    rt = await desk.next()
    await rt.answer(holds[0].id, {"approve": True})
    assert await settled(rt) == Completed(["paid 100 to ann", "c", "paid 5 to ann", "paid 200 to ann"])
    assert sorted(amount for amount, _ in bank.paid) == [5, 100, 200]


async def test_a_rejection_in_a_batch_leaves_the_others_alone(desk: Desk, bank: Bank) -> None:
    """failures-agent-frameworks 34, 38: decided per call; the others end as they would have."""
    rt = await desk.next()
    await rt.start(bank.batch, run_id="r")
    holds = by_amount(await asked(rt))
    await rt.reject(holds[0].id, "no")
    left = await asked(rt)
    assert [hold.id for hold in left] == [holds[1].id]
    await rt.answer(holds[1].id, {"approve": True})
    with pytest.raises(errors.Rejected, match="no"):
        await settled(rt)
    assert sorted(amount for amount, _ in bank.paid) == [5, 200]


def states(db: Path) -> list[str]:
    connection = sqlite3.connect(db)
    try:
        return [state for (state,) in connection.execute("SELECT state FROM journal WHERE kind = 'action'")]
    finally:
        connection.close()


async def test_an_error_does_not_lose_the_approval(db: Path, bank: Bank) -> None:
    """cases agent, header: a retry commits again without asking again, with the same key."""
    async with Runtime(db, flows=bank.flows) as rt:
        await rt.start(bank.strict, 50, run_id="r")
        (hold,) = await asked(rt)
        assert states(db) == ["waiting"]
        bank.fails = True
        await rt.answer(hold.id, {"approve": True})
        with pytest.raises(ConnectionError):
            await settled(rt)
    bank.fails = False
    async with Runtime(db, flows=bank.flows) as rt:
        await rt.retry("r")
        assert await settled(rt) == Completed("paid 50 to ann")
    assert states(db) == ["committed"]
    assert [amount for amount, _ in bank.paid] == [50, 50]
    assert len({key for _, key in bank.paid}) == 1


async def test_a_rejected_action_that_failed_the_run_asks_again_after_a_retry(db: Path, bank: Bank) -> None:
    """spec engine, 4 (retry): the run goes on from the point that failed, which is the question."""
    async with Runtime(db, flows=bank.flows) as rt:
        await rt.start(bank.strict, 50, run_id="r")
        (hold,) = await asked(rt)
        await rt.reject(hold.id, "not yet")
        with pytest.raises(errors.Rejected):
            await settled(rt)
        await rt.retry("r")
        (again,) = await asked(rt)
        assert again.id != hold.id
        await rt.answer(again.id, {"approve": True})
        assert await settled(rt) == Completed("paid 50 to ann")


@pytest.mark.parametrize("take", [None, "takeover"])
async def test_a_second_commit_while_one_is_in_flight_is_refused(db: Path, take: str | None) -> None:
    """B7: `committing` is set before the effect, by compare-and-set; a takeover in the middle is unknown."""
    going, go, calls = anyio.Event(), anyio.Event(), []

    def verify(amount: int) -> str | None:
        return "it was paid"

    @action(verify=verify)
    async def pay(amount: int) -> str:
        calls.append(amount)
        going.set()
        await go.wait()
        return "paid here"

    @agent
    async def teller(amount: int) -> str:
        return await pay(amount)

    async with Runtime(db, flows=[teller]) as first:
        await first.start(teller, 5, run_id="r")
        (hold,) = await asked(first)
        await first.answer(hold.id, {"approve": True})
        with anyio.fail_after(20):
            await going.wait()
        assert states(db) == ["committing"]
        async with Runtime(db, flows=[teller]) as second:
            if take is None:
                with pytest.raises(errors.NotResumable):
                    await second.resume("r")
                go.set()
                assert await settled(first) == Completed("paid here")
            else:
                await second.takeover("r")
                assert await settled(second) == Completed("it was paid")
                go.set()
    assert states(db) == ["committed"]
    assert calls == [5]


async def test_a_moved_state_is_compared_before_the_effect(db: Path, bank: Bank) -> None:
    """B7: whoever finds the entry in another state than it thinks does not commit."""
    async with Runtime(db, flows=bank.flows) as rt:
        await rt.start(bank.strict, 50, run_id="r")
        await asked(rt)
        (entry,) = rt.backend.host.read(lambda tx: tx.journal("r"))
        entry.state = "committing"

        def commit(was: str) -> Callable[[Any], None]:
            return lambda tx: tx.put_entry("r", entry, was=was)

        with pytest.raises(errors.StaleLease, match="is not approved any more"):
            await rt.backend.host.store.write(commit("approved"))
    assert states(db) == ["waiting"]


async def test_a_persons_time_counts_for_no_timeout(desk: Desk, bank: Bank) -> None:
    """spec engine, 4: approval time never counts against a step's time-out."""

    @action(timeout=1)
    def slow(amount: int) -> int:
        return amount

    @agent
    def waits() -> int:
        return slow(1)

    bank.flows.append(waits)
    rt = await desk.next()
    await rt.start(waits, run_id="r")
    (hold,) = await asked(rt)
    desk.clock.advance(3600)
    await rt.answer(hold.id, {"approve": True})
    assert await settled(rt) == Completed(1)


async def test_arguments_that_nobody_could_see_are_refused_at_the_call(desk: Desk) -> None:
    """issue 4, bad input: what cannot be shown cannot be approved; nothing is asked."""

    @action
    def uses(thing: object) -> None:
        raise AssertionError("it must not run")

    @agent
    def body() -> str:
        with pytest.raises(errors.NotSerializable, match=r"argument 'thing' of action 'uses'"):
            uses(object())
        return "went on"

    desk.bank.flows.append(body)
    rt = await desk.next()
    assert await rt.run(body) == Completed("went on")


class Decision(BaseModel):
    amount: int
    note: str | None = None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (Decision(amount=7), {"amount": 7}),
        (Decision(amount=7, note=None), {"amount": 7, "note": None}),
        (Decision.model_validate_json('{"amount": 7}'), {"amount": 7}),
    ],
)
async def test_a_model_is_an_argument_and_comes_back_with_what_was_set(
    desk: Desk, given: Decision, shown: Any
) -> None:
    """spec agent, actions: the exact arguments; which fields of a model nobody gave is a part of them."""
    ran: list[Decision] = []

    @action
    def decide(decision: Decision) -> int:
        ran.append(decision)
        return decision.amount

    @agent
    def body() -> int:
        return decide(given)

    desk.bank.flows.append(body)
    rt = await desk.next()
    await rt.start(body, run_id="r")
    (hold,) = await asked(rt)
    assert hold.payload["arguments"] == {"decision": shown}
    rt = await desk.next()
    await rt.answer(hold.id, {"approve": True})
    assert await settled(rt) == Completed(7)
    assert [(one, one.model_fields_set) for one in ran] == [(given, given.model_fields_set)]


async def test_an_approval_after_its_deadline_is_refused_although_nobody_acted(
    tmp_path: Path,
) -> None:
    """spec engine, 4 (on_deadline) and spec agent, actions: the deadline acts first, whoever notices it."""
    bank, clock = Bank(), ManualClock()
    async with Runtime(tmp_path / "flows.db", flows=bank.flows, clock=clock) as rt:
        await rt.start(bank.teller, 50, run_id="r")
        (hold,) = await asked(rt)
    clock.advance(61)
    async with Runtime(tmp_path / "flows.db", clock=clock, drive=False) as rt:  # which watches no deadlines
        with pytest.raises(errors.Expired, match="before this answer"):
            await rt.answer(hold.id, {"approve": True})
    async with Runtime(tmp_path / "flows.db", flows=bank.flows, clock=clock) as rt:
        assert (await (await rt.get("r")).result()).startswith("Expired: nobody answered")
    assert bank.paid == []
