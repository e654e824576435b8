"""How does a body have an effect that counts once: `step`, and several of them at once, `gather`.

A step's effect runs on the body's own stack (an async function is awaited there) or in a worker thread (a
plain function, which may block), so it has the body's context variables and time-outs. What is durable
about it are traps around the effect, `Begin` and `Finish`; a run without a journal makes neither.

An async step is awaited like the function that it was; a plain one gives its value, and lets other bodies
run meanwhile. Called outside a body, a step is just its function. `attempts.py` says how one is carried out.

Source: spec agent, "Steps and the journal" and "Concurrency" (gather).
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

import anyio
import anyio.lowlevel

from quiesce.agent.attempts import begin, carry_out
from quiesce.agent.body import CURRENT, STEP, Body, StepInfo, this_body
from quiesce.agent.journal import Recorded
from quiesce.agent.parameters import Parameters
from quiesce.agent.traps import Settle
from quiesce.errors import Expired, Rejected
from quiesce.threads import run_blocking

__all__ = ["Options", "Step", "StepCall", "call", "current_step", "gather", "step"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Options:
    """How a step is carried out; see `step`."""

    timeout: float | None = None
    retries: int = 0
    on_unknown: Literal["run", "hold"] = "run"
    verify: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError: one of them means nothing."""
        timeout, retries = self.timeout, self.retries
        if timeout is not None and not (_is_number(timeout, int | float) and timeout > 0):
            raise ValueError(f"timeout= is seconds above 0, not {timeout!r}")
        if not (_is_number(retries, int) and retries >= 0):
            raise ValueError(f"retries= is a number from 0, not {retries!r}")
        if self.on_unknown not in ("run", "hold"):
            raise ValueError(f'on_unknown= is "run" or "hold", not {self.on_unknown!r}')
        if self.verify is not None and not callable(self.verify):
            raise ValueError(f"verify= is a function of the step's arguments, not {self.verify!r}")


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def current_step() -> StepInfo:
    """The step that runs here, with the idempotency key to pass on to whoever has the effect.

    Raises:
        LookupError: no step runs here.
    """
    info = STEP.get()
    if info is None:
        raise LookupError("current_step() was called where no step runs; call it inside a @step") from None
    return info


