"""Does a test go red where a guard is taken away?

Each weak spot W1 to W15 of the spec of teams, and what else keeps a team whole (the generation, the lease,
the compare-and-set, the unique index, the row counts), has a line in the code that guards it. Here is that
line, what the code would be without it, and the tests that must fail then. Source: issue 5; cases team 129.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("engine", "adapters", "cli", "examples", "benchmarks", "tests", "pyproject.toml", "README.md")

RULES = "engine/quiesce/rules"
SQLITE = "adapters/quiesce_adapters/sqlite"
RECEIPTS = "tests/adapters/receipts"


@dataclass(frozen=True)
class Guard:
    """`text`, once in `file`, becomes `without`; then `test`, in its file, fails."""

    what: str
    file: str
    text: str
    without: str
    test: str


GUARDS = [
    Guard(
        "W1: a resume continues in capture order",
        f"{RULES}/continuing.py",
        "for receipt in tx.receipts(episode_id):",
        "for receipt in reversed(tx.receipts(episode_id)):",
        f"{RECEIPTS}/test_cases_resume.py::test_continuations_keep_the_order_of_their_originals",
    ),
    Guard(
        "W2: a second pause changes nothing",
        f"{RULES}/fence.py",
        "    if run.state is RunState.PAUSED:\n        active_episode(tx, run)",
        "    if run.locks.keys() == set():\n        active_episode(tx, run)",
        f"{RECEIPTS}/test_cases_pause.py::test_a_request_is_served_once_for_ever",
    ),
    Guard(
        "W3: an obligation is inherited by the next pause",
        f"{SQLITE}/queries.sql",
        "LEFT JOIN episodes AS e ON e.id = c.episode_id AND e.closed_at IS NULL AND e.quiescent_at IS NULL",
        "LEFT JOIN episodes AS e ON e.id = c.episode_id AND e.closed_at IS NULL AND e.quiescent_at IS NULL"
        "\n     AND p.piece NOT IN (SELECT original FROM turns WHERE run_id = :run AND original IS NOT NULL)",
        f"{RECEIPTS}/test_cases_pause.py::test_a_body_that_drains_still_is_counted_once_by_the_next_pause",
    ),
    Guard(
        "W4: turns of every generation are captured",
        f"{SQLITE}/queries.sql",
        "WHERE p.run_id = :run AND p.kind = 'turn' ORDER BY p.piece",
        "WHERE p.run_id = :run AND p.kind = 'turn' AND (SELECT generation FROM turns AS t WHERE t.run_id = "
        "p.run_id\n AND t.number = p.piece) = (SELECT generation - 1 FROM runs WHERE id = :run)\n"
        "ORDER BY p.piece",
        f"{RECEIPTS}/test_cases_pause.py::test_a_second_pause_inherits_what_still_drains",
    ),
    Guard(
        "W5: only who is dead loses its work",
        f"{RULES}/continuing.py",
        "        if child.lease_holder is not None and not tx.alive(child.lease_holder):",
        "        if child.lease_holder is not None:",
        f"{RECEIPTS}/test_cases_pause.py::test_a_body_that_does_not_yield_is_overdue_and_opens_no_second",
    ),
    Guard(
        "W6: a clock alone ends no obligation",
        f"{RULES}/fence.py",
        'count = tx.drain(episode_id, "overdue", only=("pending",))',
        'count = tx.drain(episode_id, "absent", only=("pending",))',
        f"{RECEIPTS}/test_cases_pause.py::test_a_body_that_does_not_yield_is_overdue_and_opens_no_second",
    ),
    Guard(
        "W7: a drain whose owner died is owned by who goes on",
        f"{RULES}/claims.py",
        '        if tx.resolve(run.id, "absent"):\n            settle_drain(tx, run)\n',
        "        pass\n",
        f"{RECEIPTS}/test_cases_restart.py::test_a_killed_holder_drains_no_more_and_its_turn_is_continued",
    ),
    Guard(
        "W8: what has yielded by then is not waited for",
        f"{RULES}/fence.py",
        "    if team and tree:  # first",
        "    if team and tree and not run.locks:  # first",
        f"{RECEIPTS}/test_cases_leases.py::"
        "test_a_turn_of_which_nothing_runs_any_more_is_absent_and_not_stuck",
    ),
    Guard(
        "W9: a release that the store refused is made when the lease is handed back",
        f"{RULES}/claims.py",
        '        if tx.resolve(run.id, "released"):\n            settle_drain(tx, run)\n',
        "        pass\n",
        f"{RECEIPTS}/test_cases_drain.py::test_a_store_that_refuses_one_release_takes_it_later",
    ),
    Guard(
        "W10: a cancellation names its turn",
        f"{RULES}/orders.py",
        "    turn = tx.live_turn(run.id, task.number)\n    if turn is None:",
        "    turn = next((t for t in tx.turns(run.id)[::-1] if t.ended_as is None), None)\n"
        "    if turn is None:",
        f"{RECEIPTS}/test_cases_leases.py::test_a_cancelled_turn_takes_no_later_one_with_it",
    ),
    Guard(
        "W11: the rows that a verb writes are counted",
        f"{SQLITE}/teams.py",
        "        if changed != count:\n",
        "        if changed > count:\n",
        f"{RECEIPTS}/test_cases_rows.py::test_a_pause_that_changes_fewer_rows_than_it_must_changes_none",
    ),
    Guard(
        "W12: a request id stands for one verb",
        f"{RULES}/requests.py",
        "if known.verb != request.verb or known.digest",
        "if known.digest",
        f"{RECEIPTS}/test_cases_requests.py::test_one_id_is_one_request_of_one_run",
    ),
    Guard(
        "W13: one bad receipt does not block the team",
        f"{RULES}/continuing.py",
        "    if now is None or now.gone:\n        return",
        "    if now is None or now.gone:\n        raise LookupError(name)\n    if False:\n        return",
        f"{RECEIPTS}/test_cases_continue.py::test_a_turn_whose_member_is_gone_is_skipped_and_blocks_nobody",
    ),
    Guard(
        "W14: admission is no permission to run",
        f"{RULES}/scheduling.py",
        "        if task.owner != turn.participant:\n            return",
        "        if task.owner is None:\n            return",
        f"{RECEIPTS}/test_cases_paused.py",
    ),
    Guard(
        "W15: no view is ordered by time",
        f"{SQLITE}/queries.sql",
        "FROM turns WHERE run_id = ? ORDER BY number",
        "FROM turns WHERE run_id = ? ORDER BY created_at, number",
        f"{RECEIPTS}/test_cases_paused.py::test_views_are_ordered_by_number_whatever_the_clock_says",
    ),
    Guard(
        "the generation: a run that moved on is not written over",
        f"{SQLITE}/queries.sql",
        "WHERE id = ? AND generation = ?\n\n-- run.delete",
        "WHERE id = ? AND ? >= 0\n\n-- run.delete",
        f"{RECEIPTS}/test_cases_rows.py::test_a_run_that_has_moved_on_is_not_written_over",
    ),
    Guard(
        "the lease: a release that is not current changes nothing",
        f"{SQLITE}/queries.sql",
        "  AND lease = :epoch AND (:holder IS NULL OR holder = :holder)\n",
        "  AND :epoch = :epoch AND :holder IS :holder\n",
        f"{RECEIPTS}/test_cases_leases.py",
    ),
    Guard(
        "the compare-and-set: who lives is not claimed from",
        f"{RULES}/claims.py",
        "        if tx.alive(run.lease_holder):\n            return None\n        if lose",
        "        if lose",
        "tests/faults/test_team_processes.py::"
        "test_two_processes_that_claim_one_continuation_never_both_get_it",
    ),
    Guard(
        "the unique index: no two turns of a member have one place",
        f"{SQLITE}/schema.sql",
        "CREATE UNIQUE INDEX queues ON pieces",
        "CREATE INDEX queues ON pieces",
        f"{RECEIPTS}/test_cases_rows.py::test_no_two_turns_of_a_member_have_one_place",
    ),
    Guard(
        "what users directed is left alone",
        f"{SQLITE}/queries.sql",
        "WHERE p.run_id = :run AND p.kind = 'turn' ORDER BY p.piece",
        "WHERE p.run_id = :run ORDER BY p.piece",
        f"{RECEIPTS}/test_cases_pause.py",
    ),
    Guard(
        "a task that is given away while its old body drains is begun again",
        f"{RULES}/orders.py",
        'task.owner, task.state = order.owner, "pending"',
        "task.owner = order.owner",
        "tests/faults/test_team_model.py::test_the_world_of_each_seed_does_what_the_model_says",
    ),
]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.what)
def test_every_guard_stands_where_it_is_said_to(guard: Guard) -> None:
    """Cases team 129: once in its file, and its test is there."""
    source = (ROOT / guard.file).read_text(encoding="utf-8")
    assert source.count(guard.text) == 1, guard.text
    file, _, name = guard.test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = {item.name for item in tree.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert not name or name in tests


def test_every_weak_spot_has_a_guard() -> None:
    """Source: issue 5: W1 to W15 each shown by a test that fails without its guard."""
    named = {guard.what.partition(":")[0] for guard in GUARDS}
    assert {f"W{number}" for number in range(1, 16)} <= named


@pytest.mark.slow
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.what)
def test_without_its_guard_a_test_goes_red(guard: Guard, tmp_path: Path) -> None:
    """Cases team 129: for what it found, and not because the code cannot be loaded."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, tmp_path / name)
    file = tmp_path / guard.file
    file.write_text(file.read_text(encoding="utf-8").replace(guard.text, guard.without), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", guard.test],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-3000:]  # 1: tests failed; anything else is no verdict
    assert " failed" in done.stdout
    assert "error during collection" not in done.stdout
