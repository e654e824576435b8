"""Which exit code does what happened have? The one table; `errors.py` of the engine has the codes' words.

An error has the code of its own row, else that of the nearest class above it. Source: spec engine, 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quiesce import errors
from quiesce.errors import QuiesceError

__all__ = [
    "BROKEN_PIPE",
    "DONE",
    "EXITS",
    "FAILED",
    "INTERRUPTED",
    "OVERDUE",
    "PAUSED",
    "QUESTION",
    "STORE",
    "USAGE",
    "exit_code",
]

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
MISSING: Final = 3
REFUSED: Final = 4
QUESTION: Final = 5
STORE: Final = 6
OVERDUE: Final = 7
PAUSED: Final = 75
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""What a shell reports of a program whose reader has gone (128 + SIGPIPE)."""

EXITS: Mapping[type[QuiesceError], int] = MappingProxyType(
    {
        # 1: the run failed or was cancelled, or its body did what a body may not
        errors.RunFailed: FAILED,
        errors.RunCancelled: FAILED,
        errors.NodeError: FAILED,
        errors.Rejected: FAILED,
        errors.StepFailed: FAILED,
        errors.Deadlock: FAILED,
        errors.PauseOutsideBody: FAILED,
        errors.WrongThread: FAILED,
        # 2: what was typed or what it names is not right
        errors.QuiesceError: USAGE,
        errors.InputRejected: USAGE,
        errors.FlowNotImportable: USAGE,
        errors.NotSerializable: USAGE,
        errors.GraphError: USAGE,
        # 3: what was named is not there
        errors.RunNotFound: MISSING,
        errors.FlowNotFound: MISSING,
        errors.UnknownHold: MISSING,
        # 4: refused
        errors.IllegalTransition: REFUSED,
        errors.Fenced: REFUSED,
        errors.StaleGeneration: REFUSED,
        errors.StaleLease: REFUSED,
        errors.HeldElsewhere: REFUSED,
        errors.AlreadyAnswered: REFUSED,
        errors.Expired: REFUSED,
        errors.Withdrawn: REFUSED,
        errors.RequestConflict: REFUSED,
        errors.FlowChanged: REFUSED,
        errors.NonDeterminism: REFUSED,
        # 5: an answer is missing, ambiguous or does not fit
        errors.AnswerRequired: QUESTION,
        errors.AmbiguousAnswer: QUESTION,
        errors.AnswerRejected: QUESTION,
        # 6: the store
        errors.StoreError: STORE,
    }
)


def exit_code(error: QuiesceError) -> int:
    """The exit code for an error."""
    return next(EXITS[kind] for kind in type(error).__mro__ if kind in EXITS)
