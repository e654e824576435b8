"""Does a job of a turn run exactly while its body does, and is its whole process group gone when it yields?

A job of these tests calls its test over a socket, which the kernel closes when the last process that has it
is gone: that is the proof of its end, and nobody waits for a time to pass.

Source: spec team, "drain"; cases team 86, 91, 92.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio import wait_all_tasks_blocked
from anyio.streams.buffered import BufferedByteReceiveStream

from quiesce import Run, Runtime, Team, Turn, pause, step

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's"),
]

CALLS = """
import os, signal, socket, subprocess, sys
how, port = sys.argv[1], int(sys.argv[2])
line = socket.create_connection(("127.0.0.1", port))
line.set_inheritable(how == "family")
def say(what): line.sendall(what.encode() + b"\\n")
if how == "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: say("TERM"))
if how == "escapes":  # a process that leaves the group, and is not ended by it
    argv = [sys.executable, __file__, "waits", sys.argv[2]]
    subprocess.Popen(argv, start_new_session=True, close_fds=False)
if how == "family":
    subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do read _; sleep 1000; done"], close_fds=False)
say(f"{how} {os.getpid()}")
if how == "ends":
    sys.exit(3)
while how == "waits":
    line.recv(1) or sys.exit(0)
while True:
    signal.pause()
"""


class Call:
    """One process of a job that called."""

    def __init__(self, stream: anyio.abc.SocketStream, first: str) -> None:
        self.stream = stream
        self.how, _, pid = first.partition(" ")
        self.pid = int(pid)

    async def said(self) -> str:
        """The rest of what it says, once it has gone, and all that have its line."""
        told = b""
        with anyio.fail_after(30):
            try:
                while True:
                    told += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return told.decode()


class Exchange:
    """Where the jobs call."""

    def __init__(self, folder: Path, listener: anyio.abc.SocketListener) -> None:
        self._listener = listener
        self.streams: list[anyio.abc.SocketStream] = []
        self.port = str(listener.extra(anyio.abc.SocketAttribute.local_port))
        self._script = folder / "calls.py"
        self._script.write_text(CALLS, encoding="utf-8")

    def argv(self, how: str) -> list[str]:
        return [sys.executable, str(self._script), how, self.port]

    async def call(self) -> Call:
        with anyio.fail_after(30):
            stream = await self._listener.accept()
            self.streams.append(stream)
            line = await BufferedByteReceiveStream(stream).receive_until(b"\n", 100)
            return Call(stream, line.decode())


@asynccontextmanager
async def exchange(folder: Path) -> AsyncIterator[Exchange]:
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with multi, multi.listeners[0] as listener:
        made = Exchange(folder, listener)
        try:
            yield made
        finally:
            for stream in made.streams:
                await stream.aclose()


def team_of(member: Any, **members: Any) -> Team:
    async def coordinator(turn: Turn) -> None:
        if not turn.tasks():
            turn.create_task(title="t", owner="m")
        elif all(task.state not in ("pending", "in_progress") for task in turn.tasks()):
            turn.finish([task.result for task in turn.tasks()])

    return Team("jobs", coordinator=coordinator, members={"m": member, **members})


class Gate:
    """A step that a test lets go on, as often as it likes."""

    def __init__(self) -> None:
        self.began = anyio.Event()
        self.open = anyio.Event()
        gate = self

        @step
        async def work(what: str) -> str:
            gate.began.set()
            await gate.open.wait()
            return what

        self.work = work


async def quiet(run: Run) -> None:
    """Wait until the paused run has drained."""
    with anyio.fail_after(30):
        await run.settled()
    assert (await run.status()).phase == "quiescent"


async def gone(pid: int) -> bool:
    await wait_all_tasks_blocked()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("durable", [True, False], ids=["sqlite", "memory"])
async def test_the_job_of_a_turn_is_ended_before_its_receipt_is_released_and_runs_again_behind_it(
    durable: bool, tmp_path: Path
) -> None:
    """Case 86; spec team, drain: TERM first, of this job's group; what yields is gone when it says so."""
    gate, second = Gate(), Gate()
    async with exchange(tmp_path) as line:

        async def member(turn: Turn) -> list[Any]:
            job = turn.job(*line.argv("plain"))
            first = job.pid
            await gate.work("one")
            turn.checkpoint()
            seen = [job.alive, job.pid != first]
            await second.work("two")
            job.end()
            return [*seen, job.alive, job.returncode]

        async with Runtime(tmp_path / "flows.db" if durable else None, flows=[team := team_of(member)]) as rt:
            run = await rt.start(team, run_id="r")
            first = await line.call()
            await gate.began.wait()
            await run.pause()
            # a step began before the fence: its job serves it still
            assert (await run.status()).draining == 1
            assert not await gone(first.pid)
            gate.open.set()
            await quiet(run)
            assert await gone(first.pid)
            assert await first.said() == ""
            await run.resume()
            again = await line.call()
            assert again.pid != first.pid
            second.open.set()
            assert await run.result() == [[True, True, False, -signal.SIGTERM]]
            assert await gone(again.pid)


