"""`flowctl doctor`: is the store well, and who is writing to it? Nothing is changed by asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings

if TYPE_CHECKING:
    from quiesce_adapters.sqlite.health import Health

__all__ = ["command"]


@click.command("doctor", cls=Plain)
@pass_settings
def command(settings: Settings) -> int:
    """Check the store: integrity, invariants, who writes.

    Also who lives, versions and the file system. Exits with 0 if all is well, with 6 if something is not.
    """
    from flowctl import describe, exits

    seen = wiring.health(settings)
    if settings.json:
        render.say_json(seen.model_dump(mode="json"))
    else:
        for line in describe.fields(_facts(seen)):
            render.say(line)
        for problem in seen.problems:
            render.say(render.paint(f"wrong: {render.safe(problem)}", fg="red"))
        if not seen.problems:
            render.say(render.paint("all is well", fg="green"))
    if seen.problems:
        render.error(f"{len(seen.problems)} thing(s) are wrong in {seen.path}; keep a copy before you go on")
        return exits.STORE
    return exits.DONE


def _facts(seen: Health) -> list[tuple[str, str]]:
    from quiesce_adapters.greenlets.support import unsupported

    version = f"{seen.store_version} (this quiesce knows {seen.known_version})"
    return [
        ("store", f"{render.safe(seen.path)}, {seen.bytes:,} bytes, and {seen.wal_bytes:,} in its WAL"),
        ("version", version),
        ("journal", seen.journal_mode),
        ("file system", seen.file_system or "unknown here"),
        ("writes now", "nobody" if seen.writes is None else f"process {seen.writes}"),
        ("in turn", "nobody" if seen.in_turn is None else f"process {seen.in_turn}"),
        ("living", ", ".join(f"process {pid} (worker {number})" for number, pid in seen.living) or "nobody"),
        ("dead", ", ".join(f"worker {number}" for number in seen.dead)),
        ("sqlite", seen.sqlite_version),
        ("python", seen.python_version),
        ("agents", unsupported() or "can be run here"),
    ]
