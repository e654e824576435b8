"""Does whoever waits hear every ring, and does whoever rings know whether somebody is there?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce.clock import SystemClock
from quiesce.errors import StoreError
from quiesce_adapters.sqlite.doorbell import Doorbell
from quiesce_adapters.sqlite.liveness import Liveness

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
SHORT = 0.05  # seconds

HEAD = """
import os, sys
from pathlib import Path
import anyio
from quiesce.clock import SystemClock
from quiesce.errors import StoreMismatch
from quiesce_adapters.sqlite.doorbell import Doorbell

folder, own = Path(sys.argv[1]), int(sys.argv[2])
bell = Doorbell.open(folder, own, SystemClock())
def say(line):
    print(line, flush=True)
"""

LISTEN = (
    HEAD
    + """
async def main():
    say("listens")
    while True:
        await bell.wait()
        say("rang")
anyio.run(main, backend=sys.argv[3])
"""
)

RING = (
    HEAD
    + """
say("ready")
for line in sys.stdin:  # "7" rings 7, "all" rings all others
    say(bell.ring_all(except_={own}) if line == "all\\n" else bell.ring(int(line)))
"""
)

ANSWER = (
    HEAD
    + """
async def main():
    say("ready")
    for _ in range(int(sys.argv[5])):
        await bell.wait()
        assert bell.ring(int(sys.argv[4]))
    say("done")
anyio.run(main, backend=sys.argv[3])
"""
)

FORK = (
    HEAD
    + """
say("ready")
if os.fork() == 0:
    for use in (lambda: bell.ring(own), bell.ring_all, bell.bells, lambda: bell.sweep(lambda n: True),
                lambda: anyio.run(bell.wait), bell.close):
        try:
            use()
        except StoreMismatch as refusal:
            say(refusal)
    os.read(0, 1)
    os._exit(0)
os.read(0, 1)
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "flows.db-quiesce"


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., Doorbell]]:
    """Hangs up bells, and takes all away."""
    every: list[Doorbell] = []

    def open_one(incarnation: int | None) -> Doorbell:
        every.append(Doorbell.open(folder, incarnation, CLOCK))
        return every[-1]

    yield open_one
    for bell in every:
        bell.close()


async def silent(bell: Doorbell) -> bool:
    """Whether nothing rings for a moment."""
    with anyio.move_on_after(SHORT):
        await bell.wait()
        return False
    return True


async def test_a_ring_wakes_who_waits(opened: Any) -> None:
    bell, other = opened(1), opened(2)
    woken = anyio.Event()

    async def listen() -> None:
        await bell.wait()
        woken.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        assert not woken.is_set()
        assert other.ring(1)
    assert woken.is_set()


async def test_processes_wake_one_another(folder: Path, start: Any, anyio_backend: str) -> None:
    listeners = [start(LISTEN, folder, number, anyio_backend) for number in (1, 2)]
    assert [listener.hear() for listener in listeners] == ["listens", "listens"]
    ringer = start(RING, folder, 3)
    assert ringer.hear() == "ready"

    ringer.say("1")
    assert ringer.hear() == "True"
    assert listeners[0].hear() == "rang"
    ringer.say("all")
    assert ringer.hear() == "2"
    assert [listener.hear() for listener in listeners] == ["rang", "rang"]


async def test_no_ring_is_lost_between_two_waits(
    opened: Any, folder: Path, start: Any, anyio_backend: str
) -> None:
    """Two processes that only ever wait for one another would stop at the first one that is."""
    bell = opened(1)
    other = start(ANSWER, folder, 2, anyio_backend, 1, 500)
    assert other.hear() == "ready"
    with anyio.fail_after(30):
        for _ in range(500):
            assert bell.ring(2)
            await bell.wait()
    assert other.hear() == "done"


async def test_a_ring_before_the_wait_is_kept_and_many_are_one(opened: Any) -> None:
    bell, other = opened(1), opened(None)
    for _ in range(10):
        assert other.ring(1)
    await bell.wait()
    assert await silent(bell)


async def test_a_bell_is_silent_after_its_ringer_has_gone(opened: Any, folder: Path, start: Any) -> None:
    """A pipe that the last writer has closed can be read for ever, unless its owner writes too."""
    bell = opened(1)
    ringer = start(RING, folder, 2)
    ringer.hear()
    ringer.say("1")
    assert ringer.hear() == "True"
    ringer.kill()
    await bell.wait()
    assert await silent(bell)


