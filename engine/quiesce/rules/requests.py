"""Has this request been served before?

Every verb carries a request id. Served once, its ack is fixed for ever: repeated with the same verb and
arguments it returns that ack, also after the inverse verb, from another process, or when the first reply
was lost. The same id with other arguments is a conflict. Source: spec engine, 4; cases W12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final, TypeVar

from quiesce.errors import QuiesceError, RequestConflict, RunNotFound
from quiesce.records import RequestRecord, RunRecord
from quiesce.runs import Ack
from quiesce.store import Reader, Transaction

__all__ = ["UNSET", "Request", "Unset", "check_request_id", "finish", "found", "replay"]

A = TypeVar("A", bound=Ack)


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""No answer was given. Every JSON value, None included, is an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks for what, and under which id.

    `scope` is the run that remembers the id; empty for a start, which the store remembers. `remember` is
    off for an id that was made up in a store that does not outlive the process.
    """

    verb: str
    scope: str
    id: str
    actor: str
    reason: str | None = None
    arguments: Mapping[str, Any] | None = None
    remember: bool = True

    def digest(self) -> str:
        """The arguments as canonical text, so that another use of the id can be told apart."""
        return json.dumps(self.arguments or {}, sort_keys=True, default=str)


def check_request_id(request_id: str) -> str:
    """Refuse an id that could not be printed, typed or stored.

    Raises:
        QuiesceError: it is not 1 to 200 printable characters.
    """
    if not isinstance(request_id, str):
        raise QuiesceError(
            f"request id {request_id!r} cannot be used: it is {type(request_id).__name__}, and no text"
        )
    if not (1 <= len(request_id) <= 200 and request_id.isprintable()):
        raise QuiesceError(
            f"request id {request_id[:40]!r} cannot be used: it has {len(request_id)} characters; "
            "any printable text of 1 to 200 characters will do"
        )
    return request_id


def replay(tx: Reader, request: Request, ack: type[A]) -> A | None:
    """The ack that this request got before, or None.

    Raises:
        RequestConflict: the id was used with another verb or other arguments.
    """
    if not request.remember:
        return None
    known = tx.request(request.scope, request.id)
    if known is None:
        return None
    if known.verb != request.verb or known.digest != request.digest():
        raise RequestConflict(
            f"request id {request.id!r} was used before, for {known.verb} {known.digest}; "
            f"now it asks for {request.verb} {request.digest()}; use another id"
        )
    names = {item.name for item in fields(ack)}
    told = {"request_id": request.id, "run_id": request.scope, **known.ack}
    return replace(ack(**{name: value for name, value in told.items() if name in names}), replayed=True)


def finish(tx: Transaction, request: Request, ack: A) -> A:
    """Fix the ack of a request, in the transaction that served it."""
    if request.remember:
        tx.record_request(
            RequestRecord(request.scope, request.id, request.verb, request.digest(), _kept(request, ack))
        )
    return ack


def _kept(request: Request, ack: Ack) -> dict[str, Any]:
    """What of an ack follows neither from its request nor from its type: most of it does."""
    known = {item.name: item.default for item in fields(ack)}
    known |= {"request_id": request.id, "run_id": request.scope}
    return {name: value for name, value in ack.model_dump().items() if value != known[name]}


def found(tx: Reader, run_id: str) -> RunRecord:
    """The run.

    Raises:
        RunNotFound: there is none of this id.
    """
    run = tx.run(run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run
