"""Which options does every command take?

They are accepted before and after the name of the command, since people type both; after wins. A command
that is no verb of a run takes no request id, and says so.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

__all__ = [
    "Plain",
    "Settings",
    "Verb",
    "add_shared_options",
    "goes_on",
    "hold_argument",
    "pass_settings",
    "run_argument",
]

DEFAULT_STORE = "flows.db"


@dataclass(slots=True)
class Settings:
    """What the shared options say."""

    db: str | None = None
    json: bool = False
    request_id: str | None = None
    actor: str | None = None
    reason: str | None = None
    debug: bool = False

    @property
    def store(self) -> str:
        """The path or URL of the store."""
        return self.db or os.environ.get("FLOWCTL_DB") or DEFAULT_STORE

    @property
    def asked(self) -> dict[str, Any]:
        """Who asks for a verb, as the verbs of a `Runtime` take it."""
        return {"request_id": self.request_id, "actor": self.actor, "reason": self.reason}

    def command(self, *words: str) -> str:
        """A command that a person can paste, on the same store."""
        options = ["--db", self.db] if self.db else []
        return shlex.join(["flowctl", *options, *words])


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value not in (None, False):
        setattr(ctx.ensure_object(Settings), param.name or "", value)


def _option(*names: str, help: str, **attributes: Any) -> click.Option:
    return click.Option(names, help=help, expose_value=False, callback=_keep, **attributes)


def _for_all() -> list[click.Option]:
    return [
        _option("--db", metavar="PATH", help="The store: a file or URL.  [env: FLOWCTL_DB; else flows.db]"),
        _option("--json", is_flag=True, help="Print JSON."),
        _option("--debug", is_flag=True, help="Show the trace of an error."),
    ]


def _for_verbs() -> list[click.Option]:
    return [
        _option("--request-id", metavar="ID", help="Idempotency key: repeated, it gets the same reply."),
        _option("--actor", metavar="WHO", help="Who does this.  [default: user@host]"),
        _option("--reason", metavar="TEXT", help="Why; kept in the log."),
    ]


class Plain(click.Command):
    """A command that is no verb of a run: it looks, or it keeps the store."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params += _for_all()

    def invoke(self, ctx: click.Context) -> Any:
        settings = ctx.ensure_object(Settings)
        if settings.request_id is not None:
            raise click.UsageError(f"{ctx.info_name} is no verb of a run, so it takes no --request-id", ctx)
        return super().invoke(ctx)


class Verb(click.Command):
    """A command that changes a run."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params += _for_all() + _for_verbs()


def add_shared_options(params: Sequence[click.Parameter]) -> list[click.Parameter]:
    """The options that stand before the name of a command, after these."""
    return [*params, *_for_all(), *_for_verbs()]


def goes_on(command: Callable[..., int]) -> Callable[..., int]:
    """The options of a verb that may make a run go."""
    command = click.option(
        "--no-drive",
        "drives",
        flag_value=False,
        default=True,
        help="Only record it; others run what goes on.",
    )(command)
    return click.option("--flow", metavar="FLOW", help="Where the flow is now, if it moved.")(command)


def _complete(what: Literal["runs", "holds"]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from flowctl import wiring

        return wiring.begin_so(ctx.ensure_object(Settings), what, incomplete)

    return complete


def run_argument(*, required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """RUN: an id, or the beginning of one."""
    return click.argument("run", required=required, shell_complete=_complete("runs"))


def hold_argument() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """HOLD: an id, or the beginning of one."""
    return click.argument("hold", shell_complete=_complete("holds"))
