"""The synchronous face: the verbs of `Runtime` and `Run` without `await`, from any thread.

A wrapper, not a twin: an event loop runs in a thread of its own, and every call is the async call, sent
there. `with Runtime.blocking("flows.db") as rt: outcome = rt.run(flow, 3)`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["BlockingRuntime"]


class BlockingRuntime:
    """A context manager with the verbs of `Runtime`; what they return has blocking verbs too."""

    def __init__(self, make: Callable[[], Runtime]) -> None:
        self._make = make
        self._exit = ExitStack()
        self._portal: BlockingPortal | None = None
        self._runtime: Runtime | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            manager: AbstractContextManager[Runtime] = self._portal.wrap_async_context_manager(self._make())
            self._runtime = stack.enter_context(manager)
            self._exit = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._exit.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._runtime is None:
            raise AttributeError(name)
        return _blocking(getattr(self._runtime, name), self._portal)


class _Blocking:
    """A value of the async API (a run, a paused outcome) whose coroutine methods block."""

    def __init__(self, value: Any, portal: BlockingPortal) -> None:
        self._value = value
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        return _blocking(getattr(self._value, name), self._portal)

    def __repr__(self) -> str:
        return repr(self._value)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """It is what it stands for: `isinstance(outcome, Paused)` and `match` see through it."""
        return self._value.__class__


def _blocking(value: Any, portal: Any) -> Any:
    from quiesce.handles import Paused, Run

    if isinstance(value, Run | Paused):
        return _Blocking(value, portal)
    if inspect.ismethod(value) and (
        inspect.iscoroutinefunction(value) or getattr(value, "__name__", "") == "events"
    ):
        return partial(_call, value, portal)
    if inspect.ismethod(value):
        return lambda *args, **kwargs: portal.call(partial(value, *args, **kwargs))
    return value


def _call(method: Any, portal: BlockingPortal, *args: Any, **kwargs: Any) -> Any:
    args = tuple(arg._value if isinstance(arg, _Blocking) else arg for arg in args)
    if not inspect.iscoroutinefunction(method):
        return _iterate(method(*args, **kwargs), portal)
    return _blocking(portal.call(partial(method, *args, **kwargs)), portal)


def _iterate(stream: AsyncGenerator[Any, None], portal: BlockingPortal) -> Iterator[Any]:
    try:
        while True:
            try:
                yield portal.call(lambda: anext(stream))
            except StopAsyncIteration:
                return
    finally:
        portal.call(stream.aclose)
