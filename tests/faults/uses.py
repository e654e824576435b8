"""How the flows are used, by somebody who tries again when the store refuses.

Each use starts the run `r` and does to it what a user would, every verb with its own request id. A refused
verb is sent again with the same id. `go_on` is what another process does with what was left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import fault_flows as flows
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Ack, Completed, Outcome, Paused, Run, Runtime
from quiesce.clock import ManualClock, SystemClock
from quiesce.errors import QuiesceError, RunCancelled, RunFailed, RunNotFound, StoreError
from quiesce.states import RunState

__all__ = ["EXPECTED", "USES", "Stubborn", "go_on"]

T = TypeVar("T")


class Stubborn:
    """A user of one runtime."""

    def __init__(self, rt: Runtime, clock: SystemClock, heal: Callable[[], None] = lambda: None) -> None:
        self.rt = rt
        self.clock = clock
        self.heal = heal
        self.refused: list[StoreError] = []

    async def do(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Send a verb until the store takes it."""
        while True:
            try:
                done = await verb()
            except StoreError as error:
                self.refused.append(error)
                self.heal()
            else:
                assert not isinstance(done, Ack) or not done.replayed, "a refused verb had an effect"
                return done

    async def settle(self) -> Outcome:
        """Wait until the run settles, also where the store stopped its driver for a while."""
        while True:
            try:
                return await Run(self.rt, "r").settled()
            except StoreError as error:
                self.refused.append(error)
                self.heal()
                await self.bring_back()

    async def bring_back(self) -> None:
        """The runtime tries again by itself; let it, and let the time for that pass."""
        if isinstance(self.clock, ManualClock):
            self.clock.advance(0.01)
        await wait_all_tasks_blocked()

    async def until(self, event: anyio.Event) -> None:
        """Wait for a body, also where the store stopped the run's driver for a while."""
        while not event.is_set():
            async with anyio.create_task_group() as group:

                async def watch(scope: anyio.CancelScope) -> None:
                    try:
                        await Run(self.rt, "r").settled()
                    except StoreError as error:
                        self.refused.append(error)
                    scope.cancel()

                group.start_soon(watch, group.cancel_scope)
                await event.wait()
                group.cancel_scope.cancel()
            if not event.is_set():
                self.heal()
                await self.bring_back()

    async def start(self, flow: Any) -> None:
        await self.do(lambda: self.rt.start(flow, 1, run_id="r", request_id="start"))

    async def answer(self, path: str, value: Any) -> None:
        holds = await self.do(lambda: self.rt.holds("r"))
        (hold,) = [hold for hold in holds if hold.path == path]
        await self.do(lambda: self.rt.answer(hold.id, value, request_id=f"answer {path}"))


async def linear(s: Stubborn) -> Any:
    await s.start(flows.linear)
    assert isinstance(await s.settle(), Paused)
    await s.answer("review", True)
    return await s.settle()


async def work(s: Stubborn) -> Any:
    await s.start(flows.work)
    await s.until(flows.STAGE.came)
    await s.do(lambda: s.rt.pause("r", request_id="pause"))
    flows.STAGE.go.set()
    assert isinstance(await s.settle(), Paused)
    await s.do(lambda: s.rt.resume("r", request_id="resume"))
    return await s.settle()


async def two_gates(s: Stubborn) -> Any:
    await s.start(flows.two_gates)
    assert isinstance(await s.settle(), Paused)
    await s.answer("left#2", 10)
    assert isinstance(await s.settle(), Paused)
    await s.answer("right#3", 20)
    return await s.settle()


async def fan(s: Stubborn) -> Any:
    await s.start(flows.fan)
    return await s.settle()


async def flaky(s: Stubborn) -> Any:
    flows.STAGE.fails = True
    await s.start(flows.flaky)
    with pytest.raises(QuiesceError, match="it broke"):
        await s.settle()
    flows.STAGE.fails = False
    await s.do(lambda: s.rt.retry("r", request_id="retry"))
    return await s.settle()


async def cancel(s: Stubborn) -> Any:
    await s.start(flows.linear)
    assert isinstance(await s.settle(), Paused)
    await s.do(lambda: s.rt.cancel("r", request_id="cancel"))
    try:
        await s.settle()
    except RunCancelled:
        return "cancelled"


async def reset(s: Stubborn) -> Any:
    await s.start(flows.linear)
    assert isinstance(await s.settle(), Paused)
    await s.do(lambda: s.rt.reset("r", request_id="reset"))
    await s.do(lambda: s.rt.resume("r", request_id="resume"))
    assert isinstance(await s.settle(), Paused)
    await s.answer("review", True)
    return await s.settle()


async def outer(s: Stubborn) -> Any:
    await s.start(flows.outer)
    assert isinstance(await s.settle(), Paused)
    (hold,) = await s.do(lambda: s.rt.holds("r"))
    await s.answer(hold.path, True)
    return await s.settle()


async def timed(s: Stubborn) -> Any:
    await s.start(flows.timed)
    assert isinstance(await s.settle(), Paused)
    while isinstance(outcome := await s.settle(), Paused):
        assert isinstance(s.clock, ManualClock)
        s.clock.advance(5.0)
        await wait_all_tasks_blocked()
        s.heal()
    return outcome


async def crew(s: Stubborn) -> Any:
    await s.start(flows.crew)
    assert isinstance(await s.settle(), Paused)
    (hold,) = await s.do(lambda: s.rt.holds("r"))
    await s.answer(hold.path, True)
    await s.until(flows.STAGE.came)
    await s.do(lambda: s.rt.pause("r", request_id="pause"))
    flows.STAGE.go.set()
    assert isinstance(await s.settle(), Paused)
    await s.do(lambda: s.rt.resume("r", request_id="resume"))
    return await s.settle()


USES: dict[str, Callable[[Stubborn], Awaitable[Any]]] = {
    use.__name__: use for use in (linear, work, two_gates, fan, flaky, cancel, reset, outer, timed, crew)
}
EXPECTED: dict[str, Any] = {
    "linear": Completed(20),
    "work": Completed(30),
    "two_gates": Completed(131),
    "fan": Completed(14),
    "flaky": Completed(20),
    "cancel": "cancelled",
    "reset": Completed(20),
    "outer": Completed(31),
    "timed": Completed(-20),
    "crew": Completed(11),
}
ANSWERS = {"left#2": 10, "right#3": 20}


async def go_on(s: Stubborn, name: str) -> Any:
    """Bring the run to the end of the use, whatever was left of it; from the start if nothing was."""
    try:
        status = await s.rt.status("r")
    except RunNotFound:
        return await USES[name](s)
    flows.STAGE.go.set()
    if name == "cancel" and status.state is RunState.CANCELLED:
        return "cancelled"
    if status.state is RunState.CREATED:
        await s.rt.resume("r")
    while True:
        try:
            outcome = await s.settle()
        except RunFailed:
            await s.rt.retry("r")
            continue
        if not isinstance(outcome, Paused):
            return outcome
        if name == "cancel":
            await s.rt.cancel("r")
            return "cancelled"
        if name == "timed":
            assert isinstance(s.clock, ManualClock)
            s.clock.advance(5.0)
            await wait_all_tasks_blocked()
        elif any(lock.kind == "operator" for lock in (await s.rt.status("r")).locks):
            await s.rt.resume("r")
        else:
            for hold in outcome.holds:
                await s.rt.answer(hold.id, ANSWERS.get(hold.path, True))
