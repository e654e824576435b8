"""Does flowctl ask, draw and leave well on a terminal? A pseudo-terminal, of real bytes."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import signal
import struct
import termios
from collections.abc import Iterator

import pytest

from .conftest import Shell
from .forked import LIMIT

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """flowctl on a terminal: what it shows, and keys for it."""

    def __init__(self, shell: Shell, *words: str, columns: int = 100, **environment: str) -> None:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._fd = ours
        self.shown = ""
        self._seen = 0
        self.process = shell.forks.start(
            list(words),
            shell.folder,
            shell.environment | environment,
            (theirs, theirs, theirs),
            terminal=True,
        )
        os.close(theirs)

    def _read(self) -> bool:
        assert select.select([self._fd], [], [], LIMIT)[0], f"nothing more after: {self.shown[-400:]!r}"
        try:
            read = os.read(self._fd, 65536)
        except OSError as error:  # Linux says so when the other end has gone
            if error.errno != errno.EIO:
                raise
            read = b""
        self.shown += read.decode()
        return bool(read)

    def until(self, text: str) -> str:
        """Everything that is shown up to this text, from where the last call ended."""
        while text not in self.shown[self._seen :]:
            assert self._read(), f"it ended without showing {text!r}: {self.shown!r}"
        end = self.shown.index(text, self._seen) + len(text)
        start, self._seen = self._seen, end
        return self.shown[start:end]

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it showed last."""
        while self._read():
            pass
        return self.process.wait(), self.shown[self._seen :]

    def close(self) -> None:
        self.process.close()
        os.close(self._fd)


@pytest.fixture
def terminals(flowctl: Shell) -> Iterator[list[Terminal]]:
    """Terminals that a test opens with `on_terminal`; closed with it."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")


def test_what_is_held_is_asked_in_place(flowctl: Shell, terminals: list[Terminal]) -> None:
    """Source: spec engine, 7: on a terminal open holds are asked in place; asked again with the reason."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:announce", "pausing", "--id", "r1"))
    assert "Publish 'We now support pausing.'?" in terminal.until("answer (y/n): ")
    terminal.type("perhaps\n")
    assert "please type y or n" in terminal.until("answer (y/n): ")
    terminal.type("y\n")
    code, rest = terminal.end()
    assert code == 0
    assert plain(rest).endswith('r1 completed\n"published: We now support pausing."\n')


