"""How are the series of a benchmark drawn? In one file that needs no other: an SVG, or a page that holds it.

Distributions: of each case the share of samples (upwards) that took at most so long (to the right, a
logarithmic scale), so that a tail can be seen. Growth: of each case that was measured in several sizes the
median and, dashed, P90, both scales logarithmic, where a straight line at 45 degrees is linear growth.
"""

from __future__ import annotations

import html
import importlib.util
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["SUFFIXES", "draw", "missing"]

SUFFIXES = (".svg", ".html")
ACROSS = 3
"""Pictures side by side."""
POINTS = 200
"""Of one line: more cannot be seen."""
ENOUGH = 5
"""Samples from which on a distribution says something."""


def missing() -> str | None:
    """What to do so that it can be drawn; None if it can."""
    if importlib.util.find_spec("matplotlib") is not None:
        return None
    return "--plot needs matplotlib: python -m pip install 'quiesce[bench]'"


def draw(path: Path, all_series: Sequence[Any]) -> None:
    """Draw all series into a file, an SVG or a page by its suffix."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pictures = [*_distributions(all_series), *_growths(all_series)]
    down = -(-len(pictures) // ACROSS)
    figure, places = pyplot.subplots(
        down, ACROSS, figsize=(6.2 * ACROSS, 4.2 * down), squeeze=False, layout="constrained"
    )
    for place, picture in zip(places.flat, pictures, strict=False):
        picture(place)
    for place in places.flat[len(pictures) :]:
        place.set_axis_off()
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    svg = text.getvalue()
    if path.suffix == ".html":
        title = html.escape("quiesce: how long it takes")
        inside = svg[svg.index("<svg") :]
        svg = f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n{inside}\n'
    path.write_text(svg, encoding="utf-8")


def _cases(all_series: Sequence[Any]) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for series in all_series:
        if series.unit != "1":
            found.setdefault((series.measure, series.case), []).append(series)
    return found


def _distributions(all_series: Sequence[Any]) -> list[Callable[[Any], None]]:
    found: list[Callable[[Any], None]] = []
    for (measure, case), of_case in _cases(all_series).items():
        told = [series for series in of_case if series.unit == "s" and _says_something(series)]
        if told:
            found.append(partial(_ecdf, f"{measure}: {case}", told))
    return found


def _says_something(series: Any) -> bool:
    return len(series.samples) >= ENOUGH and max(series.samples) > 0


def _growths(all_series: Sequence[Any]) -> list[Callable[[Any], None]]:
    found: list[Callable[[Any], None]] = []
    for (measure, case), of_case in _cases(all_series).items():
        told = [series for series in of_case if series.size and series.p50 > 0]
        if len({series.size for series in told}) > 1:
            found.append(partial(_growth, f"{measure}: {case}", told))
    return found


def _colours(of_case: Sequence[Any]) -> dict[str, str]:
    return {subject: f"C{number}" for number, subject in enumerate(dict.fromkeys(s.subject for s in of_case))}


def _ecdf(title: str, of_case: Sequence[Any], place: Any) -> None:
    colours = _colours(of_case)
    sizes = sorted({series.size for series in of_case if series.size is not None})
    smallest = min(sample for series in of_case for sample in series.samples if sample > 0)
    for series in of_case:
        ordered = sorted(series.samples)
        last = len(ordered) - 1
        kept = sorted({round(number * last / (POINTS - 1)) for number in range(POINTS)})
        rank = sizes.index(series.size) if series.size is not None else 0
        place.plot(
            [max(ordered[at], smallest) * 1e3 for at in kept],  # 0 has no place on a logarithmic scale
            [(at + 1) / (last + 1) for at in kept],
            drawstyle="steps-post",
            color=colours[series.subject],
            alpha=1.0 if not sizes else 0.35 + 0.65 * (rank + 1) / len(sizes),
            linewidth=1.0 + 0.4 * rank,
            label=_label(series),
        )
    _finish(place, f"{title} (distribution)", "milliseconds", "share of samples")
    place.set_ylim(0.0, 1.02)


def _growth(title: str, of_case: Sequence[Any], place: Any) -> None:
    factor, unit = (1e3, "milliseconds") if of_case[0].unit == "s" else (1.0, "bytes")
    for subject, colour in _colours(of_case).items():
        told = sorted((series for series in of_case if series.subject == subject), key=lambda s: s.size)
        sizes = [series.size for series in told]
        place.plot(sizes, [s.p50 * factor for s in told], "o-", color=colour, label=subject)
        place.plot(sizes, [s.at(90) * factor for s in told], "--", color=colour, alpha=0.6)
    place.set_yscale("log")
    _finish(place, f"{title} (growth: P50, dashed P90)", "size", unit)


def _label(series: Any) -> str:
    return str(series.subject) if series.size is None else f"{series.subject}, {series.size:,}"


def _finish(place: Any, title: str, across: str, up: str) -> None:
    from matplotlib import ticker

    place.set_xscale("log")
    for axis in (place.xaxis, place.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, at: f"{value:,g}"))
            axis.set_minor_formatter(ticker.NullFormatter())
    place.set_title(title, fontsize=9, wrap=True)
    place.set_xlabel(across, fontsize=8)
    place.set_ylabel(up, fontsize=8)
    place.tick_params(labelsize=7)
    place.grid(True, which="major", alpha=0.3)
    place.legend(fontsize=7, loc="best")
