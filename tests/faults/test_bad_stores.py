"""What does a place that cannot be a store, or is one that cannot be used now, tell whoever opens it?

One line that says what is wrong and what to do, of the right class, and the file as it was before.
Source: spec engine, 6; cases failures-durable-engines 61 to 69.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quiesce import Completed, Paused, Runtime
from quiesce.clock import SystemClock
from quiesce.errors import (
    QuiesceError,
    RunNotFound,
    StoreBusy,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
)
from quiesce_adapters.sqlite import filesystem
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

import fault_flows as flows  # isort: skip

from .files import one_line, raw
from .processes import ready_together

pytestmark = pytest.mark.anyio
SHORT = 0.05
"""Seconds: how long a test lets a store wait that will be refused."""


def text_file(path: Path) -> None:
    path.write_text("dear diary\n" * 500)


def short_text_file(path: Path) -> None:
    path.write_text("hi")


def other_program(path: Path) -> None:
    raw(path, "CREATE TABLE bookmarks (url TEXT)", "INSERT INTO bookmarks VALUES ('a')")


def other_application(path: Path) -> None:
    raw(path, "PRAGMA application_id = 1234", "PRAGMA user_version = 7")


def newer(path: Path) -> None:
    SqliteStore(path, SystemClock()).close()
    raw(path, "PRAGMA user_version = 99", "PRAGMA wal_checkpoint(TRUNCATE)")


def damaged(path: Path) -> None:
    SqliteStore(path, SystemClock()).close()
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * (4096 - 100)
    path.write_bytes(data)


def make_empty(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (text_file, "no quiesce store"),
        (short_text_file, "no quiesce store"),
        (other_program, "another program's database"),
        (other_application, "another program's database"),
        (newer, "upgrade quiesce"),
        (damaged, "damaged"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_file_that_is_no_store_of_ours_is_refused_and_kept(
    make: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    """spec engine, 6: a clear refusal; the file is as before, and nothing is put beside it."""
    path = tmp_path / "file.db"
    make(path)
    shutil.rmtree(tmp_path / "file.db-quiesce", ignore_errors=True)
    before = path.read_bytes()
    with pytest.raises(StoreMismatch) as refused:
        async with Runtime(path):
            pass
    one_line(refused.value, str(path), says)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["file.db"]


async def test_a_folder_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    """spec engine, 6: a clear refusal says which file to name."""
    with pytest.raises(StoreMismatch) as refused:
        await Runtime(tmp_path).__aenter__()
    one_line(refused.value, "is a folder")
    with pytest.raises(StoreMismatch) as refused:
        await Runtime(tmp_path / "no" / "flows.db").__aenter__()
    one_line(refused.value, "does not exist")
    assert os.listdir(tmp_path) == []


async def test_an_empty_file_becomes_a_store(db: Path) -> None:
    """An empty file is what SQLite itself makes of a new database."""
    make_empty(db)
    async with Runtime(db) as rt:
        assert await rt.run(flows.fan, 1) == Completed(14)


@pytest.mark.parametrize(
    ("mount", "refused"),
    [("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("9p", True), ("ext4", False), ("tmpfs", False)],
)
async def test_a_network_file_system_is_refused(
    mount: str, refused: bool, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec engine, 6: locks cannot be trusted there; also if only the link leads there."""
    remote = tmp_path / "re mote"
    remote.mkdir()
    table = tmp_path / "mountinfo"
    escaped = str(remote.resolve()).replace(" ", "\\040")
    table.write_text(f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / {escaped} rw shared:1 - {mount} x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", table)
    link = tmp_path / "link.db"
    link.symlink_to(remote / "flows.db")
    for path in (remote / "flows.db", link):
        if refused:
            with pytest.raises(StoreMismatch) as error:
                await Runtime(path).__aenter__()
            one_line(error.value, mount, "local disk")
            assert os.listdir(remote) == []
        else:
            async with Runtime(path):
                pass
    async with Runtime(db):
        pass


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system; the test is skipped, with a notice, where that is not allowed."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.decode().strip()}")
        return place

    yield mount
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True, capture_output=True)


async def test_a_store_on_a_read_only_file_system_says_so(mount: Callable[[str], Path]) -> None:
    """spec engine, 5: StoreReadOnly, whether the store is there or is to be made."""
    place = mount("size=4m")
    async with Runtime(place / "flows.db") as rt:
        await rt.run(flows.fan, 1)
    before = sorted(os.listdir(place))
    remount(place, "ro")
    for name in ("flows.db", "new.db"):
        with pytest.raises(StoreReadOnly) as refused:
            async with Runtime(place / name) as rt:
                await rt.start(flows.fan, 1)
        one_line(refused.value, name)
    assert sorted(os.listdir(place)) == before


async def test_a_full_disk_keeps_what_was_acknowledged_and_nothing_else(
    mount: Callable[[str], Path],
) -> None:
    """spec engine, 5: StoreFull; what was acknowledged is there, and it goes on when there is room."""
    place = mount("size=600k")
    path = place / "flows.db"
    async with Runtime(path) as rt:
        names = await until_full(rt)
        remount(place, "size=4m")
        assert len(names) > 3
        with pytest.raises(RunNotFound):
            await rt.status(names[-1])
        await rt.create(flows.linear, names[-1], request_id=names[-1])
        assert sorted(run.id for run in await rt.list(limit=10_000)) == sorted(names)
    assert violations_of_file(path) == []


def fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 1024)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


async def until_full(rt: Runtime) -> list[str]:
    """Create runs until one is refused; those that were acknowledged, and last the one that was not."""
    names: list[str] = []
    while True:
        names.append(f"r{len(names)}")
        try:
            await rt.create(flows.linear, names[-1], request_id=names[-1], reason="x" * 2000)
        except StoreFull as error:
            one_line(error, "full", "make room")
            return names