def test_a_form_is_asked_field_by_field(flowctl: Shell, terminals: list[Terminal]) -> None:
    """Source: spec engine, 7: a form from their schema."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:verdicts", "1", "--id", "r1"))
    for prompt, line in (
        ("answer.ok (y/n): ", "y"),
        ("answer.level:", ""),
        ("1-2: ", "high"),
        ("answer.score (a number): ", "a lot"),
        ("answer.score (a number): ", "2.5"),
        ("answer.tags: 0 so far; another? (y/n) [n]: ", "y"),
        ("answer.tags[1]: ", "two words"),
        ("answer.tags: 1 so far; another? (y/n) [n]: ", ""),
        ("answer.note.count (a whole number): ", "7"),
        ("answer.note.text [none]: ", ""),
        ("answer.comment: give a value? (y/n) [n]: ", "n"),
    ):
        terminal.until(prompt)
        if not prompt.endswith(":"):
            terminal.type(line + "\n")
    assert terminal.end()[0] == 0
    assert flowctl("status", "r1", "--json").json["result"] == {
        "ok": True,
        "level": "high",
        "score": 2.5,
        "tags": ["two words"],
        "note": {"count": 7, "text": "none"},
        "comment": None,
    }


def test_an_agent_asks_for_a_model_and_an_action_for_a_yes(flowctl: Shell, terminals: list[Terminal]) -> None:
    """Source: issue 4: models become forms, validated, asked again with the reason; so do approvals."""
    terminals.append(terminal := Terminal(flowctl, "run", "agents.py:clerk", "3", "--id", "r1"))
    for prompt, line in (
        ("answer.ok (y/n): ", "perhaps"),
        ("please type y or n\r\nanswer.ok (y/n): ", "y"),
        ("answer.amount (a whole number): ", "500"),
        ("answer.amount: 500 is greater than the maximum of 100", None),
        ("answer.amount (a whole number): ", "7"),
        ("answer.note: give a value? (y/n) [n]: ", ""),
        ("approve carry_out(", None),
        ("answer.approve (y/n): ", ""),
        ("please type y or n\r\nanswer.approve (y/n): ", "y"),
        ("answer.arguments: give a value? (y/n) [n]: ", "y"),
        ("answer.arguments.decision: give a value? (y/n) [n]: ", "n"),
        ("answer.arguments.times: give a value? (y/n) [n]: ", "y"),
        ("answer.arguments.times (a whole number): ", "2"),
    ):
        terminal.until(prompt)
        if line is not None:
            terminal.type(line + "\n")
    assert terminal.end()[0] == 0
    assert flowctl("status", "r1", "--json").json["result"] == "14"
    assert (flowctl.folder / "effects").read_text(encoding="utf-8") == "carry_out 7 x 2\n"


def test_an_action_that_is_refused_in_place_is_rejected_with_the_reason(
    flowctl: Shell, terminals: list[Terminal]
) -> None:
    """Source: spec agent, actions: a no is a rejection, and nothing runs."""
    terminals.append(terminal := Terminal(flowctl, "run", "agents.py:clerk", "3", "--id", "r1"))
    for prompt, line in (
        ("answer.ok (y/n): ", "y"),
        ("answer.amount (a whole number): ", "7"),
        ("answer.note: give a value? (y/n) [n]: ", ""),
        ("answer.approve (y/n): ", "n"),
        ("refused; why? (the run is told): ", "not today"),
    ):
        terminal.until(prompt)
        terminal.type(line + "\n")
    code, rest = terminal.end()
    assert (code, "failed: not today" in rest) == (1, True)
    assert [hold["state"] for hold in flowctl("holds", "r1", "--state", "all", "--json").json["holds"]] == [
        "answered", "rejected",
    ]  # fmt: skip
    assert not (flowctl.folder / "effects").exists()


def test_several_questions_are_asked_one_after_the_other(flowctl: Shell, terminals: list[Terminal]) -> None:
    """Typed ahead, too: what is typed for the next question is not lost."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:pair", "2", "--id", "r1"))
    terminal.until("answer (JSON): ")
    terminal.type('"one"\n{"two": 2}\n')
    assert terminal.end()[0] == 0
    assert flowctl("status", "r1", "--json").json["result"] == ["one", {"two": 2}]


def test_ctrl_d_leaves_the_run_paused_and_says_how_to_go_on(
    flowctl: Shell, terminals: list[Terminal]
) -> None:
    """Source: spec engine, 7: 75 paused."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:announce", "x", "--id", "r1"))
    terminal.until("answer (y/n): ")
    terminal.type(CTRL_D)
    code, rest = terminal.end()
    assert code == 75
    hold = flowctl.hold_of("r1")
    assert f"flowctl answer {hold} true" in rest
    assert flowctl("answer", hold, "true").code == 0


def test_ctrl_c_leaves_the_run_paused_and_says_how_to_go_on(
    flowctl: Shell, terminals: list[Terminal]
) -> None:
    """Source: spec engine, 7: 130 interrupted."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:announce", "x", "--id", "r1"))
    terminal.until("answer (y/n): ")
    terminal.type(CTRL_C)
    code, rest = terminal.end()
    assert code == 130
    assert "Traceback" not in rest
    hold = flowctl.hold_of("r1")
    assert f"flowctl answer {hold} true" in rest
    status = flowctl("status", "r1", "--json").json
    assert (status["state"], status["worker"]) == ("paused", None)


