"""How is one visit evaluated: a node, then its transition?

Synchronous nodes are evaluated on the spot. What has to be awaited becomes a task, except that a run with
a single branch awaits it in its driver, since nothing else of it could run meanwhile. Node retries and
time-outs are here; what a result does to the run is the driver's.

Source: spec graph (model: nodes; deliberate deviations on errors).
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from quiesce import codec
from quiesce.backend import Host
from quiesce.errors import Expired, InputRejected, NodeError, QuiesceError, RunCancelled, StoreError
from quiesce.graph import Graph, NodeContext, NodeRef, bind, bind_transition, needs_context, resolve
from quiesce.graph.rows import Branch
from quiesce.graph.transitions import Case, Error, Pause
from quiesce.graph.walk import Walk
from quiesce.records import HoldRecord, RunRecord
from quiesce.states import RunState
from quiesce.store import Reader
from quiesce.threads import run_blocking

from .frontier import Links

__all__ = ["Again", "Hang", "NodeVisits", "Refused", "Result", "Unreadable", "Visiting"]

T = TypeVar("T")
_NO_SPAN = nullcontext()

TURNS = 32
"""Visits in a row without a wait before the event loop gets its turn."""


class Again:
    """The result of a visit that failed and is to be tried once more."""

    __slots__ = ("attempt",)

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt


class Hang:
    """The result of a visit whose node is a flow: the branch waits for a run of it."""

    __slots__ = ()


class Refused:
    """The result of a visit for which the store could not be read: no failure of its node."""

    __slots__ = ("error",)

    def __init__(self, error: StoreError) -> None:
        self.error = error


class Unreadable(Exception):
    """Raised past what catches the errors of nodes."""

    def __init__(self, error: StoreError) -> None:
        self.error = error


Result = Case | Again | Hang


class NodeVisits:
    """The compiled functions of one node."""

    __slots__ = ("context", "decide", "evaluate", "inline", "node")

    def __init__(self, node: NodeRef[Any, Any]) -> None:
        self.node = node
        self.context = needs_context(node)
        self.evaluate = None if node.flow is not None else bind(node)
        self.decide = bind_transition(node)
        self.inline = not (node.blocking or node.timeout or node.retries or node.flow is not None)


class Visiting:
    """Evaluates the visits of one run and hands their results to `done`.

    `stopped` says that the run is paused or over: then nothing is tried again.
    """

    def __init__(
        self,
        host: Host,
        graph: Graph,
        run_id: str,
        walk: Walk,
        links: Links,
        done: Callable[[Branch, Result | Refused], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._host = host
        self._graph = graph
        self._run_id = run_id
        self._walk = walk
        self._links = links
        self._done = done
        self._stopped = stopped
        self.nodes = {name: NodeVisits(ref) for name, ref in graph.nodes.items()}
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._refused: dict[int, str] = {}
        """Why the answer of a gate is asked for again, by branch."""
        self._unbegun: deque[Branch] = deque()
        self._spans: dict[int, Any] = {}
        self._backoffs: set[anyio.CancelScope] = set()
        self._inline: anyio.CancelScope | None = None
        self._turns = 0

    @property
    def waits(self) -> bool:
        """A visit is awaited in the driver itself, or waits for its next try: it must hear of changes."""
        return self._inline is not None or bool(self._backoffs)

    def interrupt(self, *, ended: bool) -> None:
        """The run is paused or over: stop waiting for another try, and if it is over, for the visit."""
        if ended and self._inline is not None:
            self._inline.cancel()
        for scope in list(self._backoffs):
            scope.cancel()

    def cancel(self, branch_id: int) -> None:
        """Stop a visit that is in flight and no longer wanted."""
        scope = self._scopes.get(branch_id)
        if scope is not None:
            scope.cancel()

    async def begin(self, taken: list[Branch], tasks: TaskGroup) -> None:
        """Begin the visits of branches that were taken, in their order; results go to `done` as they come.

        Returns when all of them have begun, so nothing that is queued later can overtake one.
        """
        alone = len(taken) == 1 and self._walk.sole
        traces = self._host.traces
        for branch in taken:
            visits = self.nodes[branch.node]
            with self._span(branch) if traces.on else _NO_SPAN:
                if visits.inline and (alone or not visits.node.is_async):
                    if self._unbegun:
                        await self._let_begin()
                    await self._begin_inline(branch, visits, alone, tasks)
                else:
                    self._start(branch, tasks, self._attempts, branch, visits, tasks)
        if self._unbegun:
            await self._let_begin()
        self._turns += len(taken)
        if self._turns >= TURNS:
            self._turns = 0
            await anyio.lowlevel.checkpoint()

    def ask(self, branch: Branch) -> Result:
        """The visit of a gate that nobody was asked by yet, on the spot."""
        visits, ctx = self.nodes[branch.node], self._context(branch)
        assert visits.evaluate is not None
        with self._span(branch) if self._host.traces.on else _NO_SPAN:
            try:
                result: Result = self._resolve(branch, visits.decide(visits.evaluate(branch.input, ctx), ctx))
            except Exception as error:
                result = self.error(branch, error)
        if self._spans:
            self._end_span(branch, type(result).__name__.lower(), result)
        return result

    @contextmanager
    def _span(self, branch: Branch) -> Iterator[None]:
        """The span of a visit, current for what begins in it; it ends with the visit."""
        facts = {"node": branch.node, "branch": branch.id, "attempt": branch.attempt}
        with self._host.traces.piece("visit", self._run_id, **facts) as span:
            self._spans[branch.id] = span
            yield

    def _finish(self, branch: Branch, result: Result | Refused) -> None:
        problem = self._refused.pop(branch.id, None)
        if problem is not None and isinstance(result, Pause):
            result = replace(result, reason=f"{result.reason} ({problem})")
        if self._spans:
            self._end_span(branch, type(result).__name__.lower(), result)
        self._done(branch, result)

    def _end_span(self, branch: Branch, did: str, result: Result | Refused | None = None) -> None:
        span = self._spans.pop(branch.id, None)
        if span is not None:
            cause = result.cause if isinstance(result, Error) else None
            self._host.traces.done(span, did, cause if isinstance(cause, Exception) else None)

    async def _begin_inline(self, branch: Branch, visits: NodeVisits, alone: bool, tasks: TaskGroup) -> None:
        assert visits.evaluate is not None
        try:
            ctx = self._context(branch) if visits.context else None
            output = visits.evaluate(branch.input, ctx)
            if not inspect.isawaitable(output):
                returned = visits.decide(output, ctx)
                if not inspect.isawaitable(returned):
                    self._finish(branch, self._resolve(branch, returned))
                    return
                rest = self._decided(branch, returned)
            else:
                rest = self._evaluated(branch, visits, output, ctx)
        except Unreadable as unreadable:
            self._finish(branch, Refused(unreadable.error))
            return
        except Exception as error:
            self._finish(branch, self.error(branch, error))
            return
        if alone:
            try:
                with anyio.CancelScope() as self._inline:
                    self._finish(branch, await self._outcome(branch, rest))
                self._inline = None
            finally:
                self._end_span(branch, "cancelled")
        else:
            self._start(branch, tasks, lambda: rest)

    def _start(
        self, branch: Branch, tasks: TaskGroup, evaluate: Callable[..., Awaitable[Result]], *args: Any
    ) -> None:
        """Let a task of its own evaluate a visit."""
        scope = self._scopes[branch.id] = anyio.CancelScope()
        self._unbegun.append(branch)
        tasks.start_soon(self._visit, branch, scope, evaluate, *args)

    async def _let_begin(self) -> None:
        """Wait until every visit that was started has begun."""
        while self._unbegun:
            await anyio.lowlevel.checkpoint()

    async def _visit(
        self,
        branch: Branch,
        scope: anyio.CancelScope,
        evaluate: Callable[..., Awaitable[Result]],
        *args: Any,
    ) -> None:
        try:
            with scope:
                try:
                    while self._unbegun[0] is not branch:  # tasks begin in any order on trio
                        await anyio.lowlevel.checkpoint()
                finally:
                    self._unbegun.remove(branch)
                self._finish(branch, await self._outcome(branch, evaluate(*args)))
        finally:
            self._end_span(branch, "cancelled")
            if self._scopes.get(branch.id) is scope:
                del self._scopes[branch.id]

    async def _outcome(self, branch: Branch, evaluation: Awaitable[Result]) -> Result | Refused:
        """What an evaluation gives; one that ends as cancelled, though nobody cancels it, has failed."""
        try:
            return await evaluation
        except Unreadable as unreadable:
            return Refused(unreadable.error)
        except anyio.get_cancelled_exc_class() as error:
            if anyio.current_effective_deadline() == -math.inf:
                raise
            return self.error(branch, error)

    async def _attempts(self, branch: Branch, visits: NodeVisits, tasks: TaskGroup) -> Result:
        """Evaluate a node with its time-out, and again as often as it may be tried."""
        if visits.node.flow is not None:
            return await self._child_outcome(branch, visits)
        attempt = branch.attempt
        while True:
            try:
                ctx = self._context(branch, attempt) if visits.context else None
                output = await self._timed(visits, branch, ctx, tasks)
                returned = visits.decide(output, ctx)
                if inspect.isawaitable(returned):
                    returned = await returned
                return self._resolve(branch, returned)
            except Unreadable:
                raise
            except Exception as error:
                if attempt > visits.node.retries or isinstance(error, Expired):
                    return self.error(branch, error)
                attempt += 1
                if visits.node.backoff and not self._is_stopped():
                    await self._back_off(visits.node.backoff * 2 ** (attempt - 2))
                if self._is_stopped():
                    return Again(attempt)

    async def _timed(
        self, visits: NodeVisits, branch: Branch, ctx: NodeContext | None, tasks: TaskGroup
    ) -> Any:
        seconds = visits.node.timeout
        if seconds is None:
            return await self._evaluation(visits, branch, ctx)
        watch = anyio.CancelScope()
        with anyio.CancelScope() as evaluation:
            tasks.start_soon(self._stop_after, seconds, watch, evaluation)
            try:
                return await self._evaluation(visits, branch, ctx)
            finally:
                watch.cancel()
        raise TimeoutError(f"it took longer than its time-out of {seconds:g} s")

    async def _stop_after(
        self, seconds: float, watch: anyio.CancelScope, evaluation: anyio.CancelScope
    ) -> None:
        with watch:
            await self._host.clock.sleep(seconds)
            evaluation.cancel()

    async def _evaluation(self, visits: NodeVisits, branch: Branch, ctx: NodeContext | None) -> Any:
        assert visits.evaluate is not None
        if visits.node.blocking:
            return await run_blocking(partial(visits.evaluate, branch.input, ctx))
        output = visits.evaluate(branch.input, ctx)
        return await output if inspect.isawaitable(output) else output

    async def _back_off(self, seconds: float) -> None:
        with anyio.CancelScope() as scope:
            self._backoffs.add(scope)
            try:
                await self._host.clock.sleep(seconds)
            finally:
                self._backoffs.discard(scope)

    async def _evaluated(
        self, branch: Branch, visits: NodeVisits, output: Awaitable[Any], ctx: NodeContext | None
    ) -> Result:
        try:
            returned = visits.decide(await output, ctx)
            if inspect.isawaitable(returned):
                returned = await returned
            return self._resolve(branch, returned)
        except Exception as error:
            return self.error(branch, error)

    async def _decided(self, branch: Branch, returned: Awaitable[Any]) -> Result:
        try:
            return self._resolve(branch, await returned)
        except Exception as error:
            return self.error(branch, error)

    def _resolve(self, branch: Branch, returned: Any) -> Result:
        case = resolve(self._graph, branch.node, returned, self._walk.arrives_at(branch.id))
        return self.error(branch, case.cause) if isinstance(case, Error) else case

    async def _child_outcome(self, branch: Branch, visits: NodeVisits) -> Result:
        child_id = self._links.child.get(branch.id)
        child = None if child_id is None else self._read(lambda tx: tx.run(child_id))
        if child is None or (child.state is RunState.CANCELLED and branch.attempt > 1):
            return Hang()
        try:
            if child.state is RunState.COMPLETED:
                returned = visits.decide(self._value_of(child), None)
                if inspect.isawaitable(returned):
                    returned = await returned
                return self._resolve(branch, returned)
            if child.state is RunState.FAILED:
                raise self._host.error_of(child)
            if child.state is RunState.CANCELLED:
                branch.attempt += 1  # a retry of this run starts another one
                raise RunCancelled(child.id)
            return Hang()
        except Unreadable:
            raise
        except Exception as error:
            return self.error(branch, error)

    def _read(self, work: Callable[[Reader], T]) -> T:
        try:
            return self._host.read(work)
        except StoreError as error:
            raise Unreadable(error) from error

    def _value_of(self, child: RunRecord) -> Any:
        try:
            return self._host.value_of(child)
        except StoreError as error:
            raise Unreadable(error) from error

    def _is_stopped(self) -> bool:
        try:
            return self._stopped()
        except StoreError as error:
            raise Unreadable(error) from error

    def _context(self, branch: Branch, attempt: int | None = None) -> NodeContext:
        """What the node may know of its visit. Raises Expired if its question did."""
        hold = self._hold(branch)
        answered = hold is not None and hold.state == "answered"
        answer = None
        if hold is not None and hold.state == "expired":
            raise Expired(f"hold {hold.id!r} ({hold.reason or hold.path}) expired")
        if hold is not None and answered:
            gate = self._graph.nodes[branch.node].gate
            answer = hold.answer
            if gate is not None and gate.expects is not None:
                try:
                    answer = codec.validate_json(answer, gate.expects)
                except InputRejected as refused:  # whoever answered could not know the type
                    self._refused[branch.id] = f"the last one was refused: {refused}"
                    answered = False
        return NodeContext(
            run=self._run_id,
            branch=branch.id,
            attempt=attempt or branch.attempt,
            answered=answered,
            given=answer,
            rejected=hold.answer if hold is not None and hold.state == "rejected" else None,
        )

    def _hold(self, branch: Branch) -> HoldRecord | None:
        hold_id = self._links.hold.get(branch.id)
        return None if hold_id is None else self._read(lambda tx: tx.hold(hold_id))

    def error(self, branch: Branch, cause: BaseException | str) -> Error:
        """The failure of a branch, with the node's name and the error itself as its cause."""
        if isinstance(cause, str):
            error = NodeError(branch.node, branch.id, f"node {branch.node!r} failed: {cause}")
        else:
            text = str(cause) or type(cause).__name__
            named = text if isinstance(cause, QuiesceError) else f"{type(cause).__name__}: {text}"
            error = NodeError(branch.node, branch.id, f"node {branch.node!r} failed: {named}")
            error.__cause__ = cause
        return Error(error)
