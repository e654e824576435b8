"""Is the lifecycle the table of spec engine, 3? Every (row, event) cell, against a copy by hand."""

from __future__ import annotations

import pytest

from quiesce.errors import IllegalTransition, NotResumable, RunActive
from quiesce.states import ACTIVE, ENDED, TRANSITIONS, Row, RunEvent, RunState, advance, legal_events, row_of

# Copied from the spec's page, cell by cell; "a|b" is "a, or b while other locks keep the run".
SPEC = """
state     | start   | pause  | resume         | answer         | settle_idle | work    | complete  | fail   | cancel    | reset   | retry
created   | running | -      | -              | -              | -           | -       | -         | -      | cancelled | created | -
queued    | Active  | -      | running        | -              | -           | -       | -         | -      | cancelled | created | -
running   | -       | paused | running        | running        | idle        | -       | completed | failed | cancelled | created | -
idle      | -       | -      | -              | idle           | -           | running | completed | failed | cancelled | -       | -
paused    | Active  | paused | running,paused | running,paused | -           | -       | completed | failed | cancelled | created | running,paused
completed | -       | -      | -              | -              | -           | -       | -         | -      | -         | created | -
failed    | -       | -      | -              | -              | -           | -       | -         | -      | cancelled | created | running
cancelled | -       | -      | -              | -              | -           | -       | -         | -      | -         | created | -
"""  # noqa: E501
ROWS = {"queued": Row.QUEUED} | {row.value: row for row in Row if row is not Row.QUEUED}


def cells() -> dict[tuple[Row, RunEvent], str]:
    head, *lines = [[cell.strip() for cell in line.split("|")] for line in SPEC.strip().splitlines()]
    return {
        (ROWS[line[0]], RunEvent(event)): cell
        for line in lines
        for event, cell in zip(head[1:], line[1:], strict=True)
    }


CELLS = cells()
LEGAL = {where: tuple(cell.split(",")) for where, cell in CELLS.items() if cell not in ("-", "Active")}
ILLEGAL = [where for where in CELLS if where not in LEGAL]


def name(part: object) -> str | None:
    return part.value if isinstance(part, Row | RunEvent) else None


def state_of(row: Row) -> RunState:
    return RunState.CREATED if row is Row.QUEUED else RunState(row.value)


def test_the_copy_has_every_cell() -> None:
    """spec engine, 3: eight rows, eleven events; a new one is decided here first."""
    assert set(CELLS) == {(row, event) for row in Row for event in RunEvent}
    assert len(CELLS) == 8 * 11


def test_the_table_has_a_row_for_every_state() -> None:
    """House style 11: no row is implied by absence."""
    assert set(TRANSITIONS) == set(Row)
    assert {state_of(row) for row in Row} == set(RunState)


@pytest.mark.parametrize(("row", "event"), LEGAL, ids=name)
def test_a_legal_cell_is_the_spec_s(row: Row, event: RunEvent) -> None:
    """spec engine, 3: the target, and where the run stays while other locks keep it."""
    targets = LEGAL[row, event]
    has_input = row is not Row.CREATED
    assert targets == TRANSITIONS[row][event]
    assert advance("run-1", state_of(row), event, has_input=has_input) == targets[0]
    assert advance("run-1", state_of(row), event, has_input=has_input, held=True) == targets[-1]


@pytest.mark.parametrize(("row", "event"), ILLEGAL, ids=name)
def test_an_illegal_cell_is_refused_by_name(row: Row, event: RunEvent) -> None:
    """spec engine, 3: an illegal cell raises IllegalTransition naming run, state and verb."""
    assert event not in TRANSITIONS[row]
    for held in (False, True):
        with pytest.raises(IllegalTransition) as caught:
            advance("run-1", state_of(row), event, has_input=row is not Row.CREATED, held=held)
        error = caught.value
        assert (error.run_id, error.verb) == ("run-1", event.value)
        assert error.state == state_of(row).value
        assert "'run-1'" in str(error)
        assert event.value in str(error)
        assert state_of(row).value in str(error)


@pytest.mark.parametrize(("row", "event"), ILLEGAL, ids=name)
def test_a_refusal_has_the_class_of_its_verb(row: Row, event: RunEvent) -> None:
    """spec engine, 3: RunActive for a start of what is active, NotResumable for a resume of nothing."""
    expected = IllegalTransition
    if event is RunEvent.START and (CELLS[row, event] == "Active" or state_of(row) in ACTIVE):
        expected = RunActive
    elif event is RunEvent.RESUME:
        expected = NotResumable
    with pytest.raises(IllegalTransition) as caught:
        advance("run-1", state_of(row), event, has_input=row is not Row.CREATED)
    assert type(caught.value) is expected


@pytest.mark.parametrize("row", Row, ids=name)
def test_a_refusal_says_what_is_legal(row: Row) -> None:
    """House style 16: what was wrong, then what would be right."""
    event = next(event for event in RunEvent if (row, event) in ILLEGAL)
    with pytest.raises(IllegalTransition) as caught:
        advance("run-1", state_of(row), event, has_input=row is not Row.CREATED)
    listed = str(caught.value).partition("legal here: ")[2].partition(";")[0].split(", ")
    verbs = {"start", "pause", "resume", "answer", "cancel", "reset", "retry"}
    assert listed == [verb for verb in legal_events(row) if verb in verbs]


def test_an_idle_team_has_nothing_to_pause() -> None:
    """spec engine, 3: idle, pause: "nothing to pause"."""
    with pytest.raises(IllegalTransition, match="nothing to pause"):
        advance("run-1", RunState.IDLE, RunEvent.PAUSE)


def test_the_table_cannot_be_changed() -> None:
    """House style 11: read-only, next to the enum."""
    with pytest.raises(TypeError):
        TRANSITIONS[Row.CREATED] = {}  # type: ignore[index]
    for cells in TRANSITIONS.values():
        with pytest.raises(TypeError):
            cells[RunEvent.START] = ()  # type: ignore[index]


@pytest.mark.parametrize("state", RunState)
def test_only_created_has_two_rows(state: RunState) -> None:
    """spec engine, 3: whether an input is queued matters only while a run is created."""
    assert row_of(state, has_input=True) is (Row.QUEUED if state is RunState.CREATED else Row(state.value))
    assert row_of(state, has_input=False) is Row(state.value)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_an_ended_run_never_changes_by_itself(state: RunState) -> None:
    """spec engine, 3: terminal is terminal; only reset, retry and cancel, which people ask for, lead out."""
    by_itself = {RunEvent.COMPLETE, RunEvent.FAIL, RunEvent.WORK, RunEvent.SETTLE_IDLE, RunEvent.ANSWER}
    assert not by_itself & set(TRANSITIONS[row_of(state, has_input=True)])


def test_every_state_is_in_one_group() -> None:
    """spec engine, 3: created, or active, or ended."""
    assert {RunState.CREATED} | ACTIVE | ENDED == set(RunState)
    assert not ACTIVE & ENDED
