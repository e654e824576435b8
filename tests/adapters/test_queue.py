"""Does every writer get its turn, once, and is no turn ever lost?"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce.clock import ManualClock, SystemClock
from quiesce.errors import StoreBusy, StoreError
from quiesce_adapters.sqlite.queue import FairQueue
from quiesce_adapters.sqlite.turn import Turn

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
LONG = 30.0  # seconds; more than anything here takes
SHORT = 0.05

HEAD = """
import fcntl, os, sys
from pathlib import Path
import anyio
from quiesce.clock import SystemClock
from quiesce.errors import StoreBusy, StoreMismatch
from quiesce_adapters.sqlite.queue import FairQueue

folder = Path(sys.argv[1])
queue = FairQueue.open(folder, SystemClock())
def say(line):
    print(line, flush=True)
"""

INSIDE = (
    HEAD
    + """
assert queue.try_enter()
say("inside")
sys.stdin.readline()
queue.leave()
say("left")
sys.stdin.readline()
"""
)

WAIT = (
    HEAD
    + """
async def main():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        while somebody_can_pass():
            await anyio.lowlevel.checkpoint()
        say("waits")

async def write():
    await queue.enter(60)
    say("inside")
    sys.stdin.readline()
    queue.leave()

waiting = os.open(folder / "waiting", os.O_RDWR)
def somebody_can_pass():
    try:
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(waiting, fcntl.LOCK_UN)
    return True
anyio.run(main, backend=sys.argv[2])
"""
)

GIVE_UP_AND_END = (
    HEAD
    + """
async def main():
    try:
        await queue.enter(0.05)
    except StoreBusy as error:
        say(error)
anyio.run(main, backend=sys.argv[2])
"""
)

BUSY_LOOP = (
    HEAD
    + """
async def main():
    async with anyio.create_task_group() as tasks:
        async def write():
            await queue.enter(60)
            say("inside")
            queue.leave()
        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        say("computes")
        sys.stdin.readline()  # the event loop does nothing else in the meantime
anyio.run(main, backend=sys.argv[2])
"""
)

COUNT = (
    HEAD
    + """
async def main():
    for _ in range(int(sys.argv[3])):
        await queue.enter(60)
        number = int((folder / "number").read_text())
        (folder / "number").write_text(str(number + 1))
        queue.leave()
    say("done")
anyio.run(main, backend=sys.argv[2])
"""
)

HOT = (
    HEAD
    + """
async def main():
    say("hot")
    while True:
        await queue.enter(60)
        queue.leave()
anyio.run(main, backend=sys.argv[2])
"""
)

FORK = (
    HEAD
    + """
assert queue.try_enter()
ready, tell = os.pipe()
if os.fork() == 0:
    for use in (queue.try_enter, queue.leave, queue.close):
        try:
            use()
        except StoreMismatch as refusal:
            say(refusal)
    own = FairQueue.open(folder, SystemClock())
    say(own.try_enter())
    os.read(0, 1)
    os._exit(0)
os.read(0, 1)
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "flows.db-quiesce"


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., FairQueue]]:
    """Opens connections to the queue, and closes all."""
    every: list[FairQueue] = []

    def open_one() -> FairQueue:
        every.append(FairQueue.open(folder, CLOCK))
        return every[-1]

    yield open_one
    for queue in every:
        queue.close()


async def test_a_free_queue_is_entered_at_once_by_one(opened: Any) -> None:
    first, second = opened(), opened()
    assert first.try_enter()
    assert not second.try_enter()
    first.leave()
    assert second.try_enter()
    second.leave()
    await first.enter(LONG)
    assert not second.try_enter()


async def test_one_connection_enters_once(opened: Any) -> None:
    """For the kernel, a second lock through the same open file is no conflict."""
    queue = opened()
    assert queue.try_enter()
    assert not queue.try_enter()
    with pytest.raises(StoreBusy):
        await queue.enter(SHORT)
    queue.leave()
    assert queue.try_enter()


async def test_who_waits_enters_when_the_other_process_leaves(opened: Any, folder: Path, start: Any) -> None:
    holder = start(INSIDE, folder)
    assert holder.hear() == "inside"
    queue = opened()
    entered = anyio.Event()

    async def write() -> None:
        await queue.enter(LONG)
        entered.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()  # and so this event loop is free
        assert not entered.is_set()
        holder.say()
    assert entered.is_set()
    assert holder.hear() == "left"


