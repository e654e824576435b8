"""One process of a run `r`: it does one thing, waits until the run settles, and prints what it found.

    python one_process.py BACKEND DB start FLOW INPUT
    python one_process.py BACKEND DB resume | retry | accept [ANSWER]
    python one_process.py BACKEND DB answer HOLD VALUE    waits, with the hold still open, for a line

FLOW is a reference, the other words are JSON; so is what is printed. DIES_OF=name and FAILS_AT=name in the
environment are for `act`. TRACED=1: it also prints the spans that it leaves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import anyio
from fault_flows import came

from quiesce import Completed, Run, Runtime
from quiesce.errors import FlowChanged, QuiesceError
from quiesce.flows import load

__all__ = ["act"]


def act(name: str) -> None:
    """What a node of these tests does: leaves a line, and may break or take its process with it."""
    came(name)
    if os.environ.get("DIES_OF") == name:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("FAILS_AT") == name:
        raise OSError("the network is down")


async def do(rt: Runtime, verb: str, words: list[str]) -> None:
    match verb, words:
        case "start", [flow, input]:
            await rt.start(load(flow), json.loads(input), run_id="r")
        case "resume", []:
            await rt.resume("r")
        case "resume", [answer]:
            await rt.resume("r", json.loads(answer))
        case "accept", []:
            await rt.retry("r", accept_changes=True)
        case "accept", [answer]:
            await rt.resume("r", json.loads(answer), accept_changes=True)
        case "retry", []:
            await rt.retry("r")
        case "answer", [hold, value]:
            last_step = rt.backend._ready_to_drive

            async def wait() -> None:
                """The answer was checked, and is not written yet."""
                (seen,) = await rt.holds("r")
                print(json.dumps({"saw": seen.state}), flush=True)
                sys.stdin.readline()
                await last_step()

            rt.backend._ready_to_drive = wait  # type: ignore[method-assign]
            await rt.answer(hold, json.loads(value))
        case _:
            raise SystemExit(f"unknown: {verb} {words}")


async def main(db: str, verb: str, words: list[str]) -> None:
    found: dict[str, Any] = {}
    async with Runtime(db) as rt:
        try:
            await do(rt, verb, words)
        except QuiesceError as error:
            found["refused"] = [type(error).__name__, str(error)]
            if isinstance(error, FlowChanged):
                found["diff"] = list(error.diff)
        if "refused" not in found or found["refused"][0] == "AlreadyAnswered":
            try:
                outcome = await Run(rt, "r").settled()
            except QuiesceError as error:
                found["raised"] = [type(error).__name__, str(error)]
            else:
                found["outcome"] = type(outcome).__name__
                if isinstance(outcome, Completed):
                    found["value"] = outcome.value
    print(json.dumps(found), flush=True)


def traced(db: str, verb: str, words: list[str]) -> None:
    """As `main`, and then the spans, each with its status."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    anyio.run(main, db, verb, words, backend=BACKEND)
    spans = [
        [span.name, span.status.status_code.name, dict(span.attributes or {}), len(span.events)]
        for span in exporter.get_finished_spans()
    ]
    print(json.dumps(spans), flush=True)


if __name__ == "__main__":
    sys.modules["one_process"] = sys.modules["__main__"]  # for the flows that import `act`
    BACKEND, DB, VERB, *WORDS = sys.argv[1:]
    if os.environ.get("TRACED"):
        traced(DB, VERB, WORDS)
    else:
        anyio.run(main, DB, VERB, WORDS, backend=BACKEND)
