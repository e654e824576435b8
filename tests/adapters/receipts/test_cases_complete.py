"""Is every team case, every weak spot and every invariant shown by a test?

A test says in its docstring what it shows: `Case 12`, `Cases 94, 96`, `Cases 22 to 24`, `W3`, `N14`; in
other folders `cases team 12`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
HERE = Path(__file__).parent
ELSEWHERE = ("contract", "faults", "cli", "examples")

CASES = (
    {*range(1, 14), *range(15, 19), *range(20, 32), *range(33, 67), *range(68, 72), 73, 74}
    | {*range(75, 81), 82, 83, *range(84, 90), *range(91, 100), 101, 102, *range(103, 108)}
    | {*range(109, 114), 115, 116, 117, *range(119, 125), *range(126, 130)}
) - {4, 53, 54}
"""The numbers that cases/team.md lists; 4 and 32 (archive) have no counterpart, nor have 53 and 54: what a
message or an assignment becomes is decided when its turn is, not when a resume is."""
WEAK_SPOTS = set(range(1, 16))
INVARIANTS = set(range(1, 15))


def docstrings(file: Path) -> list[str]:
    """Of the tests in a module."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tests = (item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
    return [ast.get_docstring(test) or "" for test in tests if test.name.startswith("test_")]


def here() -> list[str]:
    return [text for file in sorted(HERE.glob("test_*.py")) for text in docstrings(file)]


def numbers(text: str, named: str) -> set[int]:
    """The cases that a docstring names."""
    found = set[int]()
    for listed in re.findall(rf"\b[Cc]ases? {named}((?:\d+(?: to \d+)?(?:, | and )?)+)", text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", listed):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_no_case_is_missing() -> None:
    """Source: issue 5: all of cases/team.md are tests."""
    shown = set[int]().union(*(numbers(text, "(?:team )?") for text in here()))
    for file in (file for folder in ELSEWHERE for file in sorted((TESTS / folder).glob("test_*.py"))):
        shown = shown.union(*(numbers(text, "team ") for text in docstrings(file)))
    assert sorted(CASES - shown) == []


def test_no_weak_spot_and_no_invariant_is_missing() -> None:
    """Source: issue 5: W1 to W15 each shown by a test, N1 to N14 named in tests."""
    shown = set[str]().union(*(re.findall(r"\b[WN]\d+\b", text) for text in here()))
    wanted = {f"W{number}" for number in WEAK_SPOTS} | {f"N{number}" for number in INVARIANTS}
    assert sorted(wanted - shown) == []
