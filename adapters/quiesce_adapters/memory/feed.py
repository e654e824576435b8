"""What passes through a memory store: messages to runs, acks of requests, events, and the workers that live.

Of the events the newest are kept. A record of these is written once and never changed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quiesce.records import RequestRecord, RunRecord, WorkerRecord

__all__ = ["MemoryFeed"]

KEPT_EVENTS = 10_000


class MemoryFeed:
    """The statements about them. What they need of the other rows is declared here."""

    now: datetime
    _ids: itertools.count[int]

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.quiet = True
        self._messages: dict[str, deque[Any]] = {}
        self._requests: dict[tuple[str, str], RequestRecord] = {}
        self._events: deque[tuple[Any, ...]] = deque(maxlen=KEPT_EVENTS)
        self._workers: dict[int, WorkerRecord] = {}
        self._seq = 0

    def messages(self, run_id: str) -> int:
        return len(self._messages.get(run_id, ()))

    def put_message(self, run_id: str, value: Any) -> None:
        self._messages.setdefault(run_id, deque()).append(value)

    def take_message(self, run_id: str) -> tuple[Any] | None:
        box = self._messages.get(run_id)
        return (box.popleft(),) if box else None

    def request(self, run_id: str, request_id: str) -> RequestRecord | None:
        return self._requests.get((run_id, request_id))

    def record_request(self, request: RequestRecord) -> None:
        self._requests[request.run_id, request.request_id] = request

    def log(
        self, run: RunRecord, kind: str, actor: str | None, request_id: str | None, data: Mapping[str, Any]
    ) -> None:
        self._seq += 1
        self.touched.append(run.id)
        self.quiet = self.quiet and kind == "visit"
        self._events.append(
            (self._seq, self.now, run.id, run.execution, run.generation, kind, actor, request_id, dict(data))
        )

    def events(self, run_id: str | None, after: int, limit: int) -> list[tuple[Any, ...]]:
        if after >= self._seq:
            return []
        found = (row for row in self._events if row[0] > after and (run_id is None or row[2] == run_id))
        return list(itertools.islice(found, limit))

    def last_event(self) -> int:
        return self._seq

    def workers(self) -> list[WorkerRecord]:
        return list(self._workers.values())

    def enlist(self, pid: int, host: str, flows: Sequence[tuple[str, str]]) -> int:
        incarnation = next(self._ids)
        self._workers[incarnation] = WorkerRecord(incarnation, pid, host, self.now, list(flows))
        return incarnation

    def announce(self, incarnation: int, flows: Sequence[tuple[str, str]]) -> None:
        self._workers[incarnation].flows = list(flows)

    def discharge(self, incarnation: int) -> None:
        self._workers.pop(incarnation, None)
