"""Is a verb that is repeated with its request id served once, for ever?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Ack, Run, Runtime
from quiesce.errors import IllegalTransition, QuiesceError, RequestConflict

from .kinds import FAILURES, Kind, Stage
from .subject import Subject, outermost, paused

pytestmark = pytest.mark.anyio


async def prepare(verb: str, subject: Subject, rt: Runtime, kind: Kind, flow: Any, stage: Stage) -> Run:
    """A run to which this verb can be applied."""
    run = await rt.start(flow, 1)
    if verb in ("pause", "cancel", "reset", "takeover", "resume"):
        await stage.wait_came()
    if verb == "resume":
        await run.pause()
        stage.open()
    if verb in ("resume", "answer", "reject"):
        await paused(run)
    if verb == "retry":
        with pytest.raises(FAILURES):
            await run.settled()
    await wait_all_tasks_blocked()
    return run


async def act(verb: str, rt: Runtime, run: Run, request_id: str | None = "once") -> Ack:
    if verb in ("answer", "reject"):
        (hold,) = await rt.holds(run.id, None)
        settle: Callable[..., Awaitable[Ack]] = getattr(rt, verb)
        return await settle(hold.id, "no", request_id=request_id)
    apply: Callable[..., Awaitable[Ack]] = getattr(rt, verb)
    return await apply(run.id, request_id=request_id)


def flow_for(verb: str, kind: Kind, stage: Stage) -> Any:
    match verb:
        case "answer" | "reject":
            return kind.asks()
        case "retry":
            return kind.mends([ValueError("boom")])
        case _:
            return kind.works(stage)


VERBS = ("pause", "resume", "answer", "reject", "cancel", "reset", "retry", "takeover")


@pytest.mark.parametrize("verb", VERBS)
async def test_a_repeated_request_gets_the_same_ack_and_changes_nothing(
    subject: Subject, kind: Kind, verb: str
) -> None:
    """spec engine, 4: repeated with the same id it returns the same ack, `replayed=True`."""
    stage = Stage()
    flow = flow_for(verb, kind, stage)
    async with subject.open(flow) as rt:
        run = await prepare(verb, subject, rt, kind, flow, stage)
        first = await act(verb, rt, run)
        await wait_all_tasks_blocked()
        before = await subject.dump(rt, run.id)
        for _ in range(2):
            again = await act(verb, rt, run)
            assert again == type(first)(**{**first.model_dump(), "replayed": True})
        assert (first.request_id, first.replayed) == ("once", False)
        assert await subject.dump(rt, run.id) == before


async def test_a_repeated_start_gives_the_same_run(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: `start`'s ids are the store's, with a digest of flow, input and run id."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1, request_id="once")
        await paused(run)
        before = await subject.dump(rt, run.id)
        assert await rt.start(flow, 1, request_id="once") == run
        assert await subject.dump(rt, run.id) == before
        assert len(await outermost(rt)) == 1


async def test_a_repeated_create_gives_the_same_run(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: every verb takes a request id."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.create(flow, request_id="once")
        assert await rt.create(flow, request_id="once") == run
        assert len(await outermost(rt)) == 1


@pytest.mark.parametrize("other", ["input", "flow", "run id", "verb"])
async def test_a_start_under_a_used_id_is_a_conflict(subject: Subject, kind: Kind, other: str) -> None:
    """spec engine, 4: the same id with another verb or other arguments raises RequestConflict."""
    flow, second = kind.asks(), kind.asks()
    async with subject.open(flow, second) as rt:
        run = await rt.start(flow, 1, request_id="once")
        await paused(run)
        async with subject.refused(rt, RequestConflict, run) as caught:
            match other:
                case "input":
                    await rt.start(flow, 2, request_id="once")
                case "flow":
                    await rt.start(second, 1, request_id="once")
                case "run id":
                    await rt.start(flow, 1, request_id="once", run_id="another")
                case "verb":
                    await rt.create(flow, request_id="once")
        assert "'once'" in str(caught.value)
        assert len(await outermost(rt)) == 1


async def test_a_used_id_with_another_verb_is_a_conflict(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: an id names one request of its run."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause(request_id="once")
        for verb in ("resume", "cancel", "reset", "retry", "takeover"):
            async with subject.refused(rt, RequestConflict, run):
                await getattr(run, verb)(request_id="once")


async def test_a_used_id_with_another_answer_is_a_conflict(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: other arguments are another request, also after the hold is settled."""
    flow = kind.asks_in_turn(2)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, [])
        (hold,) = (await paused(run)).holds
        await rt.answer(hold.id, "a", request_id="once")
        await paused(run)
        async with subject.refused(rt, RequestConflict, run):
            await rt.answer(hold.id, "b", request_id="once")
        (second,) = (await run.status()).holds
        async with subject.refused(rt, RequestConflict, run):
            await rt.answer(second.id, "a", request_id="once")
        async with subject.refused(rt, RequestConflict, run):
            await rt.reject(hold.id, "a", request_id="once")


