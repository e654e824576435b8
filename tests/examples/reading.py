"""How the tests read a survey."""

from collections.abc import Callable
from pathlib import Path

from workspace_survey import Module, Survey

__all__ = ["Make", "imports", "module", "origins"]

Make = Callable[[dict[str, str | bytes]], Path]
"""Writes these files into a folder of a project."""


def module(survey: Survey, name: str) -> Module:
    return next(m for m in survey.modules if m.name == name)


def imports(survey: Survey, name: str) -> dict[str, str]:
    """target -> when, of the project's own modules."""
    return {i.target: i.when for i in module(survey, name).imports if i.origin == "project"}


def origins(survey: Survey, name: str) -> dict[str, str]:
    return {i.target: i.origin for i in module(survey, name).imports}
