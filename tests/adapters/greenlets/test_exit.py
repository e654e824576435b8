"""Does a process end at once, and silently, whatever its bodies were at?"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

HEAD = """
import anyio, sys, threading, signal, os
from quiesce import *

@agent
def waits(number: int = 0) -> None:
    try:
        pause("for ever")
    finally:
        print("finally")
"""


def run(script: str, backend: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process; `BACKEND` is the event loop."""
    text = HEAD + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", text.replace("BACKEND", repr(backend))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_thousands_of_paused_bodies_do_not_hold_up_the_exit(loop: str) -> None:
    """Source: spec agent, "Body and lifecycle"; cases agent (a never-resumed agent does not leak)."""
    done = run(
        """
        ready = threading.Event()

        async def main():
            async with Runtime() as rt:
                for number in range(3000):
                    await rt.start(waits, number)
                await anyio.wait_all_tasks_blocked()
                ready.set()
                await anyio.sleep_forever()

        threading.Thread(target=lambda: anyio.run(main, backend=BACKEND), daemon=True).start()
        ready.wait()
        print("leaving")
        """,
        loop,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("leaving\n", "", 0)


def test_a_loop_that_is_torn_down_under_its_bodies_ends_them() -> None:
    """Source: spec agent, "Body and lifecycle"; asyncio cancels every task of a loop that ends."""
    done = run(
        """
        async def main():
            rt = Runtime()
            await rt.__aenter__()
            await rt.start(waits, 1)
            await anyio.wait_all_tasks_blocked()
            raise ValueError("torn down")

        try:
            anyio.run(main, backend=BACKEND)
        except ValueError as error:
            print(error)
        """,
        "asyncio",
    )
    assert done.stdout == "finally\ntorn down\n"


def test_leaving_the_runtime_with_paused_bodies_exits_clean(loop: str) -> None:
    """Source: spec engine, 5 (leaving it ends memory bodies); `finally` blocks run, once each."""
    done = run(
        """
        async def main():
            async with Runtime() as rt:
                for number in range(2000):
                    await rt.start(waits, number)
                await anyio.wait_all_tasks_blocked()

        anyio.run(main, backend=BACKEND)
        print("end")
        """,
        loop,
    )
    assert done.stdout.count("finally") == 2000
    assert done.stdout.endswith("end\n")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_abandoned_blocking_step_does_not_hold_up_the_exit(loop: str) -> None:
    """Source: spec agent, "Body and lifecycle" (daemon threads)."""
    done = run(
        """
        started = threading.Event()

        @step
        def blocks() -> None:
            started.set()
            threading.Event().wait()

        @agent
        def body() -> None:
            blocks()

        async def main():
            async with Runtime() as rt:
                run = await rt.start(body)
                while not started.is_set():
                    await anyio.sleep(0)
                await run.cancel()
                try:
                    await run.settled()
                except errors.RunCancelled:
                    print("cancelled")

        anyio.run(main, backend=BACKEND)
        print("end")
        """,
        loop,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("cancelled\nend\n", "", 0)


def test_an_interrupt_in_a_body_goes_to_the_process(loop: str) -> None:
    """Source: it is meant for the process, not for the run."""
    done = run(
        """
        @agent
        def body() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10_000_000):
                pass

        async def main():
            async with Runtime() as rt:
                await rt.run(body)

        try:
            anyio.run(main, backend=BACKEND)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        loop,
    )
    assert done.stdout == "interrupted\n"
