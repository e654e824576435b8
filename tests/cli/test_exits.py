"""Which exit code does each error have? Row by row against the specification's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowctl import exits
from quiesce import errors
from quiesce.errors import QuiesceError

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

# Spec engine, 7, the paragraph "Exit codes", and below it what that paragraph leaves to us.
SPEC = {
    1: ["RunFailed", "RunCancelled"],
    2: ["NotSerializable", "GraphError", "MissingTransition", "MissingNode", "NoSteps"],
    3: ["RunNotFound", "FlowNotFound", "UnknownHold"],
    4: [
        "IllegalTransition",
        "RunActive",
        "NotResumable",
        "Fenced",
        "StaleGeneration",
        "StaleLease",
        "HeldElsewhere",
        "AlreadyAnswered",
        "Expired",
        "Withdrawn",
        "RequestConflict",
        "FlowChanged",
        "NonDeterminism",
    ],
    5: ["AnswerRequired", "AmbiguousAnswer", "AnswerRejected"],
    6: ["StoreBusy", "StoreFull", "StoreReadOnly", "StoreMismatch"],
}
OURS = {
    1: ["NodeError", "Rejected", "Deadlock", "PauseOutsideBody", "StepFailed", "WrongThread"],
    2: ["QuiesceError", "InputRejected", "FlowNotImportable"],
    6: ["StoreError"],
}
ROWS = [(name, code) for table in (SPEC, OURS) for code, names in table.items() for name in names]


def made(name: str) -> QuiesceError:
    """An error of this class, whatever its constructor wants."""
    kind: type[QuiesceError] = getattr(errors, name)
    return kind.__new__(kind)


@pytest.mark.parametrize(("name", "code"), ROWS)
def test_an_error_has_the_exit_code_of_its_row(name: str, code: int) -> None:
    """Source: spec engine, 7."""
    assert exits.exit_code(made(name)) == code


def test_every_error_has_a_row() -> None:
    """A new error fails here until its exit code is decided."""
    assert {name for name, _ in ROWS} == set(errors.__all__)


def test_an_error_of_somebody_else_has_the_code_of_the_class_above_it() -> None:
    """A third party's backend may derive errors of its own."""

    class Lost(errors.StoreBusy):
        pass

    assert exits.exit_code(Lost("gone")) == 6


def test_the_readme_has_the_codes_of_the_table() -> None:
    """Source: spec engine, 7: one table."""
    shown = {int(found) for found in re.findall(r"^\| (\d+) \| ", README, re.MULTILINE)}
    used = set(exits.EXITS.values()) | {exits.DONE, exits.OVERDUE, exits.PAUSED, exits.INTERRUPTED}
    assert shown == used
