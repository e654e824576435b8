"""Is an incarnation alive exactly as long as its process is, whatever that process does?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quiesce.clock import SystemClock
from quiesce.errors import StoreError, StoreMismatch, StoreReadOnly
from quiesce_adapters.sqlite.liveness import Liveness

CLOCK = SystemClock()
PID = CLOCK.pid()

HOLD = """
import sys
from pathlib import Path
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.liveness import Liveness

liveness = Liveness.open(Path(sys.argv[1]), SystemClock())
for number in sys.argv[2:]:
    liveness.hold(int(number))
print("held", flush=True)
for line in sys.stdin:  # "7" asks who lives under 7
    print(liveness.holder(int(line)), flush=True)
"""

FORK = """
import os, sys
from pathlib import Path
from quiesce.clock import SystemClock
from quiesce.errors import StoreMismatch
from quiesce_adapters.sqlite.liveness import Liveness

folder = Path(sys.argv[1])
liveness = Liveness.open(folder, SystemClock())
liveness.hold(7)
ask, answer = os.pipe()
if os.fork() == 0:
    for use in (lambda: liveness.hold(8), lambda: liveness.release(7), lambda: liveness.holder(7),
                liveness.verify, liveness.close):
        try:
            use()
        except StoreMismatch as refusal:
            print(refusal, flush=True)
    own = Liveness.open(folder, SystemClock())
    own.hold(9)
    print("child sees", own.holder(7), flush=True)
    if sys.argv[2] == "leave":
        own.close()
        os._exit(0)
    os.close(answer)
    os.read(ask, 1)  # until the parent is dead
    print("child sees", own.holder(7), flush=True)
    os.read(0, 1)
    os._exit(0)
if sys.argv[2] == "leave":
    os.wait()
    print("gone", flush=True)
