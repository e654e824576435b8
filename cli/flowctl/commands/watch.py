"""`flowctl watch`: the runs, live. Woken by events; nothing polls."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings

if TYPE_CHECKING:
    import anyio

    from quiesce.runs import RunStatus
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("watch", cls=Plain)
@pass_settings
def command(settings: Settings) -> int:
    """The runs, live.

    A table that is drawn again when something happens; q or Ctrl-C leaves.

    In a pipe, or with --json, a line for each change of a run.
    """
    drawn = render.is_terminal() and sys.stdin.isatty() and not settings.json
    return wiring.drive(settings, _draw if drawn else lambda rt: _print(rt, settings), drives=False)


async def _print(rt: Runtime, settings: Settings) -> int:
    """A line for each run as it is, and for each change of one."""
    newest = rt.backend.host.read(lambda tx: tx.last_event())
    seen: dict[str, tuple[str, ...]] = {}
    for status in reversed(await rt.list(limit=1000)):
        _print_change(status, seen, settings)
    async for event in rt.events(None, newest):
        _print_change(await rt.status(event.run_id), seen, settings)
    return 0


def _print_change(status: RunStatus, seen: dict[str, tuple[str, ...]], settings: Settings) -> None:
    locks = ",".join(sorted(lock.kind for lock in status.locks))
    now = (status.state.value, status.phase or "", locks, (status.reason or "").partition("\n")[0])
    if seen.get(status.id) == now:
        return
    seen[status.id] = now
    if settings.json:
        render.say_json(status.model_dump(mode="json"), line=True)
    else:
        at = status.updated_at.isoformat(timespec="milliseconds")
        render.say("\t".join([at, render.safe(status.id), *map(render.safe, now)]))
    sys.stdout.flush()


async def _draw(rt: Runtime) -> int:
    import anyio

    with _whole_screen():
        async with anyio.create_task_group() as tasks:
            changed = [anyio.Event()]
            tasks.start_soon(_hear_events, rt, changed)
            tasks.start_soon(_hear_size, changed)
            tasks.start_soon(_hear_keys, tasks.cancel_scope)
            while True:
                await _draw_once(rt)
                await changed[0].wait()
                changed[0] = anyio.Event()
    return 0


async def _draw_once(rt: Runtime) -> None:
    size = shutil.get_terminal_size()
    per_run = 1 if size.columns >= render.NARROW else 4
    page = await rt.list(limit=max(1, (size.lines - 3) // per_run))
    now = rt.backend.host.clock.now()
    click.echo("\x1b[H\x1b[2J", nl=False, color=True)
    rows = [
        (
            status.id,
            status.state.value + (f" {status.phase}" if status.phase == "draining" else ""),
            ", ".join(sorted(lock.kind for lock in status.locks)),
            (status.error or status.reason or "").partition("\n")[0],
            status.updated_at.strftime("%H:%M:%S"),
        )
        for status in page
    ]
    render.table(("run", "state", "locks", "why", "at"), rows, cut=True)
    more = " (more: flowctl list)" if page.next else ""
    render.say(render.paint(f"{now:%H:%M:%S}Z, q leaves{more}", dim=True))


async def _hear_events(rt: Runtime, changed: list[anyio.Event]) -> None:
    newest = rt.backend.host.read(lambda tx: tx.last_event())
    async for _ in rt.events(None, newest):
        changed[0].set()


async def _hear_size(changed: list[anyio.Event]) -> None:
    import signal

    import anyio

    with anyio.open_signal_receiver(signal.SIGWINCH) as signals:
        async for _ in signals:
            changed[0].set()


async def _hear_keys(scope: anyio.CancelScope) -> None:
    import anyio

    while True:
        await anyio.wait_readable(sys.stdin.fileno())
        key = os.read(sys.stdin.fileno(), 64)
        if not key or key[:1] in b"qQ\x04":
            scope.cancel()
            return


@contextmanager
def _whole_screen() -> Iterator[None]:
    """The terminal's other screen, keys unechoed; as it was afterwards, whatever happens."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)  # Ctrl-C is a signal still
        click.echo("\x1b[?1049h\x1b[?25l", nl=False, color=True)
        yield
    finally:
        click.echo("\x1b[?25h\x1b[?1049l", nl=False, color=True)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
