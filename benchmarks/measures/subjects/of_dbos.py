"""DBOS on SQLite: a workflow that waits for a message. It hears of one by looking, as often as it is told to.

`shipped` looks every second, which is its default, and keeps the journal as it comes (a rollback journal,
`synchronous` FULL). `fast` looks every millisecond, in a database that was put into WAL mode before.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from time import perf_counter
from typing import Any

from dbos import DBOS, SetWorkflowID

from .lines import report, rounds
from .story import happen, reach

LONG = 3600.0
_asked = threading.Event()


@DBOS.workflow()
def asking() -> None:
    while True:
        _asked.set()
        DBOS.recv("answer", timeout_seconds=LONG)


@DBOS.step()
def reserve() -> None:
    happen("reserve")


@DBOS.step()
def charge(answer: str) -> str:
    happen(f"charge {answer}")
    return answer


@DBOS.workflow()
def story() -> str:
    reserve()
    _asked.set()
    return charge(DBOS.recv("answer", timeout_seconds=LONG))


def launch(name: str, path: str) -> None:
    if name == "fast":
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")  # stays in the file
        connection.close()
    config: Any = {
        "name": "bench",
        "system_database_url": f"sqlite:///{path}",
        "log_level": "CRITICAL",
        "application_version": "1",
    }
    if name == "fast":
        config["notification_listener_polling_interval_sec"] = 0.001
    DBOS(config=config)
    DBOS.launch()


def trips(name: str, path: str) -> None:
    """From `send` to the moment at which the workflow is about to wait for the next message."""
    launch(name, path)
    workflow = DBOS.start_workflow(asking).workflow_id
    _asked.wait()
    for count in rounds():
        taken = []
        for _ in range(count):
            time.sleep(0.02)  # let it wait first
            _asked.clear()
            started = perf_counter()
            DBOS.send(workflow, True, "answer")
            _asked.wait()
            taken.append(perf_counter() - started)
        report(taken)


def tell(name: str, path: str, answer: str) -> None:
    launch(name, path)  # goes on with what was under way
    if DBOS.get_workflow_status("story") is None:
        with SetWorkflowID("story"):
            DBOS.start_workflow(story)
    _asked.wait()  # also a body that goes on comes by here, on its way to where it was
    reach("asks")
    DBOS.send("story", answer, "answer")
    reach("answered")
    report(DBOS.retrieve_workflow("story").get_result(polling_interval_sec=0.01))