def test_an_answer_from_elsewhere_ends_the_question(flowctl: Shell, terminals: list[Terminal]) -> None:
    """Source: spec engine, 4: exactly one answer wins. The process that asks is rung and goes on itself."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:announce", "x", "--id", "r1"))
    terminal.until("answer (y/n): ")
    done = flowctl("answer", flowctl.hold_of("r1"), "false", "--actor", "ann")
    assert (done.code, done.out) == (0, 'r1 completed\n"not published"\n')
    code, rest = terminal.end()
    assert code == 0
    assert "was answered by ann meanwhile" in rest
    assert plain(rest).endswith('r1 completed\n"not published"\n')


def test_resume_asks_what_a_resume_cannot_make_up(flowctl: Shell, terminals: list[Terminal]) -> None:
    """On a terminal the missing answer is asked, where a script gets exit 5."""
    flowctl.held()
    terminals.append(terminal := Terminal(flowctl, "resume", "r1"))
    terminal.until("answer (y/n): ")
    terminal.type("n\n")
    code, rest = terminal.end()
    assert (code, plain(rest).endswith('r1 completed\n"not published"\n')) == (0, True)


@pytest.mark.parametrize("words", [("--json",), ("--detach",)])
def test_a_script_on_a_terminal_is_not_asked(
    flowctl: Shell, terminals: list[Terminal], words: tuple[str, ...]
) -> None:
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:announce", "x", *words))
    code, rest = terminal.end()
    assert code == (75 if words == ("--json",) else 0)
    assert "(y/n)" not in rest


def test_what_a_run_says_is_never_obeyed_by_the_terminal(flowctl: Shell, terminals: list[Terminal]) -> None:
    """Source: spec engine, 7: control characters from data are never sent to a terminal."""
    terminals.append(terminal := Terminal(flowctl, "run", "sample.py:hostile", "x", "--id", "r1"))
    terminal.until("answer (y/n): ")
    terminal.type("n\n")
    assert terminal.end()[0] == 1
    for words in (("show", "r1"), ("list",), ("events",), ("explain", "r1"), ("holds", "--state", "all")):
        terminals.append(looking := Terminal(flowctl, *words))
        assert looking.end()[0] == 0
    for shown in terminals:
        ours = re.sub(r"\x1b\[[0-9;]*m", "", shown.shown)  # colours are flowctl's own
        assert "\\x1b[31mred" in ours
        assert not re.search("[\x1b\x07\x9b\u202e\u2066]|\r(?!\n)", ours)
        assert "\x1b[31mred" not in shown.shown


def test_colours_are_for_a_terminal_that_wants_them(flowctl: Shell, terminals: list[Terminal]) -> None:
    """NO_COLOR, TERM=dumb and a pipe get none."""
    flowctl.held()
    for words in (("status", "r1"), ("list",)):
        terminals.append(coloured := Terminal(flowctl, *words))
        coloured.end()
        assert "\x1b[" in coloured.shown
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            terminals.append(terminal := Terminal(flowctl, *words, **environment))
            terminal.end()
            assert not re.search(r"\x1b\[[0-9;]*3\dm", terminal.shown), (words, environment)
        assert "\x1b" not in flowctl(*words).out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_of_a_list_is_wider_than_the_terminal(
    flowctl: Shell, terminals: list[Terminal], columns: int
) -> None:
    """A table that a terminal wraps cannot be read; ids stay whole, so that they can be copied."""
    flowctl.held("a-run-with-a-rather-long-name")
    terminals.append(terminal := Terminal(flowctl, "list", columns=columns))
    terminal.end()
    lines = plain(terminal.shown).splitlines()
    assert any("a-run-with-a-rather-long-name" in line for line in lines)
    assert max(map(len, lines)) <= columns


def test_watch_draws_again_when_something_happens_and_q_leaves(
    flowctl: Shell, terminals: list[Terminal]
) -> None:
    """Source: spec engine, 7 (watch): live. The terminal is as it was afterwards."""
    hold = flowctl.held()
    terminals.append(terminal := Terminal(flowctl, "watch"))
    assert "paused" in terminal.until("q leaves")
    flowctl("answer", hold, "true")
    terminal.until("completed")
    os.kill(terminal.process.pid, signal.SIGWINCH)
    terminal.until("q leaves")
    terminal.type("q")
    code, _ = terminal.end()
    assert code == 0
    assert terminal.shown.count("\x1b[?1049h") == terminal.shown.count("\x1b[?1049l") == 1
    assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") == 1


def test_ctrl_c_leaves_watch_with_the_terminal_as_it_was(flowctl: Shell, terminals: list[Terminal]) -> None:
    flowctl.held()
    terminals.append(terminal := Terminal(flowctl, "watch"))
    terminal.until("q leaves")
    terminal.type(CTRL_C)
    assert terminal.end()[0] == 130
    assert terminal.shown.count("\x1b[?1049l") == 1
