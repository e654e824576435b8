"""Which spans does a run leave, where OpenTelemetry is in use?

A process that has never imported OpenTelemetry's API has nobody to send spans to, so it is looked for among
the imported modules and never imported from here; where it is not, a span costs one look-up. The names:

- `quiesce.run`: a run while this process drives it and it runs, from its start or resume until it pauses,
  ends or is handed back. That it paused is an attribute (`quiesce.state`), not an error.
- `quiesce.visit`, `quiesce.step`, `quiesce.turn`: one piece of work in it, which is the current span of the
  code that does it.
- `quiesce.pause`: an episode, from its fence to its release. `quiesce.drain`: from the fence until nothing
  ran any more, if anything did. Both are made when the episode closes, by the instants that are stored, so
  they are the same whoever fenced the run and however often it changed hands since.

Only the process that drives a run makes its spans. Source: spec engine, 5 (last paragraph).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from quiesce.errors import StoreError
from quiesce.records import EpisodeRecord, RunRecord
from quiesce.states import ENDED, RunState
from quiesce.store import Reader

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

__all__ = ["Traces"]

T = TypeVar("T")

log = logging.getLogger("quiesce")

_API = "opentelemetry.trace"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Traces:
    """The spans of the runs that one process drives."""

    def __init__(self, read: Callable[[Callable[[Reader], Any]], Any]) -> None:
        self._read = read
        self._runs: dict[str, Span] = {}
        self._callers: dict[str, Context] = {}
        """In whose context each run was first seen: all its spans belong there."""
        self._told: dict[str, str] = {}
        """The last episode of each run whose spans were made."""

    @property
    def on(self) -> bool:
        """Somebody in this process uses OpenTelemetry."""
        return _API in sys.modules

    def saw(self, run_id: str) -> None:
        """The rows of a run that is driven here may have changed."""
        if not self.on:
            return
        try:
            run, episodes = self._read(lambda tx: _look(tx, run_id))
        except StoreError as error:  # what was committed stands; a span is not worth a run
            log.warning("run %s leaves no span this time: %s", run_id, error)
            return
        if run is None:
            return
        for episode in episodes:
            if self._told.get(run_id) != episode.id:
                self._told[run_id] = episode.id
                self._tell_episode(run, episode)
        span = self._runs.get(run_id)
        if run.state is RunState.RUNNING and span is None:
            self._runs[run_id] = self._start("run", run, version=run.version, kind=run.kind)
        elif run.state is not RunState.RUNNING and span is not None:
            self._end(run)

    def left(self, run_id: str) -> None:
        """This process does not drive the run any more."""
        if not self.on:
            return
        self.saw(run_id)
        try:
            run = self._read(lambda tx: tx.run(run_id))
        except StoreError as error:
            log.warning("run %s leaves no span this time: %s", run_id, error)
            if (span := self._runs.pop(run_id, None)) is not None:
                span.end()
            return
        if run_id in self._runs and run is not None:
            self._end(run)
        if run is None or run.state in ENDED:
            self._callers.pop(run_id, None)
            self._told.pop(run_id, None)

    @contextmanager
    def piece(self, what: str, run_id: str, **facts: Any) -> Iterator[Span]:
        """The span of one piece of work, current in the block; whoever does the work ends it (`done`)."""
        api = sys.modules[_API]
        outer = self._runs.get(run_id)
        within = None if outer is None else api.set_span_in_context(outer)
        named = {f"quiesce.{key}": value for key, value in facts.items()}
        span: Span = api.get_tracer("quiesce").start_span(
            f"quiesce.{what}", context=within, attributes={"quiesce.run": run_id, **named}
        )
        with api.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield span

    @staticmethod
    def done(span: Span, did: str, error: BaseException | None = None) -> None:
        """A piece of work is over; only an error of its own makes its span one."""
        span.set_attribute("quiesce.did", did)
        if error is not None:
            span.record_exception(error)
            _failed(span, str(error))
        span.end()

    def _start(self, what: str, run: RunRecord, start: int | None = None, **facts: Any) -> Span:
        api = sys.modules[_API]
        parent = self._runs.get(run.parent_id or "")
        if run.id not in self._callers:
            self._callers[run.id] = sys.modules["opentelemetry.context"].get_current()
        within = self._callers[run.id] if parent is None else api.set_span_in_context(parent)
        attributes = {"quiesce.run": run.id, "quiesce.flow": run.flow, "quiesce.execution": run.execution}
        named = {f"quiesce.{key}": value for key, value in facts.items()}
        span: Span = api.get_tracer("quiesce").start_span(
            f"quiesce.{what}", context=within, attributes=attributes | named, start_time=start
        )
        return span

    def _end(self, run: RunRecord) -> None:
        span = self._runs.pop(run.id)
        span.set_attribute("quiesce.state", run.state.value)
        if run.state is RunState.FAILED:
            _failed(span, run.error or "")
        span.end()

    def _tell_episode(self, run: RunRecord, episode: EpisodeRecord) -> None:
        assert episode.closed_at is not None
        facts: dict[str, Any] = {"episode": episode.id, "generation": episode.generation}
        closed = episode.closed_at
        span = self._start(
            "pause",
            run,
            _nanos(episode.opened_at),
            cause=episode.cause,
            ended_as=episode.ended_as or "",
            **facts,
        )
        span.end(_nanos(closed))
        drained = episode.quiescent_at or closed
        if drained > episode.opened_at:
            span = self._start(
                "drain", run, _nanos(episode.opened_at), overdue=drained > episode.drain_until, **facts
            )
            span.end(_nanos(drained))


def _look(tx: Reader, run_id: str) -> tuple[RunRecord | None, list[EpisodeRecord]]:
    """A run, and its last episode if that has closed. An episode is named by its run and generation."""
    run = tx.run(run_id)
    if run is None or run.state is RunState.PAUSED:
        return run, []
    last = (tx.episode(f"{run.id}:{generation}") for generation in (run.generation - 1, run.generation))
    return run, [episode for episode in last if episode is not None and episode.closed_at is not None]


def _failed(span: Span, error: str) -> None:
    api = sys.modules[_API]
    span.set_status(api.Status(api.StatusCode.ERROR, error))


def _nanos(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
