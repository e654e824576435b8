"""How is a call stack suspended in the middle of a statement? The only file that knows greenlet.

Theory of operation. A body runs on a greenlet, a call stack of its own. Wherever it stands, however deep,
`suspend(what)` hands `what` to whoever drives it and stops there; `switch(value)` goes on with `value` as
what `suspend` returned, `throw(error)` with an error raised there. Coroutines are driven on the body's
own stack (`await_`), step by step: what the event loop must see is suspended like everything else, and
the driver, which is a task, yields it to the loop. So the body has the driver's task identity and its
cancel scopes, and its own context variables.

The traps of greenlet, each of which is handled here and nowhere else:

1. A result goes to the greenlet's *parent*, not to whoever resumed it. The parent is set before each switch.
2. A new greenlet starts with an empty context. It gets the copy that the caller made, before it starts.
3. A greenlet is bound to its thread; another one gets `greenlet.error`. The owner is remembered, and a
   stranger is refused with `WrongThread`.
4. Switching to a dead greenlet silently gives the argument back. Death is looked at first.
5. Dropping a suspended greenlet raises `GreenletExit` in it, so `finally` blocks run at whatever moment the
   last reference goes, maybe on another thread, and one that suspends in there is revived. So nothing is
   left to the garbage collector: the driver holds the reference, ends the body by `throw`, and a body that
   will not end is kept for ever (`abandon`) and never switched to again.
6. Frames of suspended greenlets are not seen by the garbage collector, so a body that refers to its own
   continuation is never collected. A continuation that has ended lets go of its function and greenlet.
7. At the exit of the interpreter suspended greenlets just vanish: no `finally` runs, and nothing is printed.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from types import CoroutineType, FrameType
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from quiesce.errors import PauseOutsideBody, WrongThread

__all__ = ["Continuation", "Ended"]

T = TypeVar("T")


class Ended:
    """What a switch gives when the function has come to its end: its value, or the error that it raised."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error


class Continuation:
    """One call stack that can be suspended and resumed, by the thread that made it.

    Args:
        function: what runs on it, without arguments.
        context: its context variables; changes stay inside.
    """

    __slots__ = ("_function", "_greenlet", "_thread")

    def __init__(self, function: Callable[[], Any], context: Context) -> None:
        self._thread = threading.get_ident()
        self._function: Callable[[], Any] | None = function
        self._greenlet: Any = greenlet(self._to_its_end)
        self._greenlet.gr_context = context

    # --- for the driver ------------------------------------------------------------------------------

    def switch(self, value: Any = None) -> Any:
        """Start it, or go on with `value`; returns what it suspends with, or `Ended`."""
        self._be_parent()
        return self._greenlet.switch(value) if self._function is None else self._greenlet.switch()

    def throw(self, error: BaseException) -> Any:
        """Go on with this error raised where it stands; returns as `switch`."""
        self._be_parent()
        return self._greenlet.throw(type(error), error, error.__traceback__)

    @property
    def context(self) -> Context:
        """Its context variables; only while it is suspended."""
        found: Context = self._greenlet.gr_context
        return found

    def frame(self) -> FrameType | None:
        """The innermost frame of a suspended stack; `f_back` leads outwards."""
        found: FrameType | None = None if self._greenlet is None else self._greenlet.gr_frame
        return found

    def awaited(self) -> Any:
        """The coroutine that a suspended stack awaits, which has frames of its own; None if it does not."""
        frame = self.frame()
        below = None if frame is None else frame.f_back
        if below is None or below.f_code is not Continuation.await_.__code__:
            return None
        return below.f_locals["steps"]

    def abandon(self) -> None:
        """Keep it as it stands, for ever: dropping it would run it once more."""
        if self._greenlet is not None and not self._greenlet.dead:
            _abandoned.append(self._greenlet)

    def _be_parent(self) -> None:
        if threading.get_ident() != self._thread:
            raise WrongThread(
                f"a body of thread {self._thread} cannot go on in thread {threading.get_ident()}"
            )
        if self._greenlet is None or self._greenlet.dead:
            raise PauseOutsideBody("this body has ended, so there is nothing to go on with")
        self._greenlet.parent = getcurrent()

    # --- for the body --------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this stack."""
        return getcurrent() is self._greenlet

    @property
    def thread(self) -> int:
        """The thread that it belongs to."""
        return self._thread

    @property
    def ended(self) -> bool:
        """Whether it has come to its end."""
        return self._greenlet is None or bool(self._greenlet.dead)

    def suspend(self, what: Any) -> Any:
        """Hand `what` to the driver and stop here; returns what the driver goes on with."""
        return self._greenlet.parent.switch(what)

    def await_(self, awaitable: Awaitable[T]) -> T:
        """Drive an awaitable on this stack; what it yields to the event loop is suspended with."""
        steps: Any = awaitable if isinstance(awaitable, CoroutineType) else awaitable.__await__()
        send = getattr(steps, "send", None) or (lambda _: next(steps))
        advance, argument = send, None
        while True:
            try:
                trap = advance(argument)
            except StopIteration as done:
                value: T = done.value
                return value
            try:
                advance, argument = send, self.suspend(trap)
            except BaseException as error:
                if not hasattr(steps, "throw"):
                    raise
                advance, argument = steps.throw, error
            finally:
                del trap

    def _to_its_end(self) -> Ended:
        function, self._function = self._function, None
        assert function is not None
        try:
            return Ended(function())
        except (KeyboardInterrupt, SystemExit):
            raise  # meant for the process, which is the driver's task
        except BaseException as error:
            return Ended(error=error)


_abandoned: list[Any] = []
