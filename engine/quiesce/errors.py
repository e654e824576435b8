"""What can be refused, and why: every error of quiesce, its facts and its stable code.

One root, few leaves. A message says what was wrong, with values, and what to do next. `code` is what
the command line and JSON show; it never changes once released. Waiting is not an error: a paused run
is an outcome (`Paused`), and a drain that took too long is a recorded receipt (`overdue`).

Three fencing errors differ on purpose: `Fenced` (the run is paused: wait), `StaleGeneration` and
`StaleLease` (you are behind or replaced: stop), `HeldElsewhere` (someone else drives it).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AlreadyAnswered",
    "AmbiguousAnswer",
    "AnswerRejected",
    "AnswerRequired",
    "Deadlock",
    "Expired",
    "Fenced",
    "FlowChanged",
    "FlowNotFound",
    "FlowNotImportable",
    "GraphError",
    "HeldElsewhere",
    "IllegalTransition",
    "InputRejected",
    "MissingNode",
    "MissingTransition",
    "NoSteps",
    "NodeError",
    "NonDeterminism",
    "NotResumable",
    "NotSerializable",
    "PauseOutsideBody",
    "QuiesceError",
    "Rejected",
    "RequestConflict",
    "RunActive",
    "RunCancelled",
    "RunFailed",
    "RunNotFound",
    "StaleGeneration",
    "StaleLease",
    "StepFailed",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreMismatch",
    "StoreReadOnly",
    "UnknownHold",
    "Withdrawn",
    "WrongThread",
]


class QuiesceError(Exception):
    """The root of everything that quiesce raises on purpose."""

    code = "error"


# --- what was named does not exist -------------------------------------------------------------------


class RunNotFound(QuiesceError):
    """No run has this id in this store."""

    code = "run-not-found"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id!r} in this store; `flowctl list` shows the runs it has")


class FlowNotFound(QuiesceError):
    """A flow reference leads to nothing that can be run here."""

    code = "flow-not-found"

    def __init__(self, message: str, *, flow: str = "") -> None:
        self.flow = flow
        super().__init__(message)


class FlowNotImportable(FlowNotFound):
    """The module that should hold the flow raised while it was imported."""

    code = "flow-not-importable"


class UnknownHold(QuiesceError):
    """No hold has this id, or nothing is asked. `open_holds` are the ids that can be answered."""

    code = "unknown-hold"

    def __init__(self, message: str, *, open_holds: Sequence[str] = ()) -> None:
        self.open_holds = tuple(open_holds)
        super().__init__(message)


# --- the run's state does not allow it -----------------------------------------------------------------


class IllegalTransition(QuiesceError):
    """The lifecycle table has no such cell. Nothing was changed. Source: spec engine, 3."""

    code = "illegal-transition"

    def __init__(self, run_id: str, state: str, verb: str, message: str = "") -> None:
        self.run_id = run_id
        self.state = state
        self.verb = verb
        super().__init__(message or f"cannot {verb} run {run_id!r}: it is {state}")


class RunActive(IllegalTransition):
    """A start of a run that is already under way; another input is another run."""

    code = "run-active"


class NotResumable(IllegalTransition):
    """There is nothing of this run that a resume could continue."""

    code = "not-resumable"


class Fenced(QuiesceError):
    """The run is paused, so nothing may start in it. Wait, or resume what holds it."""

    code = "fenced"


class StaleGeneration(QuiesceError):
    """The caller saw an earlier generation or episode; the run has moved on since."""

    code = "stale-generation"

    def __init__(self, message: str, *, expected: object = None, actual: object = None) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(message)


class StaleLease(QuiesceError):
    """The writer has been replaced as the driver of the run; what it wanted to write was refused."""

    code = "stale-lease"


class HeldElsewhere(QuiesceError):
    """A living process drives this run."""

    code = "held-elsewhere"


class RequestConflict(QuiesceError):
    """A request id that was used before, now with another verb or other arguments."""

    code = "request-conflict"


# --- answers ----------------------------------------------------------------------------------------


class AlreadyAnswered(QuiesceError):
    """The hold was settled by somebody else. `by`, `at` and `value` say who, when and what."""

    code = "already-answered"

    def __init__(self, message: str, *, by: str = "", at: str = "", value: object = None) -> None:
        self.by = by
        self.at = at
        self.value = value
        super().__init__(message)


class Expired(QuiesceError):
    """The hold's deadline passed before an answer. Raised in the body when `on_deadline="fail"`."""

    code = "expired"


