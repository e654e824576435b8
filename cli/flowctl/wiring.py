"""Where do a store, a `Runtime` and a flow come from? The one place that builds them.

What only looks opens a SQLite store read-only, without an event loop: its file keeps its bytes, and a
status costs little more than the read.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from flowctl import render
from flowctl.options import Settings

if TYPE_CHECKING:
    from quiesce.clock import Clock
    from quiesce.local import LocalBackend
    from quiesce.runtime import Runtime
    from quiesce_adapters.sqlite.health import Health

__all__ = [
    "begin_so",
    "clock",
    "drive",
    "health",
    "known_hold",
    "known_run",
    "load_flow",
    "read_input",
    "read_json",
    "reading",
    "use_flow",
]


def clock() -> Clock:
    """The real clock."""
    from quiesce.clock import SystemClock

    return SystemClock()


def _require(settings: Settings) -> None:
    """Refuse to make a store by looking at one.

    Raises:
        StoreMismatch: there is none.
    """
    path = settings.store.removeprefix("sqlite:///")
    if "://" not in path and not Path(path).exists():
        from quiesce.errors import StoreMismatch

        named = "" if settings.db or os.environ.get("FLOWCTL_DB") else " in this folder"
        raise StoreMismatch(
            f"there is no store {path}{named}; `flowctl run FLOW` makes one, --db names another"
        )


def health(settings: Settings) -> Health:
    """What there is to know of the store's file.

    Raises:
        StoreMismatch: there is no such file, or it is no SQLite store.
    """
    from quiesce.errors import StoreMismatch
    from quiesce_adapters.sqlite.health import examine

    _require(settings)
    path = settings.store.removeprefix("sqlite:///")
    if "://" in path:
        raise StoreMismatch(f"{path} is no SQLite store, and doctor knows no other")
    return examine(Path(path).absolute(), clock())


@contextmanager
def reading(settings: Settings) -> Iterator[LocalBackend]:
    """The store for looking at it: nothing is driven, nothing is written."""
    from quiesce.hosting import Hosting
    from quiesce.local import LocalBackend
    from quiesce.runtime import open_store

    _require(settings)
    url = settings.store
    if "://" not in url or url.startswith("sqlite:///"):
        url = f"sqlite:///{Path(url.removeprefix('sqlite:///')).absolute()}?mode=ro"
    time = clock()
    store = open_store(url, time, "full")
    try:
        yield LocalBackend(Hosting(store, time, flows=(), drain_timeout=0.0, drive=False))
    finally:
        store.close()


def drive(
    settings: Settings,
    work: Callable[[Runtime], Awaitable[int]],
    *,
    drives: bool = True,
    makes: bool = False,
    drain_timeout: float = 10.0,
) -> int:
    """Open a `Runtime` on the store and do `work` in it; returns the exit code that `work` returns.

    Args:
        drives: whether this process runs what it makes runnable.
        makes: whether a store may be made.
    """
    import anyio

    from quiesce.runtime import Runtime

    if not makes:
        _require(settings)
    _log_to_terminal(settings)

    async def inside() -> int:
        async with Runtime(settings.store, drive=drives, drain_timeout=drain_timeout) as runtime:
            return await work(runtime)

    return anyio.run(partial(inside), backend="asyncio")


class _Terminal(logging.Handler):
    """What the engine logs, as notes beside the output."""

    def emit(self, record: logging.LogRecord) -> None:
        render.note(f"{record.levelname.lower()}: {record.getMessage()}")


def _log_to_terminal(settings: Settings) -> None:
    logger = logging.getLogger("quiesce")
    if settings.debug:
        logging.basicConfig(level=logging.DEBUG)
    elif not any(isinstance(handler, _Terminal) for handler in logger.handlers):
        logger.addHandler(_Terminal(logging.WARNING))


# --- what was typed ------------------------------------------------------------------------------------


def load_flow(text: str) -> Any:
    """The flow that a reference names. Raises FlowNotFound, FlowNotImportable."""
    from quiesce.flows import load

    return load(text)


def read_json(text: str, what: str) -> Any:
    """JSON from the command line.

    Raises:
        click.UsageError: it is none; says how text is written.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        hint = ""
        if not text.lstrip().startswith(("{", "[", '"')):
            hint = f"; text needs quotes inside quotes: '{json.dumps(text, ensure_ascii=False)}'"
        raise click.UsageError(f"{what} {text!r} is not JSON: {error}{hint}") from None


def read_input(flow: Any, text: str | None, from_json: str | None) -> Any:
    """The input of a flow: a word, coerced to what the flow takes, or JSON.

    Raises:
        InputRejected: it does not fit.
    """
    from quiesce import codec

    if text is not None and from_json is not None:
        raise click.UsageError("the input is given twice: as INPUT and by --input; leave one out")
    declared = flow.input_type
    if from_json is not None:
        return codec.validate_json(read_json(from_json, "--input"), declared, place="input")
    if text is not None:
        return codec.coerce_text(text, declared, place="input")
    return None


def use_flow(rt: Runtime, text: str | None, *, run: str | None = None, hold: str | None = None) -> None:
    """Drive a run, or the run that asks a hold, with the flow of this reference: its own has moved."""
    if text is None:
        return
    host = rt.backend.host
    if hold is not None and (asked := host.read(lambda tx: tx.hold(hold))) is not None:
        run = asked.run_id
    record = None if run is None else host.read(lambda tx: tx.run(run))
    if record is not None:  # else the verb says what is missing
        host.flows.put(record.flow, load_flow(text))


def known_run(backend: LocalBackend, text: str) -> str:
    """The id of a run: as typed, or the only one that begins so."""
    return _known(backend, "runs", text)


def known_hold(backend: LocalBackend, text: str) -> str:
    """The id of a hold: as typed, or the only one that begins so."""
    return _known(backend, "holds", text)


def begin_so(settings: Settings, what: Literal["runs", "holds"], text: str) -> list[str]:
    """The ids that begin so, for a shell; none if the store cannot be read, since nobody would see why."""
    from quiesce.errors import QuiesceError

    try:
        with reading(settings) as backend:
            return backend.host.read(lambda tx: tx.ids_from(what, text, 100))
    except QuiesceError:
        return []


def _known(backend: LocalBackend, what: Literal["runs", "holds"], text: str) -> str:
    found = backend.host.read(lambda tx: tx.ids_from(what, text, 6)) if text else []
    if text in found or not found:
        return text  # the engine says what is wrong with an id that nobody has
    if len(found) > 1:
        shown = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise click.UsageError(f"{text!r} is the beginning of several {what}: {shown}; type more of it")
    render.note(f"{text} is {found[0]}")
    return found[0]
