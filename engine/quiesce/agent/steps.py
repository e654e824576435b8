"""How does a body have an effect that counts once: `step`, and several of them at once, `gather`.

A step's effect runs on the body's own stack (an async function is awaited there) or in a worker thread (a
plain function, which may block), so it has the body's context variables and time-outs. What is durable
about it are two traps around the effect, `Begin` and `Finish`; a run without a journal makes neither.

An async step is awaited like the function that it was; a plain one gives its value, and lets other bodies
run meanwhile. Called outside a body, a step is just its function.

Source: spec agent, "Steps and the journal" and "Concurrency" (gather).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

import anyio

from quiesce.agent.body import CURRENT, Body, this_body
from quiesce.agent.journal import Permit, Recorded
from quiesce.agent.traps import Begin, Finish, Safepoint
from quiesce.threads import run_blocking

__all__ = ["Options", "Step", "StepCall", "StepInfo", "current_step", "gather", "step"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Options:
    """How a step is carried out. `timeout` is in seconds, of one attempt."""

    timeout: float | None = None
    on_unknown: Literal["run", "hold"] = "run"
    verify: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The step that runs here. `key` is the same for every attempt at it, in every process."""

    name: str
    key: str
    attempt: int


_CURRENT: ContextVar[StepInfo] = ContextVar("quiesce_step")


def current_step() -> StepInfo:
    """The step that runs here, with the idempotency key to pass on to whoever has the effect.

    Raises:
        LookupError: no step runs here.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise LookupError("current_step() was called where no step runs; call it inside a @step") from None


class StepCall(Generic[R]):
    """A step with its arguments, not yet carried out: await it, or give it to `gather`."""

    __slots__ = ("arguments", "step")

    def __init__(self, of: Step[Any, R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.step = of
        self.arguments = (args, kwargs)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        if _is_plain_here():
            return await self.effect()
        body = this_body(f"the step {self.step.name!r}")
        return await self.carry_out(body, await self.begin(body))

    async def begin(self, body: Body) -> Permit | Recorded | None:
        """A safe point; then, of a body with a journal, what it says of this step."""
        if body.fenced:
            await body.serve(Safepoint())
        if not body.journal:
            return None
        begun: Permit | Recorded = await body.serve(Begin(self.step.name, self.arguments, self.step.options))
        return begun

    async def carry_out(self, body: Body, permit: Permit | Recorded | None) -> Any:
        """Give what is recorded, or have the effect and record it."""
        if isinstance(permit, Recorded):
            if permit.error is not None:
                raise permit.error
            return permit.value
        info = StepInfo(self.step.name, permit.key if permit else "", permit.attempt if permit else 1)
        token = _CURRENT.set(info)
        try:
            value = await self.effect()
        except Exception as error:
            if permit is not None:
                await body.serve(Finish(permit, error=error))
            raise
        finally:
            _CURRENT.reset(token)
        if permit is not None:
            await body.serve(Finish(permit, value))
        return value

    async def effect(self) -> Any:
        """The function itself, within its time-out."""
        function, (args, kwargs) = self.step.function, self.arguments
        timeout = self.step.options.timeout
        try:
            with anyio.fail_after(timeout):
                if self.step.is_async:
                    return await function(*args, **kwargs)
                return await run_blocking(functools.partial(function, *args, **kwargs))
        except TimeoutError as error:
            if timeout is None or str(error):
                raise
            raise TimeoutError(
                f"step {self.step.name!r} took longer than its time-out of {timeout:g} s"
            ) from None


class Step(Generic[P, R]):
    """A function whose calls in a body are recorded. Made by `@step`."""

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        self.function: Any = function
        self.options = options
        self.name = getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
        self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """In a body: carry the step out. Elsewhere: call the function."""
        if _is_plain_here():
            return cast(R, self.function(*args, **kwargs))
        call = self.call(*args, **kwargs)
        if self.is_async:
            return cast(R, call)
        return cast(R, this_body(f"the step {self.name!r}").await_(call))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R]:
        """The step with its arguments, to be carried out by `gather`."""
        return StepCall(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R: ...
@overload
def step(
    *,
    timeout: float | None = None,
    on_unknown: Literal["run", "hold"] = "run",
    verify: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Any = None, /, *args: Any, **kwargs: Any) -> Any:
    """Make a function a step: `@step`, `@step(timeout=5)`; or in a body carry one out: `step(f, *args)`.

    `step(f)` in a body calls `f` if that needs no arguments; everywhere else it makes `f` a step.
    """
    if function is None:
        options = Options(**kwargs)
        return lambda decorated: Step(decorated, options)
    made = function if isinstance(function, Step) else Step(function, Options())
    if args or kwargs or (CURRENT.get(None) is not None and _needs_nothing(made.function)):
        return made(*args, **kwargs)
    return made


def _is_plain_here() -> bool:
    """Whether a step is a plain call here: outside a body, and inside another step, which is recorded."""
    return CURRENT.get(None) is None or _CURRENT.get(None) is not None


def _needs_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True


def gather(*calls: StepCall[Any] | Awaitable[Any]) -> list[Any]:
    """Carry out several steps at once; returns their values in order.

    Give it calls of async steps, and `f.call(…)` of plain ones. The first error cancels the others and is
    raised here. A plain call in any body, as `pause` is.

    Raises:
        PauseOutsideBody, WrongThread
    """
    body = this_body("gather()")
    return body.await_(_gather(body, calls))


async def _gather(body: Body, calls: tuple[StepCall[Any] | Awaitable[Any], ...]) -> list[Any]:
    # Every step has its place in the journal before any of them begins.
    begun = [await call.begin(body) if isinstance(call, StepCall) else None for call in calls]
    values: list[Any] = [None] * len(calls)
    failure: Exception | None = None

    async def one(index: int) -> None:
        nonlocal failure
        call = calls[index]
        try:
            values[index] = (
                await call.carry_out(body, begun[index]) if isinstance(call, StepCall) else await call
            )
        except Exception as error:
            failure = failure or error
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index in range(len(calls)):
            group.start_soon(one, index)
    if failure is not None:
        raise failure
    return values
