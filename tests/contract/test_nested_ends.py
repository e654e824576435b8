"""What do the end, the failure and the restart of a run mean for those inside it, and around it?"""

from __future__ import annotations

import pytest

from .kinds import Kind, Stage
from .subject import Subject, locks, only_child

pytestmark = pytest.mark.anyio


async def test_a_reset_of_the_only_child_pauses_the_outer_run_until_it_is_resumed(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 3: when nothing of a run is runnable, the engine fences it."""
    stage = Stage()
    inner = kind.works(stage)
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        child = await only_child(rt, run)
        await child.reset()
        status = await run.status()
        assert (status.state, locks(status), status.generation) == ("paused", ["child"], 2)
        stage.open()
        await child.resume()
        assert (await run.status()).state == "running"
        assert await run.result() == 2
