"""Runs an example or flowctl in this process, writes down each evaluation of a node, and may die of one.

    python counted.py LOG flowctl ARGUMENT…      the command line
    python counted.py LOG EXAMPLE.py ARGUMENT…   an example as a script
    python counted.py LOG hold DB FLOW RUN JSON  starts a run, says when it has settled, and stays

DIES_OF=node in the environment: after the evaluation of that node this process kills itself with SIGKILL,
before anything of it is stored. LATER=3600: its clock goes ahead by so many seconds.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from quiesce import Runtime
from quiesce.clock import SystemClock
from quiesce.codec import validate_json
from quiesce.errors import NodeError
from quiesce.flows import load
from quiesce.graph.nodes import Node

LOG = Path(sys.argv[1])
DIES_OF = os.environ.get("DIES_OF")
LATER = timedelta(seconds=float(os.environ.get("LATER", "0")))


def counted(node: Node) -> Callable[..., Any]:
    body = node.body.evaluate if node.kind in ("object", "gate") else node.body

    def evaluate(*arguments: Any) -> Any:
        with LOG.open("a") as log:
            log.write(f"{os.getpid()} {node.name}\n")
        output = body(*arguments)
        if node.name == DIES_OF:
            os.kill(os.getpid(), signal.SIGKILL)
        return output

    return evaluate


async def hold(db: str, flow: str, run_id: str, input: str) -> None:
    async with Runtime(db) as rt:
        graph = load(flow)
        value = validate_json(json.loads(input), graph.input_type, place="input")
        run = await rt.start(graph, value, run_id=run_id)
        try:
            print(type(await run.settled()).__name__, flush=True)
        except NodeError as error:
            print(error, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    Node.call = property(counted)  # type: ignore[assignment,method-assign]
    if LATER:
        SystemClock.now = lambda self: datetime.now(UTC) + LATER  # type: ignore[method-assign]
    match sys.argv[2:]:
        case ["hold", db, flow, run_id, input]:
            anyio.run(hold, db, flow, run_id, input)
        case ["flowctl", *arguments]:
            sys.argv = ["flowctl", *arguments]
            runpy.run_module("flowctl", run_name="__main__")
        case [script, *arguments]:
            sys.argv = [script, *arguments]
            runpy.run_path(script, run_name="__main__")