async def test_a_group_that_ignores_term_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    """Case 86: escalated after the grace; no process survives."""
    gate = Gate()
    async with exchange(tmp_path) as line:

        async def member(turn: Turn) -> str:
            with turn.job(*line.argv("stubborn"), grace=0.3), turn.job(*line.argv("family"), grace=0.3):
                await gate.work("one")
                turn.checkpoint()
            return "done"

        async with Runtime(tmp_path / "flows.db", flows=[team := team_of(member)]) as rt:
            run = await rt.start(team, run_id="r")
            calls = {call.how: call for call in [await line.call(), await line.call()]}
            await gate.began.wait()
            await run.pause()
            gate.open.set()
            await quiet(run)
            assert await calls["stubborn"].said() == "TERM\n"
            assert await calls["family"].said() == ""  # its child, which ignores TERM, has the line too
            await run.cancel()


async def test_a_job_that_is_not_known_to_be_dead_keeps_its_receipt_from_being_released(
    tmp_path: Path,
) -> None:
    """Case 91: still draining, whatever else of the turn has ended, until the last process has gone."""
    gate = Gate()
    async with exchange(tmp_path) as line:

        async def member(turn: Turn) -> str:
            turn.job(*line.argv("escapes"), grace=0.1)
            await gate.work("one")
            turn.checkpoint()
            return "done"

        async with Runtime(tmp_path / "flows.db", flows=[team := team_of(member)]) as rt:
            run = await rt.start(team, run_id="r")
            calls = {call.how: call for call in [await line.call(), await line.call()]}
            await gate.began.wait()
            await run.pause()
            gate.open.set()
            assert await calls["escapes"].said() == ""
            await wait_all_tasks_blocked()
            status = await run.status()
            assert (status.phase, status.draining) == ("draining", 1)
            await calls["waits"].stream.aclose()  # which lets the escaped one go
            await quiet(run)
            episode = (await run.status()).episode_id
            assert episode is not None
            assert [receipt.drain for receipt in await rt.receipts(episode)] == ["released"]
            await run.cancel()


async def test_the_jobs_of_others_are_left_alone(tmp_path: Path) -> None:
    """Case 92: a user-directed turn and its job run on under the paused team."""
    gate, other = Gate(), Gate()
    async with exchange(tmp_path) as line:

        async def member(turn: Turn) -> str:
            turn.job(*line.argv("member"))
            await gate.work("one")
            turn.checkpoint()
            return "done"

        async def helper(turn: Turn) -> str:
            turn.job(*line.argv("helper"))
            await other.work("other")
            return "helped"

        async with Runtime(tmp_path / "flows.db", flows=[team := team_of(member, h=helper)]) as rt:
            run = await rt.start(team, run_id="r")
            await run.direct("h", "look")
            calls = {call.how: call for call in [await line.call(), await line.call()]}
            await gate.began.wait()
            await run.pause()
            gate.open.set()
            await quiet(run)
            assert await gone(calls["member"].pid)
            assert not await gone(calls["helper"].pid)
            other.open.set()
            assert await calls["helper"].said() == ""  # ended with its own turn
            await run.cancel()


async def test_a_turn_that_asks_keeps_no_job_running(tmp_path: Path) -> None:
    """Spec engine, 1: what is paused does not work; behind the answer it runs again, in a new process too."""
    before, behind = Gate(), Gate()
    async with exchange(tmp_path) as line:

        async def member(turn: Turn) -> str:
            job = turn.job(*line.argv("plain"))
            await before.work("one")
            answer = pause("go on?", expects=str)
            await behind.work(answer)
            return f"{answer}, {job.alive}"

        team = team_of(member)
        async with Runtime(tmp_path / "flows.db", flows=[team]) as rt:
            run = await rt.start(team, run_id="r")
            first = await line.call()
            before.open.set()
            assert await first.said() == ""
            (hold,) = (await run.settled()).holds
        async with Runtime(tmp_path / "flows.db", flows=[team]) as rt:
            run = await rt.get("r")
            await rt.answer(hold.id, "yes")
            again = await line.call()
            behind.open.set()
            assert await run.result() == ["yes, True"]
            assert await again.said() == ""