class StepCall(Generic[R]):
    """A step with its arguments, not yet carried out: await it, or give it to `gather`.

    One that is dropped warns, as a coroutine does: what it was to do has not happened.
    """

    __slots__ = ("args", "kwargs", "step", "taken")

    def __init__(self, of: Step[Any, R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.taken = True
        try:
            of.parameters.bind(args, kwargs)
        except TypeError as error:
            raise TypeError(f"{of.kind} {of.name!r} takes {of.parameters}: {error}") from None
        self.step = of
        self.args = args
        self.kwargs = kwargs
        self.taken = False

    def __del__(self) -> None:
        if not self.taken:
            warnings.warn(
                f"{self.step.kind} {self.step.name!r} was called and never carried out: await it, in a plain "
                "body by quiesce.await_(...), or give it to gather",
                RuntimeWarning,
                stacklevel=2,
            )

    def __await__(self) -> Generator[Any, Any, Any]:
        self.taken = True
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        if _is_plain_here():
            return await self.effect()
        body = this_body(f"the step {self.step.name!r}")
        (begun,) = await begin(body, (self,))
        return await carry_out(self, body, begun)

    def digest(self) -> str:
        """A short name for the arguments. Raises NotSerializable: they cannot be stored."""
        return self.step.parameters.digest(self.args, self.kwargs, f"{self.step.kind} {self.step.name!r}")

    async def effect(self) -> Any:
        """The function itself, within its time-out."""
        timeout = self.step.options.timeout
        try:
            with anyio.fail_after(timeout):
                return await call(self.step.function, self.args, self.kwargs)
        except TimeoutError as error:
            if timeout is None or str(error):
                raise
            raise TimeoutError(
                f"step {self.step.name!r} took longer than its time-out of {timeout:g} s"
            ) from None


async def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Await an async function; run a plain one, which may block, in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await run_blocking(functools.partial(function, *args, **kwargs))


class Step(Generic[P, R]):
    """A function whose calls in a body are recorded. Made by `@step`."""

    kind = "step"

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        """Raises TypeError: it cannot be called as one piece of work, or does not say what it takes."""
        self.function: Any = function
        self.options = options
        self.name = getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
        self.is_async = inspect.iscoroutinefunction(function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"@{self.kind}: {self.name} is a generator function; calling it would run nothing. "
                "Return a list of what it yields"
            )
        try:
            self.parameters = Parameters(function)
        except ValueError:
            raise TypeError(
                f"@{self.kind}: {self.name} does not say what it takes; call it in a def of your own"
            ) from None
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """In a body: carry the step out. Elsewhere: call the function."""
        if _is_plain_here():
            return cast(R, self.function(*args, **kwargs))
        made = self.call(*args, **kwargs)
        if self.is_async:
            return cast(R, made)
        return cast(R, this_body(f"the step {self.name!r}").await_(made))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R]:
        """The step with its arguments, to be carried out by `gather`."""
        return StepCall(self, args, kwargs)

    def needs_approval(self, made: StepCall[Any]) -> bool:
        """Whether a person must approve this call first."""
        return False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise TypeError(
            f"{self.name!r} is a method, whose object could not be stored with its arguments; make it a "
            "function, or call step(object.method, …)"
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R: ...
@overload
def step(
    *,
    timeout: float | None = None,
    retries: int = 0,
    on_unknown: Literal["run", "hold"] = "run",
    verify: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Any = None, /, *args: Any, **kwargs: Any) -> Any:
    """Make a function a step: `@step`, `@step(timeout=5)`; or in a body carry one out: `step(f, *args)`.

    `step(f)` in a body calls `f` if that needs no arguments; everywhere else it makes `f` a step.

    Args:
        timeout: seconds that one attempt may take. `TimeoutError` is raised then; a blocking function goes
            on in its thread, and nobody hears of its outcome.
        retries: how many more attempts follow one that raised, with growing, jittered waits in between.
        on_unknown: what happens if a process died while the step ran, so that nobody knows whether its
            effect happened: `"run"` it again (with the same `current_step().key`), or `"hold"`: ask a person.
        verify: called with the arguments of the step in that case: returns what the step would have
            returned if its effect happened (True, for a step that returns nothing), else None.
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
    return CURRENT.get(None) is None or STEP.get() is not None


def _needs_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    return True


def gather(*calls: StepCall[Any] | Awaitable[Any]) -> list[Any]:
    """Carry out several steps at once; returns their values in order.

    Give it calls of async steps, and `f.call(…)` of plain ones. The first error cancels the others and is
    raised here; a rejected action lets the others come to their end first. A plain call in any body, as
    `pause` is.

    Raises:
        PauseOutsideBody, WrongThread
    """
    body = this_body("gather()")
    for call in calls:
        if isinstance(call, StepCall):
            call.taken = True
    for number, call in enumerate(calls, 1):
        if not isinstance(call, StepCall | Awaitable):
            raise TypeError(
                f"gather() takes calls of async steps, and f.call(…) of plain ones; number {number} is "
                f"{type(call).__name__}: {call!r}"
            )
    return body.await_(_gather(body, calls))


async def _gather(body: Body, calls: tuple[StepCall[Any] | Awaitable[Any], ...]) -> list[Any]:
    # Every step has its place in the journal before any of them begins.
    steps = [call for call in calls if isinstance(call, StepCall)]
    begun = iter(await begin(body, tuple(steps)))
    permits = [next(begun) if isinstance(call, StepCall) else None for call in calls]
    if all(isinstance(permit, Recorded) and permit.error is None for permit in permits):
        return [permit.value for permit in permits if isinstance(permit, Recorded)]
    values: list[Any] = [None] * len(calls)
    failure: BaseException | None = None

    first_moves = 0

    async def one(index: int) -> None:
        nonlocal failure, first_moves
        call = calls[index]
        try:
            while first_moves < index:  # tasks begin in any order on trio
                await anyio.lowlevel.checkpoint()
            first_moves = index + 1
            values[index] = (
                await carry_out(call, body, permits[index]) if isinstance(call, StepCall) else await call
            )
        except Exception as error:
            failure = failure or error
            if not isinstance(error, Rejected | Expired):  # which is decided for one call alone
                group.cancel_scope.cancel()
        finally:
            body.tasks -= 1
        if body.idle and body.idle == body.tasks:
            await body.serve(Settle())

    body.gathers, body.tasks = True, len(calls)
    try:
        async with anyio.create_task_group() as group:
            for index in range(len(calls)):
                group.start_soon(one, index)
    finally:
        body.gathers, body.tasks = False, 0
    if failure is not None:
        raise failure
    return values
