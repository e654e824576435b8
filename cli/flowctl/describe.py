"""How is a run told to a person: its state, its locks, what it asks, and the command to go on?

Lines of safe text; what they say is the engine's, the words are the same everywhere in flowctl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from flowctl import prompts
from flowctl.options import Settings
from flowctl.render import ago, as_json, paint, safe, state_style
from quiesce.runs import Event, Hold, Lock, RunStatus

__all__ = [
    "answer_command",
    "event_line",
    "fields",
    "headline",
    "hold_lines",
    "lock_text",
    "question_lines",
    "status_lines",
]

MOST_CHILDREN = 12
"""How many inner runs are named; `flowctl list --parent` has all of them."""
LONGEST = 80
"""Characters of a value in a line of the log."""
SHOWN_LINES = 12
"""Lines of a payload that are shown when a person is asked; `flowctl show` has all of them."""


def headline(status: RunStatus) -> str:
    """The run and its state, in a line."""
    state = paint(status.state.value, **state_style(status.state.value))
    told = [f"{paint(safe(status.id), bold=True)} {state}"]
    if status.phase:
        counts = [f"{status.draining} draining"] * bool(status.draining)
        counts += [paint(f"{status.overdue} overdue", fg="red")] * bool(status.overdue)
        told.append(status.phase + (f" ({', '.join(counts)})" if counts else ""))
    if status.locks:
        told.append("held by " + ", ".join(sorted(lock.kind for lock in status.locks)))
    return ", ".join(told)


def lock_text(lock: Lock, now: datetime) -> str:
    """A lock: which, why, by whom and since when."""
    first = (lock.reason or "").partition("\n")[0]
    why = f": {safe(first)}" if first else ""
    who = f", by {safe(lock.actor)}" if lock.actor else ""
    return f"{lock.kind}{why}{who}, since {ago(lock.since, now)}"


def fields(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names and values as aligned lines; a value that is empty is left out."""
    widest = max((len(name) for name, value in pairs if value), default=0)
    for name, value in pairs:
        if value:
            yield f"{paint(name.ljust(widest), dim=True)}  {value}"


def status_lines(
    status: RunStatus, settings: Settings, now: datetime, *, shown: int | None = 0
) -> Iterator[str]:
    """A run, line by line; `shown` as in `hold_lines`."""
    yield headline(status)
    flow = f"{safe(status.flow)} (version {safe(status.version)})"
    lost = f" ({safe(status.lost_reason)})" if status.lost_reason else ""
    pairs = [("flow", flow), ("parent", safe(status.parent_id or ""))]
    pairs += [("lock", lock_text(lock, now)) for lock in status.locks]
    pairs += [
        ("error", safe(status.error or "")),
        ("result", as_json(status.result) if status.state.value == "completed" else ""),
        ("worker", safe(status.worker or "")),
        ("recoverable", f"{status.recoverable}{lost}" if status.state.value in ("running", "paused") else ""),
        ("children", safe(_some(status.children))),
        ("generation", f"{status.generation} (execution {status.execution})"),
        ("created", ago(status.created_at, now)),
        ("updated", ago(status.updated_at, now)),
        ("quiescent", ago(status.quiescent_at, now)),
    ]
    yield from fields(pairs)
    for hold in status.holds:
        yield from hold_lines(hold, settings, now, shown=shown)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_CHILDREN
    return ", ".join(names[:MOST_CHILDREN]) + (f" and {more} more" if more > 0 else "")


def question_lines(
    hold: Hold, settings: Settings, now: datetime, *, shown: int | None = SHOWN_LINES
) -> Iterator[str]:
    """A question: where it is asked, what it asks and shows.

    Args:
        shown: how many lines of what it shows; None for all.
    """
    due = ""
    if hold.deadline is not None:
        due = f", {paint('late', fg='red')}:" if hold.late else ","
        due += f" deadline {ago(hold.deadline, now)}"
    yield f"{paint(safe(hold.id), bold=True)} asks at {safe(hold.path)} since {ago(hold.opened_at, now)}{due}"
    for line in safe(hold.reason or "(no reason was given)", lines=True).split("\n"):
        yield f"    {paint(line, fg='yellow')}"
    if hold.payload is not None:
        text = hold.payload if isinstance(hold.payload, str) else as_json(hold.payload, indent=2)
        lines = safe(text, lines=True).split("\n")
        yield from (f"    | {line}".rstrip() for line in lines[:shown])
        if shown is not None and len(lines) > shown:
            all_of_it = settings.command("show", hold.run_id)
            yield f"    | {len(lines) - shown} {'more ' * bool(shown)}lines: {all_of_it}"


def hold_lines(
    hold: Hold, settings: Settings, now: datetime, *, shown: int | None = SHOWN_LINES
) -> Iterator[str]:
    """A question, and the commands that settle it; `shown` as in `question_lines`."""
    yield from question_lines(hold, settings, now, shown=shown)
    if hold.state == "open":
        yield f"    expects:  {safe(prompts.outline(hold.expects))}"
        yield f"    answer:   {answer_command(hold, settings)}"
        yield f"    refuse:   {settings.command('reject', hold.id, 'MESSAGE')}"


def answer_command(hold: Hold, settings: Settings) -> str:
    """The command that answers a hold, with an answer of the right kind."""
    return settings.command("answer", hold.id, prompts.example(hold.expects))


def event_line(event: Event) -> str:
    """One entry of the log; `--json` has its long values whole."""
    told = [
        str(event.seq),
        event.at.isoformat(timespec="milliseconds"),
        safe(event.run_id),
        paint(safe(event.kind), bold=True),
        *([f"by {safe(event.actor)}"] if event.actor else []),
        *(f"{safe(key)}={_short(value)}" for key, value in event.data.items() if value is not None),
    ]
    return " ".join(told)


def _short(value: object) -> str:
    text = safe(value) if isinstance(value, str) else as_json(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