async def test_what_cannot_be_started_is_raised_where_it_is_asked_for(tmp_path: Path) -> None:
    """Bad input: a clear error at the earliest moment, nothing lost; the body may go on."""

    async def member(turn: Turn) -> list[str]:
        told = []
        for argv, options in (
            ([str(tmp_path / "none")], {}),
            ([], {}),
            (["true", "a\0b"], {}),
            (["true"], {"grace": -1}),
            (["true"], {"cwd": str(tmp_path / "nowhere")}),
        ):
            try:
                turn.job(*argv, **options)
            except (OSError, ValueError) as error:
                told.append(f"{type(error).__name__}: {error}")
        return told

    async with Runtime(flows=[team := team_of(member)]) as rt:
        (told,) = await (await rt.start(team)).result()
    assert [line.split(":")[0] for line in told] == [
        "FileNotFoundError",
        "ValueError",
        "ValueError",
        "ValueError",
        "FileNotFoundError",
    ]
    assert "none" in told[0]
    assert "name the program" in told[1]
    assert "grace is a number of seconds from 0, not -1" in told[3]


async def test_a_job_that_ends_by_itself_is_not_started_again(tmp_path: Path) -> None:
    """Spec team: it served its purpose; its exit code is there."""
    async with exchange(tmp_path) as line:
        gate = Gate()

        async def member(turn: Turn) -> Any:
            job = turn.job(*line.argv("ends"), log=tmp_path / "log.txt")
            await gate.work("one")
            while job.alive:
                await anyio.lowlevel.checkpoint()
            code = job.returncode
            turn.checkpoint()
            return [code, job.alive, repr(job).endswith("not running>")]

        async with Runtime(tmp_path / "flows.db", flows=[team := team_of(member)]) as rt:
            run = await rt.start(team, run_id="r")
            assert await (await line.call()).said() == ""
            await run.pause()
            gate.open.set()
            await run.settled()
            await run.resume()
            assert await run.result() == [[3, False, True]]


OWNER = """
import sys
import anyio
from quiesce import Run, Runtime, Team, Turn, step

@step
def work(what):
    print("works", flush=True)
    sys.stdin.readline()
    return what

async def member(turn: Turn):
    turn.job(*sys.argv[2:], grace=0.2)
    work("one")
    return "done"

async def coordinator(turn: Turn):
    if not turn.tasks():
        turn.create_task(title="t", owner="m")
    elif all(task.state not in ("pending", "in_progress") for task in turn.tasks()):
        turn.finish([task.result for task in turn.tasks()])

team = Team("killed", coordinator=coordinator, members={"m": member})

async def main():
    async with Runtime(sys.argv[1], flows=[team]) as rt:
        run = await rt.get("r") if await rt.list() else await rt.start(team, run_id="r")
        print(await run.result(), flush=True)

if __name__ == "__main__":
    anyio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_job_of_a_killed_process_is_gone_before_its_body_runs_again(
    tmp_path: Path, number: signal.Signals, anyio_backend: str
) -> None:
    """N5: never a second one, also if the owner could not end it: who takes over sees to that."""
    if anyio_backend != "asyncio":
        pytest.skip("the processes have a loop of their own")
    script = tmp_path / "owner.py"
    script.write_text(OWNER, encoding="utf-8")
    async with exchange(tmp_path) as line:
        argv = [sys.executable, str(script), str(tmp_path / "flows.db"), *line.argv("stubborn")]

        def owner() -> subprocess.Popen[bytes]:
            return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        with owner() as one:
            first = await line.call()
            one.send_signal(number)
            if number is signal.SIGSTOP:
                async with Runtime(tmp_path / "flows.db", drive=False) as rt:
                    await rt.takeover("r")
            with owner() as two:
                assert await first.said() == "TERM\n"  # and KILL
                second = await line.call()
                assert second.pid != first.pid
                assert two.stdin is not None
                assert two.stdout is not None
                two.stdin.write(b"\n")
                two.stdin.flush()
                await anyio.to_thread.run_sync(two.stdout.readline)
                assert await anyio.to_thread.run_sync(two.stdout.readline) == b"['done']\n"
                await second.said()
            one.kill()
