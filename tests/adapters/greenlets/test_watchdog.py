"""Who says which body blocks the loop?"""

from __future__ import annotations

import logging
import threading

import anyio
import pytest

from quiesce import Runtime, agent, pause, step
from quiesce_adapters.greenlets import watchdog

pytestmark = pytest.mark.anyio


class Heard(logging.Handler):
    """Tells a blocked body that the warning has come."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        if "blocks the event loop" in record.getMessage():
            self.came.set()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.setattr(watchdog, "BLOCKED_AFTER", 0.02)
    handler = Heard()
    logger = logging.getLogger("quiesce")
    logger.addHandler(handler)
    monkeypatch.setattr(handler, "close", lambda: logger.removeHandler(handler))
    return handler


async def test_a_body_that_blocks_the_loop_is_reported_with_file_and_line(heard: Heard) -> None:
    """Source: spec agent, "Concurrency" (watchdog)."""

    def blocks() -> None:
        while not heard.came.is_set():
            pass

    @agent
    def body() -> None:
        blocks()

    async with Runtime() as rt:
        await rt.run(body, run_id="busy")
    heard.close()
    (text,) = [text for text in heard.texts if "blocks" in text]
    assert text.startswith("run busy blocks the event loop for more than 0.02 s at ")
    assert __file__ in text
    assert ", in blocks; every other run waits" in text


async def test_a_body_that_waits_is_not_reported(heard: Heard) -> None:
    """Source: spec agent, "Concurrency": a pause, an await and a step in a thread block nobody."""
    looked = threading.Event()

    @step
    def work() -> None:
        looked.wait(0.1)  # several looks of the watchdog; it ends when nobody has blocked

    @agent
    async def body() -> None:
        await anyio.sleep(0.05)  # longer than is allowed, but it gives the loop back
        work()
        pause("r")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.resume()
        await run.settled()
    heard.close()
    assert [text for text in heard.texts if "blocks" in text] == []
