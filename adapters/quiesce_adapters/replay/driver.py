"""How is one run of a graph driven, in the process that holds its lease?

Theory of operation. The walk says which branches may begin; a visit evaluates a node and its transition;
results are applied one at a time, in the order of completion, in a transaction that also takes what begins
next; those after which nothing begins (as while a pause drains) share it. So a durable run costs at most
one commit per visit, and after a kill every row says what was queued and what was in flight. A visit that
begins is marked in the transaction that took it, never before: if the fence committed first, the
transaction sees it and nothing begins.

`visiting.py` evaluates. A run in memory whose visit just goes on writes nothing at all: its frontier is the
walk itself.

Source: spec graph (scheduling, pause, durable graphs); spec engine, 4 (pause).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio

from quiesce.backend import Host
from quiesce.errors import Expired, FlowChanged, NodeError, QuiesceError, Rejected, StaleLease, StoreBusy
from quiesce.frames import Frame
from quiesce.graph import Graph
from quiesce.graph.rows import Branch
from quiesce.graph.transitions import Error, FanOut, Finish, Join, Next, Pause
from quiesce.graph.walk import Applied, Walk
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules import claims, ending, fence
from quiesce.signals import Signal
from quiesce.states import RunState
from quiesce.store import Transaction

from .asking import answer_type, check_answer
from .frontier import Links, LiveFrontier, Packed, Refs, pack_result, restore, save
from .holding import abandon, ask, fence_for, hang, is_open, withdraw
from .visited import told
from .visiting import Again, Hang, Refused, Result, Visiting

__all__ = ["ReplayDriver"]

TOGETHER = 100
"""Results that share a transaction at most: others wait for it, a fence among them."""


class ReplayDriver:
    """Drives one run of a graph until it ends or its lease is lost."""

    def __init__(self, host: Host, run: RunRecord, graph: Graph) -> None:
        self._host = host
        self._graph = graph
        self._run = run
        self._epoch = run.lease_epoch
        self._durable = host.store.durable
        self._walk = Walk(graph.concurrency, record=False)
        self._links = Links()
        self._results: deque[tuple[Branch, Result | Refused, str]] = deque()
        """Visits that are over: the branch, what came of it, the node that it visited."""
        self._signal = Signal()
        self._noticed = True
        self._paused = False
        self._over = False
        self._visiting: Visiting | None = None
        self._generation = run.generation
        self._draining: set[int] = set()
        """Branches whose visit began before a fence, and that have not yielded since."""
        self._expects: dict[int, Any] = {}
        """The type of the answer that each branch asks for, of those that asked here."""
        self._resting = False
        """Whether the driver waits for news, and so may be joined."""
        self._joined: list[Branch] = []
        """Branches that were taken in the transaction of a verb, and are to begin."""
        self._unsure: list[Branch] = []
        """The same, while it is not known whether that transaction was committed."""
        self._heard = False
        """Whether `notify` is called next for what this driver did, or was there for."""
        self._unanswered: set[int] = set()
        """Branches whose visit began while what they ask was open."""

    # --- the loop ----------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run what may run until the run has ended or the lease is lost."""
        try:
            await self._load()
        except FlowChanged as changed:  # accepted, but where the run stands there is nothing to go on with
            reason = str(changed)
            await self._host.write(lambda tx: claims.fault(tx, self._current(tx), reason))
            return
        self._visiting = Visiting(
            self._host, self._graph, self._run.id, self._walk, self._links, self._done, self._is_stopped
        )
        failure: Exception | None = None
        if self._durable:
            self._host.joins[self._run.id] = self._join
        async with anyio.create_task_group() as self._tasks:
            try:
                while not self._over:
                    if self._joined:
                        taken, self._joined = self._joined, []
                        await self._begin(taken)
                    elif self._results:
                        await self._step(*self._results.popleft())
                    elif self._noticed:
                        self._noticed = False
                        await self._begin(await self._commit(None))
                    else:
                        self._resting = True
                        await self._signal.wait()
                        self._resting = False
            except StaleLease:
                pass  # replaced, reset or cancelled: whoever did that has said so
            except Exception as error:  # carried out of the group, which would wrap it
                failure = error
            finally:
                self._host.joins.pop(self._run.id, None)
            self._tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def check_answer(self, hold: HoldRecord, value: Any) -> None:
        """Hold an answer against the type that the gate or the transition declared. Raises InputRejected."""
        declared = self._expects.get(hold.piece)
        check_answer(answer_type(self._graph, hold.path) if declared is None else declared, value)

    def frames(self) -> list[Frame]:
        """A graph has no suspended stack: its nodes are evaluated again."""
        return []

    def notify(self) -> None:
        """The run's rows changed: look again, unless it was there."""
        self._noticed, self._heard = self._noticed or not self._heard, False
        self._signal.set()
        if self._visiting is not None and self._visiting.waits:
            run = self._host.read(lambda tx: tx.run(self._run.id))
            gone = run is None or run.lease_epoch != self._epoch or run.lease_holder != self._host.worker
            if gone or run is None or run.state is not RunState.RUNNING:
                self._visiting.interrupt(ended=gone or run is None or run.state is not RunState.PAUSED)

    @property
    def _here(self) -> Visiting:
        assert self._visiting is not None
        return self._visiting

    def _join(self, tx: Transaction, run: RunRecord) -> Callable[[], None] | None:
        """Take what a verb lets begin, in the verb's own transaction: no other one has to follow."""
        if not self._resting or self._results or self._unsure or run.state is not RunState.RUNNING:
            return None
        if run.lease_epoch != self._epoch or run.lease_holder != self._host.worker:
            return None
        self._hear(tx, run)
        self._unsure = self._go_on(run)
        self._keep(tx, run, None, {})
        return self._was_joined if self._unsure else None

    def _was_joined(self) -> None:
        """The verb's transaction was committed; `notify` is called for it next."""
        self._joined, self._unsure = self._joined + self._unsure, []
        self._heard = True

    async def _begin(self, taken: list[Branch]) -> None:
        if taken and self._noticed and self._is_stopped():  # fenced in the same breath: they do not begin
            self._results.extend((branch, Again(branch.attempt), branch.node) for branch in taken)
            return
        for branch in taken:
            hold_id = self._links.hold.get(branch.id)
            if hold_id is not None and self._host.read(lambda tx: is_open(tx.hold(hold_id))):  # noqa: B023
                self._unanswered.add(branch.id)
        if taken:
            await self._here.begin(taken, self._tasks)

    def _done(self, branch: Branch, result: Result | Refused) -> None:
        self._results.append((branch, result, branch.node))
        self._signal.set()

    def _is_stopped(self) -> bool:
        """Whether nothing of the run may begin now. Asked of the rows: a fence may be news to the driver."""
        run = self._host.read(lambda tx: tx.run(self._run.id))
        return run is None or run.lease_epoch != self._epoch or run.state is not RunState.RUNNING

    async def _load(self) -> None:
        if self._durable:
            self._walk, self._links = self._host.read(lambda tx: restore(tx, self._run, self._graph))
            self._walk.suspend()
            return
        live = self._host.read(lambda tx: tx.frontier(self._run.id))
        if isinstance(live, LiveFrontier):
            self._walk, self._links = live.walk, live.links
            return
        ref = self._run.input
        value = None if ref is None else self._host.read(lambda tx: tx.value(self._run.id, ref))
        self._walk.begin(self._run.entry, value)
        live = LiveFrontier(self._walk, self._links)
        await self._host.write(lambda tx: tx.attach(self._run.id, live))

    async def _step(self, branch: Branch, result: Result | Refused, visited: str) -> None:
        """Apply a result, and others that came with it; then begin what may begin."""
        if branch.state != "running":
            return  # a loser of a race, or a visit that a failure put back
        if isinstance(result, Refused):
            raise result.error
        if (
            not self._durable
            and not self._noticed
            and not self._paused
            and isinstance(result, Next | FanOut | Join)
            and branch.id not in self._links.hold
            and branch.id not in self._draining
            and not self._host.listened()
        ):
            try:
                applied = self._walk.apply(branch.id, result)
            except QuiesceError as error:
                result = self._here.error(branch, error)
            else:
                self._links.visits += 1
                self._forget(branch)
                self._drop(applied)
                if not self._walk.at_rest:
                    await self._begin(self._take())
                    return
                self._noticed = True  # the last one joined while others wait for child runs
                return
        await self._begin(await self._commit((branch, result, visited)))

    def _take(self) -> list[Branch]:
        return list(iter(self._walk.take, None))

    # --- one transaction ---------------------------------------------------------------------------

    async def _commit(self, visit: tuple[Branch, Result, str] | None) -> list[Branch]:
        """Apply results in one transaction and take what begins next; returns what was taken."""
        began = False

        def work(tx: Transaction) -> tuple[list[Branch], list[Applied], Exception | None]:
            nonlocal began
            run = self._current(tx)
            began = True
            if run.state not in (RunState.RUNNING, RunState.PAUSED):
                self._over = True
                return [], [], None
            self._hear(tx, run)
            taken: list[Branch] = []
            changes: list[Applied] = []
            yielded = {0}
            following = visit
            if visit is None:
                taken = self._go_on(run)
                self._keep(tx, run, None, {})
                taken, following = self._asks_at_once(taken)
            while following is not None:
                branch, result, visited = following
                result, packed = self._pack(branch, result)
                applied, error, result = self._apply(tx, run, branch, result)
                if applied is not None:
                    changes.append(applied)
                    yielded.update(applied.cancelled)
                yielded.add(branch.id)
                if not self._over:
                    taken = self._go_on(run)
                self._keep(tx, run, (branch, result, visited), packed)
                if self._over:
                    self._end(tx, run, applied, error)
                    return [], changes, error
                if isinstance(result, Pause):
                    fence_for(self._host, tx, run, result)
                    break
                taken, following = self._asks_at_once(taken)
                if not taken and following is None and len(yielded) <= TOGETHER:
                    following = self._another()
            if yielding := self._draining & yielded:
                fence.release_pieces(tx, run, yielding)
            self._draining -= yielded
            if not taken and self._walk.at_rest:
                fence.rest(tx, run)
            self._heard = self._durable and run.id in tx.touched
            return taken, changes, None

        while True:
            try:
                taken, changes, failure = await self._host.write(work)
                break
            except StoreBusy:
                if began:
                    raise
                # Somebody else holds the write lock; what these visits did must not be lost for that.
        for applied in changes:
            self._drop(applied)
        if failure is not None:
            self._host.failed(self._run.id, failure)
        return taken

    def _asks_at_once(self, taken: list[Branch]) -> tuple[list[Branch], tuple[Branch, Result, str] | None]:
        """What begins; or, if that is a gate alone that asks the same of every input, what it asks."""
        if len(taken) != 1 or not self._walk.sole or taken[0].id in self._links.hold:
            return taken, None
        branch, visits = taken[0], self._here.nodes[taken[0].node]
        if visits.node.gate is None or not visits.node.gate.is_fixed:
            return taken, None
        return [], (branch, self._here.ask(branch), branch.node)

    def _another(self) -> tuple[Branch, Result, str] | None:
        """The next result, if it belongs into the transaction of one after which nothing begins."""
        while self._durable and self._results:
            branch, result, visited = self._results[0]
            runs = branch.state == "running"
            if runs and isinstance(result, Pause | Refused):
                break
            self._results.popleft()
            if runs and not isinstance(result, Refused):
                return branch, result, visited
        return None

    def _go_on(self, run: RunRecord) -> list[Branch]:
        """Take what may begin now."""
        self._paused = run.state is RunState.PAUSED or self._walk.suspended
        if not self._paused:
            return self._take()
        self._walk.suspend()
        return []

    def _current(self, tx: Transaction) -> RunRecord:
        return claims.current(tx, self._run.id, self._host.worker, self._epoch)

    def _hear(self, tx: Transaction, run: RunRecord) -> None:
        """Take over what verbs did to the rows of this run since the last look."""
        for branch in self._unsure:  # which was not committed
            self._walk.requeue(branch.id)
        self._unsure = []
        if self._durable and (woken := tx.woken(run.id)):
            for piece in woken:
                if piece in self._walk and self._walk[piece].state in ("paused", "waiting"):
                    self._walk.wake(piece)
            tx.seen_woken(run.id)
        if run.state is RunState.RUNNING and self._walk.suspended:
            self._walk.resume(())
        if run.generation != self._generation:
            self._generation = run.generation
            self._draining = {receipt.piece for receipt in tx.unresolved(run.id)}

    def _apply(
        self, tx: Transaction, run: RunRecord, branch: Branch, result: Result
    ) -> tuple[Applied | None, Exception | None, Result]:
        """What came of a result: also an error that fails the run, and the result if it had to be one."""
        if isinstance(result, Again):
            self._walk.requeue(branch.id, attempt=result.attempt)
            return None, None, result
        if isinstance(result, Hang):
            flow = self._here.nodes[branch.node].node.flow
            assert flow is not None
            hang(self._host, tx, run, self._walk, self._links, branch, flow)
            return None, None, result
        unanswered = branch.id in self._unanswered
        self._unanswered.discard(branch.id)
        if isinstance(result, Pause):
            if unanswered and not is_open(tx.hold(self._links.hold[branch.id])):
                self._walk.requeue(branch.id)  # answered during this visit, which did not see it
                return None, None, Again(branch.attempt)
            try:
                ask(self._host, tx, run, self._links, branch, result)
                self._expects[branch.id] = result.expects
            except QuiesceError as refused:
                result = self._here.error(branch, refused)
        try:
            applied = self._walk.apply(branch.id, result)
        except QuiesceError as refused:
            result = self._here.error(branch, refused)
            applied = self._walk.apply(branch.id, result)
        match result:
            case Error(NodeError(__cause__=Expired() | Rejected())):
                self._links.hold.pop(branch.id, None)  # this failure is what came of it: a retry asks again
            case Pause() | Error():
                pass
            case _:
                withdraw(tx, run, self._links, branch.id, "its branch went on without an answer")
                self._forget(branch)
        for lost in applied.abandoned:
            abandon(tx, run, self._links, lost)
        error = None
        if applied.error is not None:
            self._over = True
            cause = applied.error
            error = cause if isinstance(cause, Exception) else NodeError(branch.node, branch.id, str(cause))
        elif applied.finished is not None:
            self._over = True
        return applied, error, result

    def _end(self, tx: Transaction, run: RunRecord, applied: Applied | None, error: Exception | None) -> None:
        if error is not None:
            ending.fail(tx, run, str(error), tx.now + timedelta(seconds=self._host.drain_timeout))
        elif applied is not None and applied.finished is not None:
            ending.complete(tx, run, self._final)

    _final: Any = None

    def _keep(
        self,
        tx: Transaction,
        run: RunRecord,
        visit: tuple[Branch, Result, str] | None,
        packed: Packed,
    ) -> None:
        """Write the rows that changed, and the visit to the log."""
        if visit is not None and isinstance(visit[1], Again | Hang):
            visit = None  # of which nothing came yet
        if visit is not None and isinstance(visit[1], Finish):
            value = visit[1].value
            self._final = packed.get((id(value), "")) if self._durable else value
        self._links.visits += visit is not None
        refs: Refs = {}
        if self._durable:
            refs = save(tx, run.id, self._graph, self._walk.drain(), self._links, packed)
        elif not self._host.listened():
            return
        if visit is not None:
            branch, result, visited = visit
            tx.log(run, "visit", None, None, told(self._links.visits, branch, visited, result, refs))

    def _pack(self, branch: Branch, result: Result) -> tuple[Result, Packed]:
        """A result with what it carries as bytes, before anything is changed; it may not be storable."""
        if self._durable:
            try:
                return result, pack_result(self._graph, self._walk, branch, result)
            except QuiesceError as error:
                result = self._here.error(branch, error)
        return result, {}

    def _forget(self, branch: Branch) -> None:
        self._links.hold.pop(branch.id, None)
        self._expects.pop(branch.id, None)
        self._links.child.pop(branch.id, None)
        self._links.lost.pop(branch.id, None)

    def _drop(self, applied: Applied) -> None:
        """Stop visits that are in flight and no longer wanted."""
        for branch_id in applied.cancelled:
            self._here.cancel(branch_id)
