"""`flowctl demo`: the workspace architect on a package of the standard library, killed and continued."""

from __future__ import annotations

import click

from flowctl.options import Plain, Settings, pass_settings

__all__ = ["command"]


@click.command("demo", cls=Plain)
@click.option(
    "--package", default="email", show_default=True, help="The package that is surveyed, on a copy."
)
@pass_settings
def command(settings: Settings, package: str) -> int:
    """See a run held, killed, and continued by another process.

    A package is surveyed, and its ARCHITECTURE.md drafted, held, approved and written. Everything happens
    in a temporary folder, in real processes, and takes a few seconds.
    """
    from flowctl.story import tell

    return tell(package, settings)