def test_the_queue_of_a_killed_process_is_free(opened: Any, folder: Path, start: Any) -> None:
    holder = start(INSIDE, folder)
    holder.hear()
    holder.kill()
    assert opened().try_enter()


async def test_who_waits_too_long_is_told_who_is_inside(opened: Any, folder: Path, start: Any) -> None:
    holder = start(INSIDE, folder)
    holder.hear()
    who = f"process {holder.pid}" if sys.platform == "linux" else "another writer"
    with pytest.raises(StoreBusy, match=rf"within 0.05 s, {who} has .*queue"):
        await opened().enter(SHORT)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/locks")
def test_the_holder_can_be_asked_for(opened: Any, folder: Path, start: Any) -> None:
    queue = opened()
    assert queue.holder() is None
    holder = start(INSIDE, folder)
    holder.hear()
    waiter = start(WAIT, folder, "asyncio")
    waiter.hear()
    assert queue.holder() == holder.pid


async def test_the_turn_of_one_whose_time_was_up_is_not_lost(opened: Any, folder: Path, start: Any) -> None:
    """Its thread still stands in the kernel's queue, and gets the lock when nobody wants it any more."""
    holder = start(INSIDE, folder)
    holder.hear()
    queue, other = opened(), opened()
    with pytest.raises(StoreBusy):
        await queue.enter(SHORT)
    holder.say()
    await other.enter(LONG)
    other.leave()
    await queue.enter(LONG)
    queue.leave()


async def test_the_turn_of_one_that_was_cancelled_is_not_lost(opened: Any, folder: Path, start: Any) -> None:
    holder = start(INSIDE, folder)
    holder.hear()
    queue, other = opened(), opened()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.enter, LONG)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    holder.say()
    await other.enter(LONG)
    other.leave()
    await queue.enter(LONG)