class Withdrawn(QuiesceError):
    """The question is no longer asked: its run was reset, cancelled, or asks something else now."""

    code = "withdrawn"


class AmbiguousAnswer(QuiesceError):
    """An answer without a hold, while several are open. `open_holds` are their ids."""

    code = "ambiguous-answer"

    def __init__(self, message: str, *, open_holds: Sequence[str] = ()) -> None:
        self.open_holds = tuple(open_holds)
        super().__init__(message)


class AnswerRequired(QuiesceError):
    """A resume without an answer, while every open hold declares what it expects."""

    code = "answer-required"

    def __init__(self, message: str, *, open_holds: Sequence[str] = ()) -> None:
        self.open_holds = tuple(open_holds)
        super().__init__(message)


class AnswerRejected(QuiesceError):
    """The answer does not fit what the hold expects. Nothing was changed; ask again."""

    code = "answer-rejected"


class Rejected(QuiesceError):
    """A person said no. Raised at the pause of an agent, or as the failure of a gate's branch."""

    code = "rejected"


# --- bodies -----------------------------------------------------------------------------------------


class PauseOutsideBody(QuiesceError):
    """pause() or ask_human() where there is no agent body to suspend."""

    code = "pause-outside-body"


class WrongThread(QuiesceError):
    """A body was touched from a thread or task that does not own it."""

    code = "wrong-thread"


class NonDeterminism(QuiesceError):
    """The body, executed again, does not follow its journal: where, what is recorded, what came."""

    code = "nondeterminism"

    def __init__(self, message: str, *, position: int = 0, expected: str = "", got: str = "") -> None:
        self.position = position
        self.expected = expected
        self.got = got
        super().__init__(message)


class StepFailed(QuiesceError):
    """A step's error that no other process could raise again as it was; `__cause__` is it, where it was."""

    code = "step-failed"


class Deadlock(QuiesceError):
    """Runs wait for one another, so none of them can ever go on."""

    code = "deadlock"


class NodeError(QuiesceError):
    """A node or its transition raised. `__cause__` is the error itself."""

    code = "node-error"

    def __init__(self, node: str, branch: int, message: str) -> None:
        self.node = node
        self.branch = branch
        super().__init__(message)


class RunFailed(QuiesceError):
    """The run failed in another process; this is the text of its error."""

    code = "run-failed"

    def __init__(self, run_id: str, message: str) -> None:
        self.run_id = run_id
        super().__init__(message)


class RunCancelled(QuiesceError):
    """The run was cancelled, so it has no value."""

    code = "run-cancelled"

    def __init__(self, run_id: str, message: str = "") -> None:
        self.run_id = run_id
        super().__init__(message or f"run {run_id!r} was cancelled")


# --- definitions and values -----------------------------------------------------------------------------


class FlowChanged(QuiesceError):
    """The flow's code differs from what the paused run was started with. `diff` says in what."""

    code = "flow-changed"

    def __init__(self, message: str, *, diff: Sequence[str] = ()) -> None:
        self.diff = tuple(diff)
        super().__init__(message)


class GraphError(QuiesceError):
    """A graph's definition, or what its transition returned, is wrong."""

    code = "graph-error"


class NoSteps(GraphError):
    """The graph has no start node."""

    code = "no-steps"


class MissingTransition(GraphError):
    """A node has no transition, so nobody knows what follows it."""

    code = "missing-transition"


class MissingNode(GraphError):
    """A transition names a node that this graph does not have."""

    code = "missing-node"


class InputRejected(QuiesceError):
    """The input does not fit what the flow declares. Nothing was started."""

    code = "input-rejected"


class NotSerializable(QuiesceError):
    """A value that would not come back the same from the store; `place` says where in it."""

    code = "not-serializable"

    def __init__(self, message: str, *, place: str = "") -> None:
        self.place = place
        super().__init__(message)


# --- the store ----------------------------------------------------------------------------------------


class StoreError(QuiesceError):
    """The store could not do it; nothing of the transaction was kept."""

    code = "store-error"


class StoreBusy(StoreError):
    """Somebody else held the write lock for longer than this process was willing to wait."""

    code = "store-busy"


class StoreFull(StoreError):
    """The disk is full. Nothing of the transaction was kept."""

    code = "store-full"


class StoreReadOnly(StoreError):
    """The store can be read, not written."""

    code = "store-read-only"


class StoreMismatch(StoreError):
    """The file is no store of this version, or not one that this process may use."""

    code = "store-mismatch"
