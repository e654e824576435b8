"""How do values reach a terminal, a pipe or a program: as a table, as lines, as JSON?

Nothing that comes from data reaches an output as it is: control characters, escape sequences and what
turns the direction of writing are shown as escapes (`\\x1b`), so a hold's text can neither repaint a
terminal nor hide what it asks. In a pipe tables are tab-separated, never cut, and in one form.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

__all__ = [
    "age",
    "ago",
    "as_json",
    "error",
    "is_terminal",
    "note",
    "paint",
    "safe",
    "say",
    "say_json",
    "state_style",
    "table",
]

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_STATES: dict[str, dict[str, Any]] = {
    "running": {"fg": "green"},
    "idle": {"fg": "green"},
    "paused": {"fg": "yellow"},
    "failed": {"fg": "red"},
    "overdue": {"fg": "red"},
    "completed": {"dim": True},
    "cancelled": {"dim": True},
}
NARROW = 72
"""Columns below which a row of a table is shown as a block."""
LONG_WORD = 16
"""Letters of a word for which no table gets out of shape."""


def safe(value: object, *, lines: bool = False) -> str:
    """Text that may be shown; with `lines` it keeps its line breaks."""
    text = str(value)
    if lines:
        return "\n".join(_UNSAFE.sub(_escape, line.expandtabs(4)) for line in text.split("\n"))
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON that may be shown: what JSON lets through and a terminal should not get is escaped in it."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return re.sub(_UNSAFE, lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def say_json(value: Any, *, line: bool = False) -> None:
    """Print JSON, for a program: indented, or as one line of a stream."""
    click.echo(as_json(value, indent=None if line else 2))


def is_terminal(err: bool = False) -> bool:
    """Whether a person reads this output."""
    return (sys.stderr if err else sys.stdout).isatty()


def paint(text: str, *, err: bool = False, **style: Any) -> str:
    """Text with a colour, where a person reads it and did not say NO_COLOR."""
    if not style or not is_terminal(err) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **style)


def state_style(state: str) -> dict[str, Any]:
    """How a state is painted."""
    return dict(_STATES.get(state, {}))


def say(text: str = "", *, err: bool = False) -> None:
    """Print lines that are safe already."""
    click.echo(text, err=err, color=True if is_terminal(err) else None)


def note(text: str) -> None:
    """Tell the person at the terminal what happens, beside the output proper."""
    say(paint(safe(text, lines=True), err=True, dim=True), err=True)


def error(message: str) -> None:
    """One line on stderr: what was wrong and what to do next."""
    say(f"{paint('error:', err=True, fg='red', bold=True)} {safe(message)}", err=True)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    style_by: str = "state",
    cut: bool = False,
) -> None:
    """Print rows: aligned and in colour for a person, tab-separated for a pipe.

    Args:
        cut: a row is one line on a terminal; else what does not fit goes on in the next one.
    """
    cells = [[safe("" if cell is None else cell) for cell in row] for row in rows]
    if not is_terminal():
        for line in [list(columns), *cells]:
            say("\t".join(line))
        return
    colour_of = columns.index(style_by) if style_by in columns else None
    styles = [state_style(row[colour_of].split()[0]) if colour_of is not None else {} for row in cells]
    columns, cells = _filled(columns, cells)
    width = shutil.get_terminal_size().columns
    if width < NARROW or not (cut or _words_fit(columns, cells, width)):
        _blocks(columns, cells, styles)
    else:
        _aligned(columns, cells, styles, cut)


def _filled(columns: Sequence[str], cells: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The columns that have something in them, for a person."""
    kept = [at for at in range(len(columns)) if any(row[at] for row in cells)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in cells]


def _words_fit(columns: Sequence[str], cells: list[list[str]], width: int) -> bool:
    """Whether a table of this width breaks no word but the longest ones, which break anywhere."""
    words = [
        max(min(len(word), LONG_WORD) for row in (columns, *cells) for word in row[at].split() or [""])
        for at in range(len(columns))
    ]
    return sum(words) + 2 * len(words) <= width


def _blocks(columns: Sequence[str], cells: list[list[str]], styles: list[dict[str, Any]]) -> None:
    """A row as a block of lines, where a table would be cut."""
    widest = max(map(len, columns))
    room = max(20, shutil.get_terminal_size().columns - widest - 3)
    for row, style in zip(cells, styles, strict=True):
        say(paint(f"{columns[0]} {row[0]}", bold=True))
        for name, cell in zip(columns[1:], row[1:], strict=True):
            for number, line in enumerate(textwrap.wrap(cell, room)):
                title = name if number == 0 else ""
                say(f"  {paint(title.ljust(widest), dim=True)} {paint(line, **style)}")


def _aligned(columns: Sequence[str], cells: list[list[str]], styles: list[dict[str, Any]], cut: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        drawn.add_column(Text(name), no_wrap=cut or number == 0, overflow="ellipsis" if cut else "fold")
    for row, style in zip(cells, styles, strict=True):
        look = " ".join([str(style["fg"])] if "fg" in style else ["dim"] if style else [])
        drawn.add_row(
            *(
                Text(cell, style=look if name == "state" else "")
                for name, cell in zip(columns, row, strict=True)
            )
        )
    Console(highlight=False, markup=False, emoji=False, soft_wrap=False).print(drawn)


def ago(at: datetime | None, now: datetime) -> str:
    """An instant: ISO text in a pipe, and for a person also how long ago that was."""
    if at is None:
        return ""
    return f"{at:%Y-%m-%d %H:%M:%SZ} ({_span(now - at)})" if is_terminal() else _exact(at)


def age(at: datetime, now: datetime) -> str:
    """An instant in a table: how long ago it was, for a person; ISO text in a pipe."""
    return _span(now - at) if is_terminal() else _exact(at)


def _exact(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _span(span: timedelta) -> str:
    seconds = abs(span.total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            told = f"{int(seconds // size)} {name}"
            return f"{told} ago" if span > timedelta() else f"in {told}"
    return "now"