async def test_an_offer_that_meets_a_cancelled_task_is_handed_back(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has the lock already and the task has not run yet: every order of the two is met."""
    monkeypatch.setattr("quiesce_adapters.sqlite.queue._PATIENCE", LONG)  # it would end the offer too
    queue, other = opened(), opened()
    for _ in range(200):
        assert other.try_enter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(queue.enter, LONG)
            await anyio.wait_all_tasks_blocked()
            other.leave()
            tasks.cancel_scope.cancel()
        await queue.enter(LONG)  # whether or not it was inside when it was cancelled
        queue.leave()
        await other.enter(LONG)
        other.leave()


async def test_a_task_that_comes_later_takes_the_place_of_one_that_gave_up(
    opened: Any, folder: Path, start: Any
) -> None:
    holder = start(INSIDE, folder)
    holder.hear()
    queue = opened()
    for _ in range(3):
        with pytest.raises(StoreBusy):
            await queue.enter(SHORT)
    assert not queue.try_enter()
    holder.say()
    await queue.enter(LONG)
    assert not opened().try_enter()


async def test_a_turn_is_not_shared_with_the_thread_that_still_waits(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is inside, nobody is in line, but the thread is about to get the lock: it would end it."""
    on_its_way, may_go = threading.Event(), threading.Event()

    def wait(turn: Turn, wait: Callable[[Turn], None] = Turn.wait) -> None:
        on_its_way.set()
        may_go.wait()
        wait(turn)

    monkeypatch.setattr(Turn, "wait", wait)
    queue, other = opened(), opened()
    assert other.try_enter()
    with pytest.raises(StoreBusy):
        await queue.enter(SHORT)
    on_its_way.wait()
    other.leave()
    assert not queue.try_enter()
    may_go.set()
    await queue.enter(LONG)
    assert not other.try_enter()


async def test_tasks_of_one_connection_enter_in_order(opened: Any) -> None:
    queue, other = opened(), opened()
    assert other.try_enter()
    order: list[int] = []

    async def write(number: int) -> None:
        await queue.enter(LONG)
        order.append(number)
        await anyio.lowlevel.checkpoint()
        assert not other.try_enter()
        queue.leave()

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(write, number)
            await anyio.wait_all_tasks_blocked()
        other.leave()
    assert order == list(range(10))


def test_writers_of_several_processes_are_inside_one_at_a_time(
    opened: Any, folder: Path, start: Any, anyio_backend: str
) -> None:
    opened()  # makes the folder
    (folder / "number").write_text("0")
    writers = [start(COUNT, folder, anyio_backend, 100) for _ in range(4)]
    assert [writer.hear() for writer in writers] == ["done"] * 4
    assert (folder / "number").read_text() == "400"


async def test_hot_writers_do_not_starve_another(
    opened: Any, folder: Path, start: Any, anyio_backend: str
) -> None:
    """They come back as soon as they have left, which is what SQLite's own lock cannot stand."""
    for writer in [start(HOT, folder, anyio_backend) for _ in range(3)]:
        assert writer.hear() == "hot"
    queue = opened()
    for _ in range(20):
        await queue.enter(LONG)
        queue.leave()


def test_a_connection_passes_those_who_wait_for_one_burst_only(folder: Path) -> None:
    clock = ManualClock()
    served, fresh = Turn(folder, clock), Turn(folder, clock)
    assert served.try_take()
    served.end()
    somebody_waits = os.open(folder / "waiting", os.O_RDWR)
    fcntl.flock(somebody_waits, fcntl.LOCK_SH)

    assert not fresh.try_take()
    assert served.try_take()
    served.end()
    clock.advance(0.0019)
    assert served.try_take()
    served.end()
    clock.advance(0.0002)
    assert not served.try_take()

    os.close(somebody_waits)
    assert fresh.try_take()
    served.close()
    fresh.close()


async def test_a_stopped_waiter_stops_nobody(
    opened: Any, folder: Path, start: Any, anyio_backend: str
) -> None:
    holder = start(INSIDE, folder)
    holder.hear()
    waiter = start(WAIT, folder, anyio_backend)
    assert waiter.hear() == "waits"
    waiter.stop()
    holder.say()

    queue, other = opened(), opened()
    for _ in range(3):
        await queue.enter(LONG)
        queue.leave()
        await other.enter(LONG)
        other.leave()
    waiter.go_on()
    assert waiter.hear() == "inside"
    assert not queue.try_enter()
    waiter.say()
    await queue.enter(LONG)


async def test_a_busy_event_loop_gives_up_its_turn_and_gets_another(
    opened: Any, folder: Path, start: Any, anyio_backend: str
) -> None:
    queue = opened()
    assert queue.try_enter()
    busy = start(BUSY_LOOP, folder, anyio_backend)
    assert busy.hear() == "computes"
    queue.leave()
    for _ in range(3):
        await queue.enter(LONG)
        queue.leave()
    busy.say()
    assert busy.hear() == "inside"
    assert busy.ended() == 0
    assert queue.try_enter()


def test_a_stuck_queue_does_not_hold_up_the_end_of_a_process(
    folder: Path, start: Any, anyio_backend: str
) -> None:
    holder = start(INSIDE, folder)
    holder.hear()
    process = start(GIVE_UP_AND_END, folder, anyio_backend)
    assert "it was not this writer's turn within 0.05 s" in process.hear()
    assert process.ended() == 0


async def test_closing_refuses_who_waits_and_frees_the_turn(opened: Any) -> None:
    inside, queue, other = opened(), opened(), opened()
    assert inside.try_enter()
    refusals: list[str] = []

    async def write() -> None:
        try:
            await queue.enter(LONG)
        except StoreError as error:
            refusals.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        queue.close()
        queue.close()
    assert len(refusals) == 2
    assert all("was closed" in refusal for refusal in refusals)

    inside.close()
    await other.enter(LONG)
    with pytest.raises(StoreError, match="was closed"):
        queue.try_enter()


def test_leaving_twice_does_not_end_the_turn_of_another(opened: Any) -> None:
    first, second = opened(), opened()
    assert first.try_enter()
    first.leave()
    assert second.try_enter()
    first.leave()
    assert not first.try_enter()


def test_a_forked_child_is_refused_and_leaves_its_parent_inside(
    opened: Any, folder: Path, start: Any
) -> None:
    parent = start(FORK, folder)
    assert all("opened before a fork" in parent.hear() for _ in range(3))
    assert parent.hear() == "False"
    assert not opened().try_enter()


def test_a_forked_child_does_not_keep_the_turn_of_a_dead_parent(
    opened: Any, folder: Path, start: Any
) -> None:
    parent = start(FORK, folder)
    for _ in range(4):
        parent.hear()
    parent.kill()
    assert opened().try_enter()
