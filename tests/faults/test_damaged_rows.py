"""What becomes of a store in which somebody else has written?

The error names the place, and what is whole goes on. Source: cases failures-durable-engines 50.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from quiesce import Completed, Paused, Run, Runtime
from quiesce.errors import QuiesceError, StoreError
from quiesce_adapters.sqlite.checks import violations_of_file

from .files import one_line, raw

import fault_flows as flows  # isort: skip

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE runs SET locks = '{' WHERE id = 'bad'", "locks of bad"),
        ("UPDATE pieces SET detail = 'x' WHERE run_id = 'bad'", "detail of piece"),
        ("UPDATE holds SET payload = '' WHERE run_id = 'bad'", "payload of"),
        ("UPDATE runs SET counters = '[' WHERE id = 'bad'", "counters of bad"),
    ],
)
async def test_a_damaged_row_is_named_and_hurts_no_other_run(damage: str, says: str, tmp_path: Path) -> None:
    """cases 50: one bad run never blocks the others; the error says where the damage is."""
    path = tmp_path / "flows.db"
    async with Runtime(path, flows=flows.FLOWS) as rt:
        for name in ("bad", "good"):
            await rt.run(flows.linear, 1, run_id=name)
    raw(path, damage)
    assert any("is no JSON" in text for text in violations_of_file(path))
    async with Runtime(path, flows=flows.FLOWS) as rt:
        (good,) = (await rt.status("good")).holds
        await rt.answer(good.id, True)
        assert await (await rt.get("good")).settled() == Completed(20)
        with pytest.raises(StoreError) as refused, anyio.fail_after(10):
            await answer_and_wait(rt, "bad")
        one_line(refused.value, says, "flowctl doctor")


async def told_of(run: Run) -> Exception:
    """What a waiter hears of a run that cannot go on: its error, or the lock that says so."""
    try:
        outcome = await run.settled()
    except QuiesceError as error:
        return error
    assert isinstance(outcome, Paused)
    return QuiesceError(outcome.reason)


async def answer_and_wait(rt: Runtime, run_id: str) -> None:
    for hold in (await rt.status(run_id)).holds:
        await rt.answer(hold.id, True)
    await (await rt.get(run_id)).settled()


async def test_a_value_that_is_missing_or_damaged_is_named_and_hurts_no_other_run(tmp_path: Path) -> None:
    """cases 50: a worker that opens the store drives what can be driven, and says what cannot."""
    path = tmp_path / "flows.db"
    async with Runtime(path, flows=flows.FLOWS, drive=False) as rt:
        for name in ("missing", "damaged", "good"):
            await rt.start(flows.linear, 1, run_id=name)
    raw(path, "DELETE FROM blobs WHERE id = (SELECT input FROM runs WHERE id = 'missing')")
    raw(path, "UPDATE blobs SET body = x'00ff' WHERE id = (SELECT input FROM runs WHERE id = 'damaged')")
    assert any("refers to value" in text for text in violations_of_file(path))
    async with Runtime(path, flows=flows.FLOWS) as rt:
        assert isinstance(await (await rt.get("good")).settled(), Paused)
        for name in ("missing", "damaged"):
            with anyio.fail_after(10):
                told = await told_of(await rt.get(name))
            one_line(told, "value" if name == "missing" else "cannot be read")
