"""Is every graph case shown by a test here?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent

CASES = {
    "linear": {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 16, 17, 18, 19},
    "validation": {20, 21, 22, 23, 25, 26, 27, 28, 29, 31, 32},
    "current_nodes": {33, 34, 35, 36, 37, 38, 39, 41, 42},
    "fan_out": {43, 44, 45, 46, 48, 49, 50, 51, 52, 53, 54, 57, 58, 59, 60},
    "scheduling": {61, 62, 63, 64, 66, 67, 68, 69},
    "pause": {70, 71, 72, 74, 76, 77, 79, 80, 81, 82, 84, 85, 87},
    "errors": {88, 89, 90, 91, 92, 93, 94, 95, 96, 98, 99},
    "clone": {100, 102},
    "observability": {103, 104, 105},
    "types": {106, 107, 108, 109, 110, 111, 112, 113},
}


def shown(section: str) -> set[int]:
    """The numbers with which the docstrings of a section's tests begin."""
    tree = ast.parse((HERE / f"test_cases_{section}.py").read_text(encoding="utf-8"))
    found = set[int]()
    for test in ast.walk(tree):
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
            told = re.match(r"Cases? (\d+(?:(?:, | and )\d+)*)", ast.get_docstring(test) or "")
            found |= {int(number) for number in re.findall(r"\d+", told[1])} if told else set()
    return found


def test_no_case_is_missing() -> None:
    """The numbers of the list of graph cases, by section; those that it skips are kept for later."""
    missing = {section: sorted(cases - shown(section)) for section, cases in CASES.items()}
    assert {section: cases for section, cases in missing.items() if cases} == {}
