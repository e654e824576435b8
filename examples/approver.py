"""An agent that pauses in the middle of a statement, and a person who answers in another process.

    flowctl run examples/approver.py:approver 5000     asks on a terminal; in a pipe it exits with 75
    flowctl answer HOLD true                           from any process, at any time
    python examples/approver.py                        the story: another runtime goes on

`charge` is a step: it is done once, also if a process dies. What the body printed before it paused is printed
again when it is executed in another process, since plain code is; so that has no effects.
"""

import tempfile
from pathlib import Path

import anyio

from quiesce import Completed, Paused, Run, Runtime, agent, ask_human, current_step, step


@step
def charge(amount: int) -> str:
    print(f"charging {amount}")
    return f"charged {amount}, receipt {current_step().key[-8:]}"


@agent
def approver(amount: int = 5000) -> str:
    print("checking the request")
    approved = ask_human(f"approve charge of {amount}?", expects=bool)
    return charge(amount) if approved else "cancelled"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime(Path(folder, "flows.db")) as rt:
            outcome = await rt.run(approver, 5000, run_id="request")
            assert isinstance(outcome, Paused)
            print(f"{(await outcome.run.status()).state}: {outcome.reason}")
            frame = outcome.run.frames()[-1]
            print(f"it stands in line {frame.line}: {frame.source}")
        async with Runtime(Path(folder, "flows.db")) as rt:  # as a new process would
            run = Run(rt, "request")
            await run.answer(True, actor="alice")
            match await run.settled():
                case Completed(value):
                    print(value)


if __name__ == "__main__":
    anyio.run(main)
