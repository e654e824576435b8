"""flowctl: what does a command line mean, and which exit code does what happened have?

A command is loaded when it is called, so that `flowctl status` pays for a status and nothing else.
Errors become one line on stderr that says what to do next; `--debug` shows the trace as well.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any, NoReturn

import click

from flowctl.options import Settings, add_shared_options

__all__ = ["COMMANDS", "Flowctl", "main"]

COMMANDS = {
    "Start": ["run", "create", "demo"],
    "Steer": ["pause", "resume", "answer", "reject", "cancel", "reset", "retry", "takeover", "fork"],
    "Teams": ["tasks", "turns", "send", "direct"],
    "Look": ["status", "list", "show", "holds", "inbox", "events", "watch", "explain", "graph"],
    "Keep": ["doctor", "prune", "bench", "completion"],
}
"""The commands by what they are for, in the order of the help."""

_ALIASES = {"inbox": "holds"}


class _Lazy(MutableMapping[str, click.Command]):
    """Commands by name, each imported when somebody looks at it."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            if name not in set(self):
                raise KeyError(name)
            module = importlib.import_module(f"flowctl.commands.{_ALIASES.get(name, name)}")
            self._loaded[name] = module.command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return (name for names in COMMANDS.values() for name in names)

    def __len__(self) -> int:
        return sum(map(len, COMMANDS.values()))


class Flowctl(click.Group):
    """The group; its `main` is the one place where errors become exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.commands))
        for title, names in COMMANDS.items():
            with formatter.section(title):
                limit = formatter.width - 6 - widest
                rows = [(name.ljust(widest), self.commands[name].get_short_help_str(limit)) for name in names]
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would make an error of it
            return _reader_has_gone()

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command line and leave with its exit code."""
        settings = extra.setdefault("obj", Settings())
        extra.setdefault("prog_name", "flowctl")
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter gets its escape
                stream.reconfigure(errors="backslashreplace")
        try:
            code: Any = super().main(*args, standalone_mode=False, **extra)  # type: ignore[call-overload]
            sys.stdout.flush()
        except BaseException as error:
            code = _code_of(error, settings)
        if standalone_mode:
            _leave(code if isinstance(code, int) else 0)
        return code


def _code_of(error: BaseException, settings: Settings) -> int:
    """Say what went wrong, in one line, and give the exit code for it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    from flowctl import exits

    if isinstance(error, BrokenPipeError):
        return _reader_has_gone()
    if settings.debug:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        click.echo("interrupted", err=True)
        return exits.INTERRUPTED
    from flowctl import render
    from quiesce.errors import QuiesceError

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return exits.USAGE
    if isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        hint = f"; see {ctx.command_path} --help" if ctx is not None else ""
        render.error(error.format_message().rstrip(".") + hint)
        return exits.USAGE
    if isinstance(error, QuiesceError):
        render.error(str(error))
        if settings.json:
            render.say_json({"error": {"code": error.code, "message": str(error), **vars(error)}})
        return exits.exit_code(error)
    if isinstance(error, OSError):
        render.error(f"{error.filename or 'the system'}: {error.strerror or error}")
        return exits.USAGE
    hint = "" if settings.debug else "; --debug shows where"
    render.error(f"this should not happen: {type(error).__name__}: {error}{hint}")
    return exits.FAILED


def _reader_has_gone() -> int:
    from flowctl import exits

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the exit complains again
    return exits.BROKEN_PIPE


def _leave(code: int) -> NoReturn:
    if any(thread.is_alive() and not thread.daemon for thread in threading.enumerate()[1:]):
        # A node that blocks in a thread of its own has been handed back; nobody waits for it here.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@click.group(cls=Flowctl, commands=_Lazy(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quiesce", prog_name="flowctl", message="%(prog)s %(version)s")
def main() -> None:
    """Run flows that pause, and know what is held, why, by whom, and what will run again."""


main.params = add_shared_options(main.params)
