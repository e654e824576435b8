"""How does ask_human speak to somebody at a terminal, where there is no body?"""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from quiesce import ask_human, errors


def test_outside_a_body_it_prints_the_question_and_reads_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: cases agent S32."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("Ann\nnext\n"))
    assert ask_human("what is your name?") == "Ann"
    assert capsys.readouterr().out == "what is your name?\n> "
    assert sys.stdin.readline() == "next\n"


def test_a_typed_answer_is_asked_again_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: issue 4 (validated, asked again with the reason)."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("many\n7\n"))
    assert ask_human("how many?", expects=int) == 7
    assert "expected int" in capsys.readouterr().out


@pytest.mark.parametrize("question", [None, 5, b"bytes", ["list"]])
def test_a_question_that_is_no_text_is_refused_before_anything_else(
    question: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: cases agent S33."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("Ann\n"))
    with pytest.raises(TypeError, match="a question is text"):
        ask_human(question)
    assert capsys.readouterr().out == ""
    assert sys.stdin.read() == "Ann\n"


def test_stdin_at_its_end_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: cases agent S34, B11."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(errors.PauseOutsideBody, match="stdin is closed") as caught:
        ask_human("anybody?")
    assert caught.value.__suppress_context__


def test_closed_and_missing_stdin_are_clear_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: cases agent S34, B11."""
    closed = io.StringIO("")
    closed.close()
    for stdin in (closed, None):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(errors.PauseOutsideBody, match="stdin is closed"):
            ask_human("anybody?")
