"""How is an error of a body or a step kept and told, so that a body executed again gets the same?

Its type by name, its arguments and its attributes. A type named in the store is never imported: it is looked
up among the modules that are loaded anyway, and made without running its `__init__`. What would not come
back the same (a type that nobody finds, arguments that cannot be stored) is told at once, in the process
that raised it: the body gets a `StepFailed` there, and everywhere else.

Source: spec agent, "Steps and the journal"; spec engine, 6 (values).
"""

from __future__ import annotations

import sys
from typing import Any

from quiesce import codec
from quiesce.errors import NonDeterminism, NotSerializable, QuiesceError, RunFailed, StepFailed

__all__ = ["as_failure", "keep", "restore", "told"]


def keep(error: Exception, step: str) -> tuple[Exception, bytes]:
    """The error that a body gets, and the bytes from which another process makes it."""
    try:
        kept = _packed(error)
        again = restore(kept, step)
        if type(again) is type(error) and str(again) == str(error) and again.args == error.args:
            return error, kept
    except (NotSerializable, NonDeterminism, TypeError, ValueError, AttributeError):
        pass
    failed = StepFailed(f"{step} failed: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed, _packed(failed)


def _packed(error: Exception) -> bytes:
    kind = type(error)
    attributes = {name: value for name, value in vars(error).items() if _is_storable(value)}
    return codec.encode(
        {"module": kind.__module__, "type": kind.__qualname__, "args": error.args, "attributes": attributes},
        place=f"arguments of {kind.__name__}",
    )


def _is_storable(value: Any) -> bool:
    try:
        codec.encode(value)
    except NotSerializable:
        return False
    return True


def restore(kept: bytes, step: str) -> Exception:
    """The error that was kept.

    Raises:
        NonDeterminism: its type is not known in this process.
    """
    facts = codec.decode(kept, place=f"error of {step}")
    found: Any = sys.modules.get(facts["module"])
    for name in facts["type"].split("."):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        raise NonDeterminism(
            f"{step} failed with {facts['module']}.{facts['type']}, which is not imported in this process; "
            "import it in the module of the agent, and resume the run"
        )
    error: Exception = found.__new__(found, *facts["args"])
    error.args = tuple(facts["args"])
    vars(error).update(facts["attributes"])
    return error


def as_failure(run_id: str, error: BaseException | None) -> Exception | None:
    """The error that a run fails with, for what its body raised.

    What no coroutine could raise to whoever waits (StopIteration) or what is no error is told by another.
    """
    if error is None or (isinstance(error, Exception) and not isinstance(error, StopIteration)):
        return error
    failed = RunFailed(run_id, f"the body raised {told(error)}")
    failed.__cause__ = error
    return failed


def told(error: BaseException) -> str:
    """An error in a line of a run's status: with its type, where its message does not stand alone."""
    text = str(error) or type(error).__name__
    return text if isinstance(error, QuiesceError) else f"{type(error).__name__}: {text}"
