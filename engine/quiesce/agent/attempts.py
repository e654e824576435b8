"""How is one step carried out: what is recorded, what nobody knows, attempts and their outcome?

In order: what the journal has of it is given back. An action asks for its approval. A step that began in a
process that died is *unknown*: `verify` finds out, or a person says, or it runs again. Then it is attempted
until it succeeds or its retries are used up; every attempt is kept before the function is called, and its
outcome before the body goes on.

Source: spec agent, "Steps and the journal", "Actions that need approval".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from quiesce.agent.body import STEP, Body, StepInfo
from quiesce.agent.journal import Cancelled, Permit, Recorded
from quiesce.agent.traps import Approve, Attempt, Begin, Doubt, Finish, Safepoint

if TYPE_CHECKING:
    from quiesce.agent.steps import StepCall

__all__ = ["begin", "carry_out"]

FIRST_WAIT = 0.1
"""Seconds before the first retry, and the most of its jitter; each further wait is twice as long."""
LONGEST_WAIT = 60.0

Begun = Permit | Recorded | Cancelled | None


async def begin(body: Body, calls: tuple[StepCall[Any], ...]) -> list[Begun]:
    """A safe point; then, of a body with a journal, what that says of these steps."""
    if body.fenced:
        await body.serve(Safepoint())
    if not body.journal:
        return [None] * len(calls)
    begun: list[Begun] = await body.serve(Begin(calls))
    return begun


async def carry_out(made: StepCall[Any], body: Body, begun: Begun) -> Any:
    """Give what is recorded, or have the effect and record it."""
    if isinstance(begun, Recorded):
        if begun.error is not None:
            raise begun.error
        return begun.value
    if isinstance(begun, Cancelled):
        await anyio.sleep_forever()
        raise AssertionError("it is cancelled once more")
    step, permit = made.step, begun
    if permit.asks if permit is not None else step.needs_approval(made):
        named = await body.serve(Approve(made, permit))
        made.args, made.kwargs = step.parameters.call(named)
    key = permit.key if permit is not None else f"step-{body.clock.uuid().hex}"
    if permit is not None and permit.unknown:
        known = await _find_out(made, body, permit)
        if known is not None:
            await _finish(body, permit, Finish(permit, known.value, returns=step.parameters.returns))
            return known.value
    return await _attempt(made, body, permit, key)


async def _attempt(made: StepCall[Any], body: Body, permit: Permit | None, key: str) -> Any:
    options, returns = made.step.options, made.step.parameters.returns
    number = permit.entry.attempt if permit is not None else 0
    left = max(options.retries + 1 - number, 1)

    async def once() -> Any:
        nonlocal number, left
        number, left = number + 1, left - 1
        if permit is not None:
            await body.serve(Attempt(permit, made.digest() if made.step.kind == "action" else None))
        token = STEP.set(StepInfo(made.step.name, key, number))
        try:
            value = await made.effect()
        except Exception as error:
            STEP.reset(token)
            outcome: Any = "failed-once" if left else "failed"
            given = await _finish(body, permit, Finish(permit, error=error, outcome=outcome))
            if given is None or given is error:
                raise
            raise given from error
        except anyio.get_cancelled_exc_class():
            STEP.reset(token)
            with anyio.CancelScope(shield=True):
                await _finish(body, permit, Finish(permit, outcome="cancelled"))
            raise
        except BaseException:
            STEP.reset(token)
            raise
        STEP.reset(token)
        refused = await _finish(body, permit, Finish(permit, value, returns=returns))
        if refused is not None:
            raise refused
        return value

    return await once() if left == 1 else await _retried(once, left, body.clock.sleep)


async def _finish(body: Body, permit: Permit | None, trap: Finish) -> Exception | None:
    return None if permit is None else await body.serve(trap)


async def _retried(
    once: Callable[[], Awaitable[Any]], attempts: int, sleep: Callable[[float], Awaitable[None]]
) -> Any:
    from tenacity import (
        AsyncRetrying,
        retry_if_exception_type,
        stop_after_attempt,
        wait_exponential,
        wait_random,
    )

    retrying = AsyncRetrying(
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT) + wait_random(0, FIRST_WAIT),
        retry=retry_if_exception_type(Exception),
        sleep=sleep,
        reraise=True,
    )
    return await retrying(once)


async def _find_out(made: StepCall[Any], body: Body, permit: Permit) -> Recorded | None:
    """What an unknown step gave, if its effect happened; None if it is to be run (again)."""
    from quiesce.agent.steps import call

    step, problem = made.step, None
    if step.options.verify is not None:
        token = STEP.set(StepInfo(step.name, permit.key, permit.attempt))
        try:
            seen = await call(step.options.verify, made.args, made.kwargs)
        except Exception as error:
            problem = f"verify raised {type(error).__name__}: {error}"
        else:
            if seen is None or seen is False:
                return None
            return Recorded(None if step.parameters.returns is type(None) else seen)
        finally:
            STEP.reset(token)
    if step.options.on_unknown == "run" and problem is None:
        return None
    told: Recorded | None = await body.serve(Doubt(made, permit, problem))
    return told
