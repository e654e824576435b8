"""What reaches an output? Never a character of the data that a terminal would obey."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowctl import render

TEXT = st.text(st.characters(), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = set("\u061c\u200e\u200f\u2028\u2029")


def obeyed(letter: str) -> bool:
    """Whether a terminal does something with it besides showing it (by Unicode's own tables)."""
    return (
        unicodedata.category(letter) in ("Cc", "Cs")
        or unicodedata.bidirectional(letter) in BIDI
        or letter in MARKS
    )


@given(TEXT)
def test_text_from_data_is_shown_and_not_obeyed(text: str) -> None:
    """Source: spec engine, 7: control characters from data are never sent to a terminal."""
    assert not any(map(obeyed, render.safe(text)))


@given(TEXT)
def test_line_breaks_are_kept_where_lines_are_shown(text: str) -> None:
    shown = render.safe(text, lines=True)
    assert not any(obeyed(letter) for letter in shown if letter != "\n")
    assert shown.count("\n") == text.count("\n")


@given(JSON)
def test_json_is_safe_and_says_the_same(value: Any) -> None:
    """What JSON lets through (bidi marks, C1 controls) is escaped in JSON's own way."""
    for indent in (None, 2):
        text = render.as_json(value, indent=indent)
        assert not any(obeyed(letter) for letter in text if letter != "\n")
        assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\tb\r\nc", "a\\tb\\r\\nc"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\x9b2J", "\\x9b2J"),
        ("\ud800", "\\ud800"),
        ("grün, 緑, 👩‍💻", "grün, 緑, 👩‍💻"),
    ],
)
def test_an_escape_can_be_read(text: str, shown: str) -> None:
    assert render.safe(text) == shown


def test_a_table_in_a_pipe_is_tab_separated_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Stable for scripts: no column is cut, padded or coloured, and no cell breaks a line or a column."""
    render.table(("run", "why"), [("r1", "x" * 300), ("r2", "a\tb\nc"), ("r3", None)])
    assert capsys.readouterr().out == f"run\twhy\nr1\t{'x' * 300}\nr2\ta\\tb\\nc\nr3\t\n"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Source: spec engine, 7: errors are one line."""
    render.error("first\nsecond")
    assert capsys.readouterr() == ("", "error: first\\nsecond\n")


NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (timedelta(seconds=0.2), "now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=90), "1 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(minutes=-5), "in 5 min"),
    ],
)
def test_a_person_reads_how_long_ago_it_was(
    before: timedelta, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "is_terminal", lambda err=False: True)
    assert render.age(NOW - before, NOW) == told
    assert render.ago(NOW - before, NOW).endswith(f"({told})")


def test_a_script_reads_the_instant() -> None:
    assert render.age(NOW, NOW + timedelta(hours=1)) == "2030-01-01T12:00:00+00:00"