os.read(0, 1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "flows.db-quiesce"


@pytest.fixture
def opened(folder: Path) -> Iterator[Callable[..., Liveness]]:
    """Opens the folder as often as a test wants to, and closes all."""
    every: list[Liveness] = []

    def open_one(path: Path = folder) -> Liveness:
        every.append(Liveness.open(path, CLOCK))
        return every[-1]

    yield open_one
    for liveness in every:
        liveness.close()


def test_nobody_lives_under_a_number_that_nobody_holds(opened: Any) -> None:
    assert opened().holder(7) is None
    assert not opened().alive(7)


def test_others_see_the_pid_of_the_process_that_lives(opened: Any, folder: Path, start: Any) -> None:
    child = start(HOLD, folder, 7)
    assert child.hear() == "held"

    assert opened().holder(7) == child.pid
    assert opened().alive(7)
    assert not opened().alive(6)
    assert not opened().alive(8)


def test_a_process_sees_its_own_life_and_others_see_it_too(opened: Any, folder: Path, start: Any) -> None:
    """F_GETLK alone would say that nobody holds it."""
    opened().hold(7)
    child = start(HOLD, folder)
    child.hear()
    child.say("7")

    assert opened().holder(7) == PID
    assert child.hear() == str(PID)


def test_a_killed_process_is_dead_at_once(opened: Any, folder: Path, start: Any) -> None:
    child = start(HOLD, folder, 7, 8)
    child.hear()
    child.kill()

    assert not opened().alive(7)
    assert not opened().alive(8)


def test_a_stopped_process_lives(opened: Any, folder: Path, start: Any) -> None:
    child = start(HOLD, folder, 7)
    child.hear()
    child.stop()
    assert opened().holder(7) == child.pid

    child.go_on()
    child.say("7")
    assert child.hear() == str(child.pid)


def test_closing_one_of_two_keeps_the_life_of_the_other(opened: Any, folder: Path, start: Any) -> None:
    """POSIX: closing any descriptor of a file drops all locks of the process on it."""
    first = opened()
    before = len(os.listdir("/dev/fd"))
    second = opened()
    assert len(os.listdir("/dev/fd")) == before
    first.hold(7)
    second.hold(8)
    second.close()
    child = start(HOLD, folder)
    child.hear()

    child.say("7")
    assert child.hear() == str(PID)
    child.say("8")
    assert child.hear() == "None"


def test_two_paths_to_one_file_share_the_descriptor(
    opened: Any, folder: Path, tmp_path: Path, start: Any
) -> None:
    first = opened()
    first.hold(7)
    (tmp_path / "elsewhere").symlink_to(folder)
    second = opened(tmp_path / "elsewhere")
    assert second.holder(7) == PID
    second.close()

    child = start(HOLD, folder)
    child.hear()
    child.say("7")
    assert child.hear() == str(PID)


def test_the_last_close_ends_it_and_the_folder_can_be_opened_again(
    opened: Any, folder: Path, start: Any
) -> None:
    before = len(os.listdir("/dev/fd"))
    liveness = opened()
    liveness.hold(7)
    liveness.close()
    liveness.close()
    assert len(os.listdir("/dev/fd")) == before

    child = start(HOLD, folder, 7)
    assert child.hear() == "held"
    assert opened().holder(7) == child.pid


def test_release_is_of_one_number_and_only_of_its_owner(opened: Any, folder: Path, start: Any) -> None:
    first, second = opened(), opened()
    first.hold(7)
    first.hold(8)
    second.release(7)
    first.release(8)
    child = start(HOLD, folder)
    child.hear()

    child.say("7")
    assert child.hear() == str(PID)
    child.say("8")
    assert child.hear() == "None"
    assert not first.alive(8)


def test_a_number_is_held_once_in_a_process(opened: Any) -> None:
    first, second = opened(), opened()
    first.hold(7)
    first.hold(7)
    with pytest.raises(StoreMismatch, match="incarnation 7 is alive already, in this process"):
        second.hold(7)


def test_a_number_is_held_once_among_processes(opened: Any, folder: Path, start: Any) -> None:
    child = start(HOLD, folder, 7)
    child.hear()
    with pytest.raises(StoreMismatch, match=f"alive already, in process {child.pid}"):
        opened().hold(7)
    assert opened().holder(7) == child.pid


def test_numbers_use_all_63_bits(opened: Any, folder: Path, start: Any) -> None:
    numbers = [0, 2**31, 2**32, 2**32 + 1, 2**63 - 1]
    child = start(HOLD, folder, *numbers)
    assert child.hear() == "held"

    assert [opened().holder(number) for number in numbers] == [child.pid] * len(numbers)
    assert [opened().alive(number) for number in (1, 2**31 - 1, 2**33, 2**63 - 2)] == [False] * 4
    with pytest.raises(ValueError, match="from 0 to"):
        opened().hold(2**63)
    with pytest.raises(ValueError, match="from 0 to"):
        opened().hold(-1)


def test_verify_takes_again_what_a_stray_close_dropped(opened: Any, folder: Path, start: Any) -> None:
    liveness = opened()
    liveness.hold(7)
    child = start(HOLD, folder)
    child.hear()

    (folder / "live").read_bytes()  # opens and closes it
    child.say("7")
    assert child.hear() == "None"

    liveness.verify()
    child.say("7")
    assert child.hear() == str(PID)


def test_verify_refuses_when_somebody_else_has_taken_the_number(
    opened: Any, folder: Path, start: Any
) -> None:
    liveness = opened()
    liveness.hold(7)
    (folder / "live").read_bytes()
    child = start(HOLD, folder, 7)
    child.hear()
    with pytest.raises(StoreMismatch, match=f"in process {child.pid}"):
        liveness.verify()


def test_verify_detects_that_the_file_was_deleted(opened: Any, folder: Path) -> None:
    liveness = opened()
    liveness.verify()
    (folder / "live").unlink()
    with pytest.raises(StoreMismatch, match="deleted or replaced"):
        liveness.verify()


def test_verify_detects_that_the_file_was_replaced(opened: Any, folder: Path, start: Any) -> None:
    old = opened()
    old.hold(7)
    (folder / "live").unlink()
    new = opened()
    assert not new.alive(7)
    with pytest.raises(StoreMismatch, match="deleted or replaced"):
        old.verify()
    new.hold(7)
    new.verify()
    old.close()

    child = start(HOLD, folder)
    child.hear()
    child.say("7")
    assert child.hear() == str(PID)


def test_a_closed_one_refuses(opened: Any) -> None:
    liveness = opened()
    liveness.close()
    with pytest.raises(StoreError, match="was closed"):
        liveness.hold(7)
    with pytest.raises(StoreError, match="was closed"):
        liveness.holder(7)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_can_be_asked(opened: Any, folder: Path, start: Any) -> None:
    child = start(HOLD, folder, 7)
    child.hear()
    (folder / "live").chmod(0o444)
    folder.chmod(0o555)
    liveness = opened()
    assert liveness.holder(7) == child.pid
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        liveness.hold(8)
    folder.chmod(0o755)


def test_a_forked_child_is_refused_and_does_not_disturb_its_parent(
    opened: Any, folder: Path, start: Any
) -> None:
    """The child's own life begins with its own open and ends with its own close."""
    parent = start(FORK, folder, "leave")
    refusals = [parent.hear() for _ in range(5)]
    assert all("opened before a fork" in refusal for refusal in refusals)
    assert all("open the store in the child" in refusal for refusal in refusals)
    assert parent.hear() == f"child sees {parent.pid}"
    assert parent.hear() == "gone"

    assert opened().holder(7) == parent.pid
    assert not opened().alive(9)


def test_a_forked_child_does_not_keep_its_parent_alive(opened: Any, folder: Path, start: Any) -> None:
    parent = start(FORK, folder, "stay")
    for _ in range(5):
        parent.hear()
    assert parent.hear() == f"child sees {parent.pid}"
    child = opened().holder(9)
    assert child not in (None, parent.pid)

    parent.kill()
    assert parent.hear() == "child sees None"
    assert not opened().alive(7)
    assert opened().holder(9) == child
