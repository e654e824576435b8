"""The story that `flowctl demo` tells: a run is held, its process dies, and another one continues it.

Nothing is played. Each command is run as it is printed, by a process of its own; the first one asks on a
terminal (a pseudo-terminal) and is killed with SIGKILL while it waits.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

import flowctl
from flowctl import exits, render
from flowctl.options import Settings

__all__ = ["tell"]

EXAMPLE = "workspace_architect.py"
FLOW = f"{EXAMPLE}:graph"
SHOWN = 10
"""Lines of the written file that are shown."""


def tell(package: str, settings: Settings) -> int:
    """Tell it; returns the exit code."""
    source = _source_of(package)
    with tempfile.TemporaryDirectory(prefix="flowctl-demo-") as folder:
        story = _Story(Path(folder), settings)
        shutil.copytree(source, story.folder / package, ignore=shutil.ignore_patterns("__pycache__", "test*"))
        for example in _examples().glob("*.py"):
            shutil.copy(example, story.folder)
        return story.run(package)


def _source_of(package: str) -> Path:
    try:
        found = importlib.import_module(package).__file__
    except ImportError as error:
        raise click.UsageError(f"there is no package {package!r} here: {error}") from None
    if found is None or Path(found).name != "__init__.py":
        raise click.UsageError(f"{package!r} is no package with a folder; take email or json")
    return Path(found).parent


def _examples() -> Path:
    """The examples: beside the code in an installed wheel, in the checkout otherwise."""
    inside = Path(flowctl.__file__).parent / "examples"
    return inside if inside.is_dir() else Path(flowctl.__file__).parents[2] / "examples"


class _Story:
    """The commands of the demo, in one folder."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._settings = settings
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "100"}
        for name in ("FLOWCTL_DB", "WORKSPACE_ARCHITECT_WRITER"):
            self._environment.pop(name, None)

    def run(self, package: str) -> int:
        self._say(f"A copy of the package {package} is in {self.folder}; all commands run there.")
        self._say("A process surveys it, drafts its ARCHITECTURE.md, and asks before it writes anything:")
        self._until_asked("run", FLOW, package, "--id", "architect")
        self._say("That process was killed with SIGKILL while it waited. Nothing was lost; a new one sees:")
        self._command("status", "architect")
        hold = self._read("holds")["holds"][0]["id"]
        visits = self._visits()
        self._say("Another new process answers. It goes on with the draft that was approved:")
        self._command("answer", hold, "true")
        again = [node for node in self._visits()[len(visits) :] if node in ("survey", "draft")]
        written = self.folder / package / "ARCHITECTURE.md"
        if again or not written.is_file():
            render.error(f"the demo did not go as it should: {again} ran again, {written} was not written")
            return exits.FAILED
        self._say(f"Visits before the kill: {', '.join(visits)}.")
        self._say(
            f"Visits after the answer: {', '.join(self._visits()[len(visits) :])}. No survey, no draft."
        )
        self._say(f"{written.name} begins:")
        for line in written.read_text(encoding="utf-8").splitlines()[:SHOWN]:
            render.say("    " + render.safe(line))
        return exits.DONE

    def _say(self, text: str) -> None:
        render.say("\n" + render.paint(render.safe(text), bold=True))

    def _show(self, words: tuple[str, ...]) -> list[str]:
        render.say(render.paint(f"$ {shlex.join(['flowctl', *words])}", fg="cyan"))
        sys.stdout.flush()
        return [sys.executable, "-m", "flowctl", *words]

    def _command(self, *words: str) -> None:
        """Run a command, and show what it prints."""
        done = subprocess.run(
            self._show(words),
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in done.stdout.splitlines():
            render.say("    " + render.safe(line))

    def _read(self, *words: str):  # type: ignore[no-untyped-def]
        """What a command says as JSON; not part of the story."""
        done = subprocess.run(
            [sys.executable, "-m", "flowctl", *words, "--json"],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def _visits(self) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "flowctl", "events", "architect", "--json"],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event["data"]["node"] for event in events if event["kind"] == "visit"]

    def _until_asked(self, *words: str) -> None:
        """Run a command on a terminal of its own, show it until it asks, and kill it."""
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            self._show(words),
            cwd=self.folder,
            env=self._environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        try:
            seen = ""
            while not seen.endswith("(y/n): "):
                try:
                    read = os.read(ours, 65536)
                except OSError as error:  # Linux says so when the other end has gone
                    if error.errno != errno.EIO:
                        raise
                    read = b""
                if not read:
                    raise click.ClickException(f"the run ended before it asked:\n{seen}")
                seen += read.decode(errors="replace")
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.replace("\r\n", "\n"))
            for line in plain.split("\n"):
                render.say("    " + render.safe(line))
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            os.close(ours)
        render.say(render.paint(f"$ kill -9 {child.pid}", fg="cyan"))
