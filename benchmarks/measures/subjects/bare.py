"""The least that could hold a suspended body, in memory: what pausing and answering cannot be faster than."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter

import greenlet

from .lines import report, rounds


def trips(name: str) -> None:
    {"greenlet": _greenlet, "asyncio": _asyncio, "threads": _threads}[name]()


def _greenlet() -> None:
    """A body in a greenlet, and a task that drives it and waits for each answer."""

    def body() -> None:
        while True:
            greenlet.getcurrent().parent.switch()

    _over_futures(greenlet.greenlet(body).switch)


def _asyncio() -> None:
    """The same with nothing in the task but the waiting."""
    _over_futures(lambda: None)


def _over_futures(go_on: Callable[[], object]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        answer, question = loop.create_future(), loop.create_future()

        async def drive() -> None:
            nonlocal answer
            while True:
                await answer
                answer = loop.create_future()
                go_on()
                question.set_result(None)

        go_on()
        driver = loop.create_task(drive())
        await asyncio.sleep(0)
        for count in rounds():
            taken = []
            for _ in range(count):
                started = perf_counter()
                answer.set_result(True)
                await question
                question = loop.create_future()
                taken.append(perf_counter() - started)
            report(taken)
        driver.cancel()

    asyncio.run(run())


def _threads() -> None:
    """A body in a thread, which sleeps until an Event wakes it, and wakes the other thread by another."""
    answered, asked = threading.Event(), threading.Event()

    def body() -> None:
        while True:
            asked.set()
            answered.wait()
            answered.clear()

    threading.Thread(target=body, daemon=True).start()
    asked.wait()
    for count in rounds():
        taken = []
        for _ in range(count):
            started = perf_counter()
            asked.clear()
            answered.set()
            asked.wait()
            taken.append(perf_counter() - started)
        report(taken)
