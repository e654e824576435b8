"""`flowctl bench`: how fast is it here, beside what this machine can do, and are the budgets kept?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flowctl import render
from flowctl.options import Plain, Settings, pass_settings

__all__ = ["command"]

BACKENDS = ("graph", "agent", "team")
QUICK = 0.005
"""The share of a whole measurement that a quick one is."""


@click.command("bench", cls=Plain)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(BACKENDS),
    help="Measure only this kind of flow; may be repeated.  [default: all]",
)
@click.option("--peers", is_flag=True, help="Also measure what else can pause; needs the extra `bench`.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw distributions and growth: FILE.svg or FILE.html; needs the extra `bench`.",
)
@click.option("--quick", is_flag=True, help="A trial of a minute or so: few samples, small sizes.")
@pass_settings
def command(
    settings: Settings, backends: tuple[str, ...], peers: bool, plot: Path | None, quick: bool
) -> int:
    """Measure quiesce on this machine.

    Latencies and drains by size, beside the least that they could take, in one run: look at the ratios.
    The databases are made, and removed, in the folder of the store. A whole measurement takes an hour.
    """
    from flowctl import exits, figures, wiring
    from flowctl.measuring import Measures

    folder = Path(settings.store.removeprefix("sqlite:///")).absolute().parent
    measures = Measures()
    if peers and (missing := measures.missing_for_peers()) is not None:
        raise click.UsageError(missing)
    if plot is not None:
        _check_plot(plot)
    scale = QUICK if quick else 1.0
    chosen = [kind for kind in BACKENDS if kind in backends] or list(BACKENDS)
    taken: list[Any] = []
    begun = wiring.clock().now()
    code = exits.DONE
    about = {"at": begun.isoformat(timespec="seconds"), "scale": scale, **measures.surroundings(folder)}
    try:
        for name in measures.names(peers=peers):
            if not _take(measures, name, folder, scale, chosen, taken):
                code = exits.FAILED
    except KeyboardInterrupt:
        render.note("interrupted; this is what was measured until then")
        code = exits.INTERRUPTED
    if settings.json:
        found = [figures.summary(series, taken) for series in taken]
        render.say_json({**about, "series": found})
    else:
        _tell(about)
        figures.show(taken)
    if plot is not None and taken:
        from flowctl import plots

        plots.draw(plot, taken)
        render.note(f"drawn: {plot}")
    return code


def _take(
    measures: Any, name: str, folder: Path, scale: float, backends: list[str], taken: list[Any]
) -> bool:
    """Take one measure, and say how it goes; one that breaks leaves the others their turn."""
    render.note(f"{name} …")
    case = ""
    try:
        for series in measures.take(name, folder, scale, backends):
            taken.append(series)
            size = "" if series.size is None else f", {series.size:,}"
            if case != (case := f"{name}: {series.case}{size}"):
                render.note(case)
    except Exception as error:
        render.error(f"the measure {name} broke off: {type(error).__name__}: {error}")
        return False
    return True


def _check_plot(plot: Path) -> None:
    """Before anything is measured for an hour."""
    from flowctl import plots

    if plot.suffix not in plots.SUFFIXES:
        raise click.UsageError(f"--plot {plot}: name a file that ends in {' or '.join(plots.SUFFIXES)}")
    if not plot.absolute().parent.is_dir():
        raise click.UsageError(f"--plot {plot}: there is no folder {plot.absolute().parent}")
    if (missing := plots.missing()) is not None:
        raise click.UsageError(missing)


def _tell(about: dict[str, Any]) -> None:
    for title in ("machine", "versions"):
        told = ", ".join(f"{name} {value}" for name, value in about[title].items())
        render.say(render.safe(f"{title}: {told}"))
    render.say(render.safe(f"at {about['at']}, scale {about['scale']:g}"))