async def test_a_wait_that_was_cancelled_loses_nothing(opened: Any) -> None:
    bell = opened(1)
    for _ in range(50):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bell.wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert bell.ring(1)
        with anyio.fail_after(30):
            await bell.wait()


async def test_who_only_rings_cannot_wait(opened: Any) -> None:
    bell = opened(None)
    assert bell.bells() == []
    assert bell.ring_all() == 0
    with pytest.raises(StoreError, match="no doorbell of its own"):
        await bell.wait()


async def test_a_full_bell_was_rung_and_does_not_block(opened: Any, folder: Path) -> None:
    bell, other = opened(1), opened(2)
    fd = os.open(folder / "bells" / "1", os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, bytes(1 << 22))  # as much as fits
    with pytest.raises(BlockingIOError):
        os.write(fd, bytes(1))
    os.close(fd)
    assert other.ring(1)
    await bell.wait()
    assert other.ring(1)


def test_nobody_hears_a_bell_that_is_not_there(opened: Any) -> None:
    assert not opened(1).ring(2)


def test_nobody_hears_the_bell_of_a_killed_process(opened: Any, folder: Path, start: Any) -> None:
    process = start(RING, folder, 2)
    process.hear()
    bell = opened(1)
    assert bell.ring(2)
    process.kill()
    assert not bell.ring(2)
    assert bell.bells() == [1, 2]


def test_a_stopped_process_can_be_rung(opened: Any, folder: Path, start: Any) -> None:
    process = start(LISTEN, folder, 2, "asyncio")
    process.hear()
    process.stop()
    assert opened(1).ring(2)
    process.go_on()
    assert process.hear() == "rang"


def test_closing_takes_the_bell_away(opened: Any) -> None:
    bell, other = opened(1), opened(2)
    before = len(os.listdir("/dev/fd"))
    bell.close()
    bell.close()
    assert len(os.listdir("/dev/fd")) == before - 2
    assert other.bells() == [2]
    assert not other.ring(1)
    assert bell.ring(2)


def test_all_are_rung_but_those_excepted_and_those_who_are_gone(
    opened: Any, folder: Path, start: Any
) -> None:
    bell = opened(1)
    opened(2)
    opened(10)
    process = start(RING, folder, 3)
    process.hear()
    process.kill()
    assert bell.bells() == [1, 2, 3, 10]
    assert bell.ring_all() == 3
    assert bell.ring_all(except_={1}) == 2
    assert bell.ring_all(except_=[1, 2, 10]) == 0


def test_sweeping_takes_away_the_bells_of_the_dead_only(opened: Any, folder: Path, start: Any) -> None:
    life = Liveness.open(folder, CLOCK)
    bell = opened(1)
    process = start(RING, folder, 2)
    process.hear()
    process.kill()
    opened(3)
    life.hold(3)

    assert bell.sweep(lambda number: not life.alive(number)) == [2]
    assert bell.bells() == [1, 3]
    assert bell.sweep(lambda number: not life.alive(number)) == []
    life.close()


def test_a_bell_of_a_former_life_is_replaced(opened: Any, folder: Path, start: Any) -> None:
    process = start(RING, folder, 1)
    process.hear()
    process.kill()
    bell = opened(1)
    assert opened(2).ring(1)
    assert bell.bells() == [1, 2]


def test_closing_leaves_a_bell_that_replaced_its_own(opened: Any) -> None:
    old, new = opened(1), opened(1)
    old.close()
    assert new.bells() == [1]
    assert opened(2).ring(1)


def test_other_files_in_the_folder_are_left_alone(opened: Any, folder: Path) -> None:
    bell = opened(1)
    (folder / "bells" / "7").write_text("mine")
    (folder / "bells" / "notes").write_text("mine")
    (folder / "bells" / "8").symlink_to(folder / "bells" / "1")
    assert not bell.ring(7)
    assert not bell.ring(8)
    assert (folder / "bells" / "7").read_text() == "mine"
    assert bell.bells() == [1, 7, 8]


def test_a_forked_child_is_refused_and_does_not_answer_for_a_dead_parent(
    opened: Any, folder: Path, start: Any
) -> None:
    parent = start(FORK, folder, 2)
    assert parent.hear() == "ready"
    assert all("opened before a fork" in parent.hear() for _ in range(6))
    bell = opened(1)
    assert bell.ring(2)
    parent.kill()
    assert not bell.ring(2)