async def test_a_late_retry_of_a_pause_does_not_pause_again(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: also after its inverse happened; cases W12."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        first = await run.pause(request_id="pause")
        resumed = await run.resume(request_id="resume")
        before = await subject.dump(rt, run.id)
        again = await run.pause(request_id="pause")
        assert again == type(first)(**{**first.model_dump(), "replayed": True})
        assert (await run.status()).state == "running"
        assert (await run.resume(request_id="resume")).model_dump() == {
            **resumed.model_dump(),
            "replayed": True,
        }
        assert await subject.dump(rt, run.id) == before
        stage.open()
        assert await run.result() == 2


async def test_a_pause_that_was_no_op_stays_one(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: "its late retry after a resume is still that"."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        second = await run.pause(request_id="second")
        assert (second.transitioned, second.locked) == (False, False)
        await run.resume()
        assert (await run.pause(request_id="second")).replayed
        assert (await run.status()).state == "running"


async def test_ids_are_scoped_by_run(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: two runs may use the same id (W12)."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        one = await rt.start(flow, 1, request_id="shared")
        two = await rt.start(flow, 2)
        await stage.wait_came(2)
        for run in (one, two):
            ack = await run.pause(request_id="shared")
            assert (ack.run_id, ack.transitioned, ack.replayed) == (run.id, True, False)


async def test_an_id_answers_from_another_runtime(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: also from another process, or when the first reply was lost."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1, request_id="start")
        await stage.wait_came()
        first = await run.pause(request_id="pause")
        async with subject.open(flow, drive=False) as other:
            again = await other.pause(run.id, request_id="pause")
            assert again == type(first)(**{**first.model_dump(), "replayed": True})
            assert (await other.start(flow, 1, request_id="start")).id == run.id
    async with subject.open(flow) as later:
        assert (await later.pause(run.id, request_id="pause")).replayed


async def test_a_made_up_id_is_the_caller_s_to_repeat(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: made up if absent; a memory store remembers explicit ids only."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        first = await run.pause()
        assert first.request_id
        await run.resume()
        again = await run.pause(request_id=first.request_id)
        assert again.replayed == subject.capabilities(rt).survives_restart


@pytest.mark.parametrize("request_id", ["x", "é" * 200, "a b", " ", "'\"", "x" * 200])
async def test_any_printable_text_of_1_to_200_characters_is_an_id(
    subject: Subject, kind: Kind, request_id: str
) -> None:
    """spec engine, 4: any printable string of 1 to 200 characters."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1, request_id=request_id)
        await stage.wait_came()
        assert (await run.pause(request_id=request_id)).request_id == request_id
        assert (await run.pause(request_id=request_id)).replayed


NO_IDS = ("", "x" * 201, "a\nb", "\x1b[31m", "a\0")


@pytest.mark.parametrize("verb", VERBS)
async def test_other_text_is_no_id(subject: Subject, kind: Kind, verb: str) -> None:
    """spec engine, 4: what could not be printed is refused, and nothing is changed."""
    stage = Stage()
    flow = flow_for(verb, kind, stage)
    async with subject.open(flow) as rt:
        run = await prepare(verb, subject, rt, kind, flow, stage)
        before = await subject.dump(rt, run.id)
        for request_id in NO_IDS:
            with pytest.raises(QuiesceError, match="request id"):
                await act(verb, rt, run, request_id)
        assert await subject.dump(rt, run.id) == before


async def test_other_text_is_no_id_of_a_start(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: refused before there is a run."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        for request_id in NO_IDS:
            for refused in (rt.start(flow, 1, request_id=request_id), rt.create(flow, request_id=request_id)):
                with pytest.raises(QuiesceError, match="request id"):
                    await refused
        assert list(await rt.list()) == []


async def test_a_refused_request_does_not_use_its_id_up(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: a refusal changes nothing, so the id is free for when it is legal."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.create(flow)
        async with subject.refused(rt, IllegalTransition, run):
            await run.pause(request_id="once")
        await rt.start(flow, 1, run_id=run.id)
        await paused(run)
        ack = await run.pause(request_id="once")
        assert (ack.replayed, ack.locked) == (False, True)


async def test_the_log_has_actor_reason_and_request(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: every verb is recorded in the event log with actor, reason and request id."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1, actor="ann", reason="try it", request_id="r0")
        await stage.wait_came()
        await run.pause(actor="bob", reason="lunch", request_id="r1")
        await run.resume(actor="cat", reason="back", request_id="r2")
        await run.cancel(actor="dan", reason="enough", request_id="r3")
        told = {
            event.request_id: (event.kind, event.actor, event.data.get("reason"))
            for event in await subject.events(rt, run.id)
            if event.request_id is not None
        }
        assert told == {
            "r0": ("started", "ann", "try it"),
            "r1": ("paused", "bob", "lunch"),
            "r2": ("resumed", "cat", "back"),
            "r3": ("cancelled", "dan", "enough"),
        }


async def test_an_actor_is_made_of_user_and_host(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: the default actor is user@host."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        assert (await run.status()).actor == subject.clock.actor()
