"""Is every agent case, and every defect of the seed's system, shown by a test?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
WHERE = ("adapters/greenlets", "contract", "engine/agent")

CASES = {
    *range(1, 13), *range(14, 21), 22, 23, 27, 28, 29, *range(31, 35), 37, 38, 39, 43, 45, 46, 48,
}  # fmt: skip
"""Without those about policies (35, 36, 41, 42), which come later; 24 and 25 have no counterpart."""
DEFECTS = set(range(1, 17))


def shown() -> set[str]:
    """The numbers in the docstrings of tests, as `S7` or `B12`."""
    found = set[str]()
    for file in (file for folder in WHERE for file in sorted((TESTS / folder).glob("test_*.py"))):
        for test in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
                found |= set(re.findall(r"\b[SB]\d+\b", ast.get_docstring(test) or ""))
    return found


def test_no_case_and_no_defect_is_missing() -> None:
    """Source: issue 4: all of the agent cases are tests, and each defect has its counterpart."""
    listed = {f"S{number}" for number in CASES} | {f"B{number}" for number in DEFECTS}
    assert sorted(listed - shown()) == []
