"""Does a body that cannot be one, or that hands over what cannot be kept, get one clear line?

Source: issue "agents" (bad input); spec engine, 7 (exit codes; errors are one line that says what to do).
"""

from __future__ import annotations

import pytest

from .conftest import Shell
from .test_verbs import one_line

BODIES = {
    "generator": (
        "@agent\ndef body(x):\n    yield 1\n",
        2,
        "is a generator function; calling it would run nothing. Call pause() where it yields",
    ),
    "async generator": ("@agent\nasync def body(x):\n    yield 1\n", 2, "is a generator function"),
    "lambda": ("body = agent(lambda x: x)\n", 2, "a lambda has no name that another process could find"),
    "nested": (
        "def make():\n    @agent\n    def inner():\n        pass\n    return inner\n\n"
        "@agent\ndef body():\n    spawn(make()).result()\n",
        1,
        "no other process could continue its runs",
    ),
    "result": (
        "@agent\ndef body():\n    return threading.Lock()\n",
        1,
        "result of 'body' cannot be stored: a lock cannot be stored",
    ),
    "step": (
        "@step\ndef lock():\n    return threading.Lock()\n\n@agent\ndef body():\n    lock()\n",
        1,
        "result of step 'lock' cannot be stored",
    ),
    "argument": (
        "@step\ndef uses(x):\n    pass\n\n@agent\ndef body():\n    uses(threading.Lock())\n",
        1,
        "argument 'x' of step 'uses' cannot be stored",
    ),
    "message": (
        "@agent\ndef body():\n    send(current_run().id, threading.Lock())\n",
        1,
        "message cannot be stored",
    ),
    "question": ("@agent\ndef body():\n    ask_human(3)\n", 1, "TypeError: a question is text, not int: 3"),
    "missing": (
        "@agent\ndef body(a: int, b: str):\n    pass\n",
        2,
        "expected",
    ),
}
HEAD = "import threading\nfrom quiesce import agent, ask_human, current_run, send, spawn, step\n\n"


@pytest.mark.parametrize("what", BODIES)
def test_a_bad_body_gets_one_line_and_a_code(flowctl: Shell, what: str) -> None:
    """spec engine, 7: no traceback for a user's mistake; where the file is wrong, its line is named."""
    source, code, told = BODIES[what]
    (flowctl.folder / "bad.py").write_text(HEAD + source, encoding="utf-8")
    words = ["1"] if "(x" in source.partition("def body")[2] or what in ("lambda", "missing") else []
    done = flowctl("run", "bad.py:body", *words)
    assert done.code == code, done
    assert told in one_line(done.err)
    if what in ("generator", "async generator", "lambda"):
        assert "bad.py, line 4)" in done.err


def test_an_answer_of_a_wrong_type_changes_nothing(flowctl: Shell) -> None:
    """spec engine, 4 and 7: exit 5 with the validator's message, the question stays open."""
    source = "@agent\ndef body() -> int:\n    return ask_human('n?', expects=int)\n"
    (flowctl.folder / "bad.py").write_text(HEAD + source, encoding="utf-8")
    assert flowctl("run", "bad.py:body", "--id", "r").code == 75
    (hold,) = flowctl("holds", "--json").json["holds"]
    refused = flowctl("answer", hold["id"], '"text"')
    assert (refused.code, one_line(refused.err)) == (5, "error: answer: 'text' is not of type 'integer'\n")
    broken = flowctl("answer", hold["id"], "{bad")
    assert broken.code == 2
    assert "JSON" in one_line(broken.err)
    assert [item["id"] for item in flowctl("holds", "--json").json["holds"]] == [hold["id"]]
    assert flowctl("answer", hold["id"], "4").code == 0


def test_an_answer_that_only_the_flow_s_own_type_refuses_changes_nothing(flowctl: Shell) -> None:
    """spec engine, 4 and 7: the process that would go on with the run knows the type; exit 5, one line."""
    source = (
        "class Even(BaseModel):\n    number: int\n\n    @field_validator('number')\n"
        "    @classmethod\n    def even(cls, value):\n        if value % 2:\n"
        "            raise ValueError(f'{value} is odd')\n        return value\n\n"
        "@agent\ndef body() -> int:\n    return ask_human('n?', expects=Even).number\n"
    )
    head = "from pydantic import BaseModel, field_validator\n" + HEAD
    (flowctl.folder / "bad.py").write_text(head + source, encoding="utf-8")
    assert flowctl("run", "bad.py:body", "--id", "r").code == 75
    (hold,) = flowctl("holds", "--json").json["holds"]
    for verb in (["answer", hold["id"]], ["resume", "r", "--hold", hold["id"], "--answer"]):
        refused = flowctl(*verb, '{"number": 3}')
        assert refused.code == 5, refused
        assert "3 is odd" in one_line(refused.err)
    assert [item["id"] for item in flowctl("holds", "--json").json["holds"]] == [hold["id"]]
    assert flowctl("answer", hold["id"], '{"number": 4}').code == 0
