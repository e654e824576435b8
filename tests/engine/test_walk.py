"""Which branch begins next, and what a transition does to the frontier of a graph run.

The driver here evaluates nodes at once, one at a time; those tests that need visits to overlap take
and apply by hand. Numbers in docstrings are those of the graph cases.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiesce.errors import GraphError
from quiesce.graph.rows import Branch, Changes, Counters, Group
from quiesce.graph.transitions import Case, Concurrency, Error, FanOut, Finish, JoinInput, Transition
from quiesce.graph.walk import Applied, Walk

SEQUENTIAL, PARALLEL = Concurrency.SEQUENTIAL, Concurrency.PARALLEL
Step = Callable[[object], Case]


class Driver:
    """Evaluates nodes in place. A step is a function from the input to the transition."""

    def __init__(self, steps: dict[str, Step], default: Concurrency = SEQUENTIAL) -> None:
        self.steps = steps
        self.walk = Walk(default)
        self.log: list[str] = []
        self.ids: list[tuple[str, int]] = []

    def start(self, node: str, value: object) -> Applied | None:
        self.walk.begin(node, value)
        return self.go_on()

    def resume(self, branches: list[int] | None = None) -> Applied | None:
        self.walk.resume(branches)
        return self.go_on()

    def go_on(self) -> Applied | None:
        """Until it ends or rests. Visits that may overlap begin together and are applied in order."""
        paused: Applied | None = None
        flight: list[Branch] = []
        while True:
            while (branch := self.walk.take()) is not None:
                flight.append(branch)
                self.log.append(branch.node)
                self.ids.append((branch.node, branch.id))
            if not flight:
                return paused
            branch = flight.pop(0)
            applied = self.walk.apply(branch.id, self.steps[branch.node](branch.input))
            if applied.finished is not None or applied.error is not None:
                return applied
            paused = applied if applied.paused else paused


class Gate:
    """Pauses while it is closed, then goes on to the node `pass`."""

    def __init__(self) -> None:
        self.closed = True
        self.seen: list[object] = []

    def __call__(self, value: object) -> Case:
        self.seen.append(value)
        return Transition.pause("closed") if self.closed else Transition.next("pass", value)


def go(node: str) -> Step:
    return lambda value: Transition.next(node, value)


def joins(node: str) -> Step:
    return lambda value: Transition.join(node, value)


def fans(*nodes: str, join: str | None = "join", **how: object) -> Step:
    return lambda value: Transition.fan_out([(node, value) for node in nodes], join=join, **how)


def collect(value: object) -> Case:
    assert isinstance(value, JoinInput)
    return Transition.finish(list(value))


def value_of(applied: Applied | None) -> object:
    assert applied is not None
    assert applied.finished is not None
    return applied.finished.value


def test_a_self_loop_neither_recurses_nor_keeps_anything() -> None:
    """Case 15."""
    walk = Walk(record=False)
    walk.begin("loop", 0)
    for count in range(100_000):
        branch = walk.take()
        assert branch is not None
        walk.apply(branch.id, Transition.next("loop", count + 1))
    assert len(walk.queued) == 1
    branch = walk.take()
    assert branch is not None
    assert (branch.id, branch.input) == (1, 100_000)
    assert Finish(100_000) == walk.apply(1, Transition.finish(branch.input)).finished
    assert walk.ended


def test_sequential_branches_take_turns_one_visit_at_a_time() -> None:
    """Case 61."""
    steps = {"S": fans("a1", "b1"), "a1": go("a2"), "b1": go("b2"), "a2": joins("join"), "b2": joins("join")}
    driver = Driver({**steps, "join": collect})
    assert value_of(driver.start("S", 0)) == [0, 0]
    assert driver.log == ["S", "a1", "b1", "a2", "b2", "join"]


def test_branch_ids_count_up_from_the_root_and_the_join_takes_the_next() -> None:
    """Case 69."""
    steps = {"S": fans("a", "b"), "a": joins("join"), "b": joins("join"), "join": go("after")}
    driver = Driver({**steps, "after": Transition.finish})
    driver.start("S", 0)
    assert driver.ids == [("S", 1), ("a", 2), ("b", 3), ("join", 4), ("after", 4)]


def test_payloads_keep_the_order_of_creation_whatever_the_order_of_arrival() -> None:
    """Case 46."""
    walk = Walk(PARALLEL)
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("a", 1), ("b", 2), ("c", 3)], join="join"))
    assert [branch.id for branch in iter(walk.take, None)] == [2, 3, 4]
    for id in (4, 2, 3):
        walk.apply(id, Transition.join("join", id * 10))
    joined = walk.take()
    assert joined is not None
    assert JoinInput([20, 30, 40]) == joined.input
    assert joined.input.sources == ("a", "b", "c")


def test_a_branch_that_finishes_inside_a_joined_fan_out_has_arrived() -> None:
    """Cases 49 and 50."""
    steps = {"S": fans("a", "b"), "a": Transition.finish, "b": joins("join"), "join": collect}
    assert value_of(Driver(steps, PARALLEL).start("S", 7)) == [7, 7]
    assert value_of(Driver({**steps, "S": fans("a")}).start("S", 7)) == [7]


def test_joining_another_node_than_the_groups_is_refused_and_changes_nothing() -> None:
    """Case 52."""
    walk = Walk()
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("a", 1), ("b", 2)], join="join"))
    walk.take()
    before = copy.deepcopy((walk.running, walk.queued, walk.groups, walk.counters))
    with pytest.raises(
        GraphError, match="node 'a' joins 'other', but the fan-out of its branch joins 'join'"
    ):
        walk.apply(2, Transition.join("other", 1))
    assert before == (walk.running, walk.queued, walk.groups, walk.counters)


def test_joining_outside_any_fan_out_is_refused() -> None:
    """Case 53."""
    with pytest.raises(GraphError, match="belongs to no fan-out that joins"):
        Driver({"a": joins("join")}).start("a", 1)


def test_fan_outs_nest_and_the_inner_join_goes_on_in_the_outer_group() -> None:
    """Case 54, which we decide otherwise: it works."""
    steps = {
        "S": fans("a", "b"),
        "a": fans("x", "y", join="inner"),
        "x": joins("inner"),
        "y": joins("inner"),
        "inner": lambda value: Transition.join("join", list(value)),
        "b": joins("join"),
        "join": collect,
    }
    for default in Concurrency:
        driver = Driver(steps, default)
        assert value_of(driver.start("S", 1)) == [[1, 1], 1]
        assert ("inner", 6) in driver.ids
        assert ("join", 7) in driver.ids


def test_an_empty_fan_out_with_a_join_goes_straight_to_the_join() -> None:
    driver = Driver({"S": fans(), "join": collect})
    assert value_of(driver.start("S", 1)) == []
    assert driver.ids == [("S", 1), ("join", 2)]


def test_an_empty_race_is_refused() -> None:
    with pytest.raises(GraphError, match="at least one branch"):
        Transition.fan_out([], join=None)
    with pytest.raises(GraphError, match="fanned out to nobody"):
        Driver({"S": lambda _: FanOut((), None)}).start("S", 1)


def test_a_join_may_fan_out_again_and_go_back_to_the_start() -> None:
    rounds: list[int] = []

    def again(value: object) -> Case:
        rounds.append(len(value))
        return Transition.next("S", 0) if len(rounds) < 3 else Transition.finish(rounds)

    steps = {"S": fans("a", "a"), "a": joins("join"), "join": again}
    assert value_of(Driver(steps).start("S", 0)) == [2, 2, 2]


@pytest.mark.parametrize(
    ("default", "fan_out", "expected"),
    [
        (SEQUENTIAL, None, SEQUENTIAL),
        (PARALLEL, None, PARALLEL),
        (SEQUENTIAL, PARALLEL, PARALLEL),
        (PARALLEL, SEQUENTIAL, SEQUENTIAL),
    ],
)
def test_children_take_the_fan_outs_concurrency_else_their_parents(
    default: Concurrency, fan_out: Concurrency | None, expected: Concurrency
) -> None:
    """Cases 63 and 64."""
    walk = Walk(default)
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("a", 1), ("b", 2)], join="join", concurrency=fan_out))
    assert [expected, expected] == [branch.concurrency for branch in walk.queued]
    assert (1 if expected is SEQUENTIAL else 2) == len(list(iter(walk.take, None)))


def test_the_join_branch_has_the_graphs_default_again() -> None:
    """Case 66."""
    for default, other in ((SEQUENTIAL, PARALLEL), (PARALLEL, SEQUENTIAL)):
        walk = Walk(default)
        walk.begin("S", 0)
        walk.take()
        walk.apply(1, Transition.fan_out([("a", 1)], join="join", concurrency=other))
        walk.take()
        walk.apply(2, Transition.join("join", 1))
        joined = walk.take()
        assert joined is not None
        assert default is joined.concurrency
        walk.apply(3, Transition.fan_out([("a", 1), ("b", 1)], join="join"))
        assert [default, default] == [branch.concurrency for branch in walk.queued]


def test_next_overrides_the_branchs_concurrency_and_its_fan_out_inherits_it() -> None:
    """Case 67."""
    walk = Walk()
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.next("m", 0, concurrency=PARALLEL))
    walk.take()
    walk.apply(1, Transition.fan_out([("a", 1), ("b", 2)], join="join"))
    assert len(list(iter(walk.take, None))) == 2


def test_a_sequential_branch_that_waits_for_its_turn_does_not_stop_parallel_ones_behind_it() -> None:
    """Case 68, where the crate stalls: a deviation that the spec states."""
    walk = Walk()
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("a", 1), ("b", 2), ("c", 3)], join="join"))
    assert walk.take().id == 2
    walk.apply(2, Transition.next("a2", 1, concurrency=PARALLEL))
    assert [branch.id for branch in iter(walk.take, None)] == [3, 2]  # 4 waits for 3
    walk.apply(3, Transition.join("join", 0))
    assert [branch.id for branch in iter(walk.take, None)] == [4]


def test_max_parallelism_bounds_the_visits_of_a_group_and_of_what_begins_under_it() -> None:
    walk = Walk(PARALLEL)
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("a", n) for n in range(4)], join="join", max_parallelism=2))
    assert [branch.id for branch in iter(walk.take, None)] == [2, 3]
    walk.apply(2, Transition.fan_out([("x", 0), ("x", 1)], join="inner"))
    assert [branch.id for branch in iter(walk.take, None)] == [4]
    walk.apply(3, Transition.next("again", 0))
    assert [branch.id for branch in iter(walk.take, None)] == [5]
    walk.apply(4, Transition.join("join", 0))
    walk.apply(5, Transition.join("join", 0))
    assert [branch.id for branch in iter(walk.take, None)] == [6, 7]


def test_the_first_to_finish_wins_a_race_and_the_run() -> None:
    walk = Walk(PARALLEL)
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([(name, name) for name in "abcde"], join=None))
    assert len(list(iter(walk.take, None))) == 5
    walk.apply(2, Transition.pause())
    walk.hang(3)
    walk.apply(4, Transition.fan_out([("x", 0), ("y", 0)], join="inner"))
    applied = walk.apply(6, Transition.finish("e"))
    assert Applied(finished=Finish("e"), cancelled=(5,), abandoned=(2, 3)) == applied
    assert walk.ended
    assert (walk.running, walk.paused, walk.waiting, walk.groups) == ([], [], [], [])


def test_the_winner_of_a_race_inside_a_joined_group_arrives_there() -> None:
    for win in (Transition.finish("won"), Transition.join("join", "won")):
        walk = Walk(PARALLEL)
        walk.begin("S", 0)
        walk.take()
        walk.apply(1, Transition.fan_out([("a", 0), ("b", 0)], join="join"))
        list(iter(walk.take, None))
        walk.apply(2, Transition.fan_out([("x", 0), ("y", 0)], join=None))
        list(iter(walk.take, None))
        assert walk.arrives_at(4) == "join"
        assert Applied(cancelled=(5,)) == walk.apply(4, win)
        assert Applied() == walk.apply(3, Transition.join("join", "b"))
        joined = walk.take()
        assert joined is not None
        assert JoinInput(["won", "b"]) == joined.input
        assert joined.groups == ()
        assert walk.arrives_at(joined.id) is None


def test_a_paused_race_is_completed_by_a_branch_that_was_already_running() -> None:
    """Seed: a running branch reaches finish, so the run completes and the paused branch is discarded."""
    steps = {"S": fans("a", "b", join=None), "a": lambda _: Transition.pause(), "b": Transition.finish}
    assert value_of(Driver(steps, PARALLEL).start("S", 1)) == 1


# --- pause ---------------------------------------------------------------------------------------------


def test_a_paused_branch_is_evaluated_again_with_the_same_input() -> None:
    """Cases 4 and 5."""
    gate = Gate()
    driver = Driver({"gate": gate, "pass": Transition.finish})
    assert Applied(paused=True) == driver.start("gate", 1)
    assert [branch.id for branch in driver.walk.paused] == [1]
    assert driver.walk.at_rest
    assert Applied(paused=True) == driver.resume()
    gate.closed = False
    assert value_of(driver.resume()) == 1
    assert gate.seen == [1, 1, 1]


def test_sequential_gates_show_one_per_resume_in_rotation() -> None:
    """Cases 70 and 71."""
    gate = Gate()
    steps = {
        "S": lambda _: Transition.fan_out([("gate", n) for n in (10, 11, 12)], join="join"),
        "gate": gate,
        "pass": joins("join"),
        "join": collect,
    }
    driver = Driver(steps)
    driver.start("S", 0)
    for _ in range(3):
        assert len(driver.walk.paused) == 1
        driver.resume()
    assert gate.seen == [10, 11, 12, 10]
    gate.closed = False
    assert value_of(driver.resume()) == [10, 11, 12]


def test_parallel_gates_all_show_at_every_resume() -> None:
    """Case 72."""
    gate = Gate()
    steps = {"S": fans("gate", "gate", "gate"), "gate": gate, "pass": joins("join"), "join": collect}
    driver = Driver(steps, PARALLEL)
    driver.start("S", 5)
    assert [branch.id for branch in driver.walk.paused] == [2, 3, 4]
    driver.resume()
    assert len(gate.seen) == 6
    gate.closed = False
    assert value_of(driver.resume()) == [5, 5, 5]


def test_what_queued_during_the_pause_goes_before_the_paused_branches() -> None:
    """Cases 74 and 76."""
    gate = Gate()
    steps = {
        "S": fans("gate", "b", "gate"),
        "gate": gate,
        "pass": joins("join"),
        "b": go("c"),
        "c": joins("join"),
        "join": collect,
    }
    driver = Driver(steps, PARALLEL)
    driver.start("S", 0)
    assert driver.log == ["S", "gate", "b", "gate"]
    assert [branch.node for branch in driver.walk.queued] == ["c"]
    gate.closed = False
    driver.resume()
    assert driver.log[4:] == ["c", "gate", "gate", "pass", "pass", "join"]


def test_a_join_payload_that_arrives_during_the_pause_is_kept() -> None:
    """Case 79."""
    gate = Gate()
    steps = {
        "S": fans("gate", "b"),
        "gate": gate,
        "pass": joins("join"),
        "b": lambda _: Transition.finish(42),
        "join": collect,
    }
    driver = Driver(steps, PARALLEL)
    assert Applied(paused=True) == driver.start("S", 0)
    for _ in range(3):
        driver.resume()
    gate.closed = False
    assert value_of(driver.resume()) == [0, 42]
    assert driver.log.count("b") == 1


def test_a_join_node_that_pauses_is_evaluated_again_with_the_same_payloads() -> None:
    """Case 85."""
    gate = Gate()
    steps = {"S": fans("a", "b"), "a": joins("join"), "b": joins("join"), "join": gate, "pass": collect}
    driver = Driver(steps)
    driver.start("S", 1)
    gate.closed = False
    assert value_of(driver.resume()) == [1, 1]
    assert driver.log == ["S", "a", "b", "join", "join", "pass"]


def test_an_answer_evaluates_only_its_branch_again_and_the_others_are_carried() -> None:
    gate = Gate()
    steps = {"S": fans("gate", "gate", "gate"), "gate": gate, "pass": joins("join"), "join": collect}
    driver = Driver(steps, PARALLEL)
    driver.start("S", 0)
    gate.closed = False
    driver.resume([3])
    assert driver.log[4:] == ["gate", "pass"]
    assert [branch.id for branch in driver.walk.paused] == [2, 4]
    with pytest.raises(ValueError, match=r"\[3, 9\]"):
        driver.walk.resume([2, 3, 9])
    assert [branch.id for branch in driver.walk.paused] == [2, 4]
    assert value_of(driver.resume([4, 2])) == [0, 0, 0]


def test_an_operators_pause_takes_nothing_more_and_applies_what_is_in_flight() -> None:
    walk = Walk()
    walk.begin("a", 0)
    walk.take()
    walk.suspend()
    assert not walk.quiescent
    assert Applied() == walk.apply(1, Transition.next("b", 1))
    assert walk.take() is None
    assert walk.at_rest
    assert walk.resume() == []
    assert walk.take().node == "b"


def test_a_branch_that_hangs_on_a_child_run_gives_up_its_turn_and_lets_the_others_go_on() -> None:
    walk = Walk()
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("agent", 0), ("b", 0)], join="join"))
    assert walk.take().id == 2
    walk.hang(2)
    assert walk.take().id == 3
    walk.apply(3, Transition.join("join", 0))
    assert walk.take() is None
    assert walk.at_rest
    assert not walk.suspended
    walk.wake(2)
    assert walk.take().id == 2


# --- errors --------------------------------------------------------------------------------------------


def test_an_error_stops_the_walk_and_keeps_every_branch_for_a_retry() -> None:
    """Cases 80, 91 and 93; and what `retry` finds."""
    walk = Walk(PARALLEL)
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([(name, name) for name in "abcd"], join="join"))
    list(iter(walk.take, None))
    walk.apply(2, Transition.join("join", "A"))
    walk.apply(3, Transition.pause("b"))
    boom = ValueError("boom")
    assert Applied(error=boom, cancelled=(5,)) == walk.apply(4, Error(boom))
    assert walk.take() is None
    assert walk.quiescent
    with pytest.raises(ValueError, match="in flight"):
        walk.apply(5, Transition.finish(0))
    walk.resume(())
    assert [(branch.node, branch.id) for branch in iter(walk.take, None)] == [("c", 4), ("d", 5)]
    assert [branch.id for branch in walk.paused] == [3]
    assert walk.groups[0].arrived == {0: "A"}


def test_a_visit_that_is_tried_again_keeps_its_place_and_its_input() -> None:
    walk = Walk()
    walk.begin("S", 0)
    walk.take()
    walk.apply(1, Transition.fan_out([("a", 1), ("b", 2)], join="join"))
    walk.take()
    walk.requeue(2, attempt=2)
    branch = walk.take()
    assert branch is not None
    assert (branch.id, branch.node, branch.input, branch.attempt) == (2, "a", 1, 2)
    walk.apply(2, Transition.next("a", 1))
    assert branch.attempt == 1


def test_what_cannot_be_done_to_a_branch_is_refused() -> None:
    walk = Walk(record=False)
    walk.begin("a", 0)
    for wrong in (walk.hang, walk.requeue, walk.wake):
        with pytest.raises(ValueError, match="branch 1"):
            wrong(1)
    with pytest.raises(ValueError, match="begins once"):
        walk.begin("a", 0)
    with pytest.raises(ValueError, match="record=False"):
        walk.drain()
    with pytest.raises(ValueError, match="ended"):
        Walk.restore(SEQUENTIAL, [Branch(1, "a", 0, SEQUENTIAL, state="ended")], [], Counters(2, 2))


# --- what a store is given -----------------------------------------------------------------------------


class Rows:
    """A store of the frontier in memory: only copies, only what `drain` reports."""

    def __init__(self) -> None:
        self.branches: dict[int, Branch] = {}
        self.groups: dict[int, Group] = {}
        self.counters = Counters()

    def write(self, changes: Changes) -> None:
        for branch in changes.put:
            self.branches[branch.id] = copy.copy(branch)
        for branch in changes.moved:
            row = self.branches[branch.id]
            row.state, row.order, row.attempt = branch.state, branch.order, branch.attempt
        for id in changes.dropped:
            del self.branches[id]
        for group in changes.opened:
            assert group.id not in self.groups
            self.groups[group.id] = Group(
                group.id, group.join, group.size, group.concurrency, group.max_parallelism
            )
        for arrival in changes.arrivals:
            self.groups[arrival.group].arrived[arrival.index] = arrival.payload
            self.groups[arrival.group].sources[arrival.index] = arrival.source
        for id in changes.closed:
            del self.groups[id]
        self.counters = changes.counters

    def restored(self, default: Concurrency) -> Walk:
        branches = [copy.copy(branch) for branch in self.branches.values()]
        groups = [
            Group(g.id, g.join, g.size, g.concurrency, g.max_parallelism, dict(g.arrived), dict(g.sources))
            for g in self.groups.values()
        ]
        return Walk.restore(default, branches, groups, self.counters)


def picture(walk: Walk) -> object:
    return (walk.queued, walk.running, walk.paused, walk.waiting, walk.groups, walk.counters)


def expected_next(walk: Walk) -> int | None:
    """Which branch may begin, found by looking at everything: the rule, without the machinery."""
    if walk.suspended:
        return None
    flight: dict[int, int] = {}
    for branch in walk.running:
        for group_id, _ in branch.groups:
            flight[group_id] = flight.get(group_id, 0) + 1
    bound = {group.id: group.max_parallelism for group in walk.groups}
    turn_taken = any(branch.concurrency is SEQUENTIAL for branch in walk.running)
    for branch in walk.queued:
        if branch.concurrency is SEQUENTIAL and turn_taken:
            continue
        limits = [(flight.get(id, 0), bound[id]) for id, _ in branch.groups]
        if all(limit is None or count < limit for count, limit in limits):
            return branch.id
    return None


def random_case(walk: Walk, branch: Branch, rng: random.Random) -> Case:
    concurrency = rng.choice([None, SEQUENTIAL, PARALLEL])
    into = walk.arrives_at(branch.id)
    pick = rng.randrange(12)
    if pick < 4:
        return Transition.next("n", branch.id, concurrency=concurrency)
    if pick < 7 and len(branch.groups) < 4:
        size = rng.randrange(5)
        return Transition.fan_out(
            [("f", size)] * size,
            join=rng.choice(["j", "k", None]) if size else "j",
            concurrency=concurrency,
            max_parallelism=rng.choice([None, None, 1, 2]),
        )
    if pick == 7:
        return Transition.pause("p")
    if pick == 8:
        return Transition.error("e")
    if pick < 11 and into is not None:
        return Transition.join(into, branch.id)
    return Transition.finish(branch.id)


def random_step(walks: list[Walk], rng: random.Random, ended: list[int]) -> None:
    """Do one thing that a driver could do, to each of the walks alike."""
    walk = walks[0]
    pick = rng.randrange(20)
    before = {branch.id for branch in (*walk.queued, *walk.running, *walk.paused, *walk.waiting)}
    if pick < 8 or not walk.running:
        expected = expected_next(walk)
        for each in walks:
            taken = each.take()
            assert expected == (taken.id if taken else None)
        if expected is None and not walk.running:
            held = [branch.id for branch in (*walk.paused, *walk.waiting)]
            resumed = rng.choice([None, [branch.id for branch in walk.paused][:1]])
            woken = [rng.choice(held)] if held and rng.random() < 0.5 else []
            for each in walks:
                for id in woken:
                    each.wake(id)
                each.resume(resumed if not woken else ())
    elif pick == 8:
        id = rng.choice(walk.running).id
        assert len({each.hang(id).id for each in walks}) == 1
    elif pick == 9:
        id = rng.choice(walk.running).id
        assert len({each.requeue(id, attempt=2).id for each in walks}) == 1
    elif pick == 10:
        for each in walks:
            each.suspend()
    else:
        branch = rng.choice(walk.running)
        case = random_case(walk, branch, rng)
        first, *others = [each.apply(branch.id, case) for each in walks]
        assert all(first == other for other in others)
        if case.__class__ is Error:
            assert before == {b.id for b in walk.queued} | {b.id for b in (*walk.paused, *walk.waiting)}
    after = {branch.id for branch in (*walk.queued, *walk.running, *walk.paused, *walk.waiting)}
    ended.extend(before - after)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), default=st.sampled_from(Concurrency), steps=st.integers(1, 120))
def test_a_walk_restored_from_its_rows_goes_on_like_the_one_that_wrote_them(
    seed: int, default: Concurrency, steps: int
) -> None:
    """Also: whatever is taken is what the bare rule says."""
    rng = random.Random(seed)
    walk, rows, ended = Walk(default), Rows(), list[int]()
    walk.begin("root", 0)
    for _ in range(steps):
        if walk.ended:
            break
        random_step([walk], rng, ended)
        if rng.random() < 0.5:
            rows.write(walk.drain())
    rows.write(walk.drain())
    twin = rows.restored(default)
    assert picture(walk) == picture(twin)
    assert walk.ended == twin.ended
    for _ in range(80):
        if walk.ended:
            break
        random_step([walk, twin], rng, ended)
        assert picture(walk) == picture(twin)
        assert walk.at_rest == twin.at_rest
        views = (walk.queued, walk.running, walk.paused, walk.waiting)
        assert list(walk.counts.values()) == list(twin.counts.values()) == list(map(len, views))
        rows.write(twin.drain())
    assert picture(rows.restored(default)) == picture(walk)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), default=st.sampled_from(Concurrency))
def test_every_branch_ends_exactly_once_and_nothing_is_left(seed: int, default: Concurrency) -> None:
    rng = random.Random(seed)
    walk, rows, ended = Walk(default), Rows(), list[int]()
    walk.begin("root", 0)
    for _ in range(400):
        if walk.ended:
            break
        random_step([walk], rng, ended)
    while not walk.ended:  # lead it to its end
        if (branch := walk.take()) is None and not walk.running:
            for held in walk.waiting:
                walk.wake(held.id)
            walk.resume()
            continue
        branch = branch or walk.running[0]
        before = {b.id for b in (*walk.queued, *walk.running, *walk.paused, *walk.waiting)}
        walk.apply(branch.id, Transition.finish(0))
        ended.extend(before - {b.id for b in (*walk.queued, *walk.running, *walk.paused, *walk.waiting)})
    assert list(range(1, walk.counters.next_branch)) == sorted(ended)
    assert walk.groups == []
    rows.write(walk.drain())
    assert (rows.branches, rows.groups) == ({}, {})