async def test_a_disk_that_fills_under_a_run_tells_its_waiter_and_the_run_goes_on_later(
    mount: Callable[[str], Path],
) -> None:
    """spec engine, 5: the waiter gets StoreFull; nothing is wedged: a resume drives the run to its end."""
    place = mount("size=600k")
    path = place / "flows.db"
    flows.STAGE.reset()
    async with Runtime(path) as rt:
        run = await rt.start(flows.work, 1)
        await flows.STAGE.came.wait()
        filler = place / "filler"
        fill(filler)
        flows.STAGE.go.set()
        await until_full(rt)
        filler.unlink()
        try:
            outcome = await run.settled()
        except StoreFull:
            await run.resume()
            outcome = await run.settled()
        assert outcome == Completed(30)
    assert violations_of_file(path) == []


async def test_a_lock_of_another_program_is_waited_for_then_refused(db: Path) -> None:
    """spec engine, 6: StoreBusy after the bound, naming what to do; reads go on all the while."""
    store = SqliteStore(db, SystemClock(), busy_after=SHORT)
    async with Runtime(store) as rt:
        paused = await rt.run(flows.linear, 1, run_id="r")
        assert isinstance(paused, Paused)
        other = sqlite3.connect(db, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(StoreBusy) as refused:
                await rt.answer(paused.holds[0].id, True, request_id="a")
            one_line(refused.value, str(db), "try again")
        assert (await rt.status("r")).state == "paused"
        other.execute("ROLLBACK")
        other.close()
        assert not (await rt.answer(paused.holds[0].id, True, request_id="a")).replayed
        assert await paused.run.settled() == Completed(20)


async def test_a_lock_that_is_let_go_in_time_is_not_noticed(db: Path) -> None:
    """cases 62 and 63: busy is normal; a verb waits and succeeds."""
    attempts = 0
    other = sqlite3.connect(db, isolation_level=None)

    def hook(label: str) -> None:
        nonlocal attempts
        if label == "begin" and other.in_transaction:
            attempts += 1
            if attempts == 3:
                other.execute("ROLLBACK")

    async with Runtime(SqliteStore(db, SystemClock(), on_statement=hook)) as rt:
        run = await rt.create(flows.linear)
        other.execute("BEGIN IMMEDIATE")
        await run.cancel()
    assert attempts == 3
    other.close()


def test_a_new_file_that_another_program_keeps_locked_is_refused(tmp_path: Path) -> None:
    """cases 69: the open path waits and then says who is in the way; the file is as before."""
    path = tmp_path / "flows.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy) as refused:
        SqliteStore(path, SystemClock(), busy_after=SHORT)
    one_line(refused.value, str(path), "another program")
    other.execute("ROLLBACK")
    other.close()
    SqliteStore(path, SystemClock(), busy_after=SHORT).close()
    assert violations_of_file(path) == []


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
async def test_the_durability_that_was_asked_for_is_set(durability: Any, level: int, db: Path) -> None:
    """cases 67: full syncs each commit, normal is a choice of the user."""
    store = SqliteStore(db, SystemClock(), durability=durability)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (level,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    store.close()
    async with Runtime(db) as rt:
        assert rt.backend.host.store._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """The message names the two that there are."""
    with pytest.raises(QuiesceError, match="'full' or 'normal'"):
        SqliteStore(tmp_path / "flows.db", SystemClock(), durability="eventual")
    assert os.listdir(tmp_path) == []


FORK = """
import os, sys
import anyio
from quiesce import Runtime
import fault_flows as flows

async def main():
    async with Runtime(sys.argv[1]) as rt:
        run = await rt.create(flows.linear)
        child = os.fork()
        if child == 0:
            for verb in (lambda: rt.status(run.id), lambda: rt.cancel(run.id)):
                try:
                    await verb()
                except Exception as error:
                    print(type(error).__name__, error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print((await rt.status(run.id)).state, flush=True)

anyio.run(main, backend=sys.argv[2])
"""


async def test_a_store_that_was_opened_before_a_fork_is_refused_in_the_child(
    db: Path, start: Any, anyio_backend: str
) -> None:
    """spec engine, 6: open after a fork is a clear refusal; the parent is not disturbed."""
    process = start(FORK, db, anyio_backend)
    for _ in range(2):
        line = process.hear()
        assert line.startswith("StoreMismatch")
        assert "opened before a fork" in line
    assert process.hear() == "created"


OPEN = """
import sys
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.store import SqliteStore
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(sys.argv[1], SystemClock())
print("open", flush=True)
sys.stdin.readline()
store.close()
"""


@pytest.mark.parametrize("crashed", [False, True], ids=["new", "crashed"])
def test_several_processes_open_one_file_at_once(crashed: bool, db: Path, start: Any) -> None:
    """cases 69: creation and WAL recovery are exclusive for a moment; whoever comes second waits."""
    if crashed:
        leave_a_wal(db, start)
    processes = [start(OPEN, db) for _ in range(5)]
    ready_together(processes)
    assert [process.hear() for process in processes] == ["open"] * 5
    for process in processes:
        process.say()
    assert [process.ended() for process in processes] == [0] * 5


CRASH = """
import os, signal, sys
import anyio
from quiesce import Runtime
import fault_flows as flows

async def main():
    async with Runtime(sys.argv[1]) as rt:
        await rt.run(flows.linear, 1)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


def leave_a_wal(db: Path, start: Any) -> None:
    """A store whose last process died: what it committed is in the WAL, to be recovered."""
    assert start(CRASH, db).ended() == -9
    assert os.path.getsize(f"{db}-wal") > 0
