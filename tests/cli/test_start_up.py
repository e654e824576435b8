"""What does a command load? Start-up is what a person waits for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .conftest import Shell

PROBE = """
import json, sys
from flowctl.main import main
try:
    main({words!r})
except SystemExit as left:
    code = left.code
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
HEAVY = {"pydantic", "pydantic_core", "jsonschema", "referencing", "sqlite_utils", "rich", "trio", "greenlet"}


def loaded(shell: Shell, *words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(words=list(words))],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.mark.parametrize(
    "words", [("status",), ("status", "r1"), ("list",), ("holds",), ("show", "r1"), ("events",)]
)
def test_looking_loads_nothing_heavy_and_no_event_loop(flowctl: Shell, words: tuple[str, ...]) -> None:
    """Source: spec engine, 8: `flowctl status` at most 6 times a bare script (pydantic alone is 136 ms)."""
    flowctl.held()
    code, modules = loaded(flowctl, *words)
    assert code == 0
    assert (HEAVY | {"anyio._backends._asyncio"}) & modules == set()


def test_an_answer_of_a_builtin_type_loads_nothing_heavy(flowctl: Shell) -> None:
    """Source: spec engine, 8: from `flowctl answer` in a new process to the finished run."""
    hold = flowctl.held()
    code, modules = loaded(flowctl, "answer", hold, "true")
    assert code == 0
    assert HEAVY & modules == set()


@pytest.mark.parametrize("words", [("--version",), ("completion", "fish")])
def test_what_needs_no_store_does_not_load_the_engine(flowctl: Shell, words: tuple[str, ...]) -> None:
    """A shell that completes a word runs flowctl each time."""
    code, modules = loaded(flowctl, *words)
    assert code == 0
    assert {name for name in modules if name.partition(".")[0] in ("quiesce", "quiesce_adapters")} == set()


def test_one_command_loads_no_other(flowctl: Shell) -> None:
    """Commands are loaded when they are called."""
    _, modules = loaded(flowctl, "completion", "zsh")
    assert {name for name in modules if name.startswith("flowctl.commands.")} == {
        "flowctl.commands.completion"
    }
