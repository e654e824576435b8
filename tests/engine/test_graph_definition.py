"""What a graph may be, and what one visit of it gives.

The driver here is synchronous and evaluates one visit after the other; numbers in docstrings are those
of the graph cases.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quiesce.errors import GraphError, MissingNode, MissingTransition, NoSteps, Rejected
from quiesce.graph import (
    Applied,
    Concurrency,
    Error,
    Finish,
    Graph,
    JoinInput,
    Next,
    NodeContext,
    NodeRef,
    Pause,
    Transition,
    Walk,
    bind,
    bind_transition,
    diff,
    is_flow,
    needs_context,
    resolve,
)

if TYPE_CHECKING:
    from decimal import Decimal


def done(value: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    if not isinstance(value, Awaitable):
        return value
    try:
        value.__await__().send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


class Run:
    """Evaluates a graph in place, and answers where it is told to."""

    def __init__(self, graph: Graph) -> None:
        graph.validate()
        graph.freeze()
        self.graph = graph
        self.walk = Walk(graph.concurrency)
        self.log: list[str] = []
        self.pauses: dict[int, Pause] = {}
        self.answers: dict[int, Any] = {}
        self.rejections: dict[int, str] = {}

    def start(self, value: Any = None) -> Applied | None:
        assert self.graph.start_node is not None
        self.walk.begin(self.graph.start_node.name, value)
        return self.go_on()

    def resume(self, branches: list[int] | None = None) -> Applied | None:
        self.walk.resume(branches)
        return self.go_on()

    def answer(self, branch: int, value: Any) -> Applied | None:
        self.answers[branch] = value
        return self.resume([branch])

    def reject(self, branch: int, message: str) -> Applied | None:
        self.rejections[branch] = message
        return self.resume([branch])

    def go_on(self) -> Applied | None:
        paused: Applied | None = None
        while True:
            flight = list(iter(self.walk.take, None))
            if not flight:
                return paused
            for branch in flight:
                node = self.graph.nodes[branch.node]
                self.log.append(branch.node)
                ctx = NodeContext(
                    run="run-1",
                    branch=branch.id,
                    attempt=branch.attempt,
                    answered=branch.id in self.answers,
                    given=self.answers.pop(branch.id, None),
                    rejected=self.rejections.pop(branch.id, None),
                )
                output = done(bind(node)(branch.input, ctx))
                returned = done(bind_transition(node)(output, ctx))
                case = resolve(self.graph, node.name, returned, self.walk.arrives_at(branch.id))
                applied = self.walk.apply(branch.id, case)
                if isinstance(case, Pause):
                    self.pauses[branch.id] = case
                if applied.finished is not None or applied.error is not None:
                    return applied
                paused = applied if applied.paused else paused


def value_of(graph: Graph, value: Any) -> Any:
    applied = Run(graph).start(value)
    assert applied is not None
    assert applied.finished is not None
    return applied.finished.value


def increment(value: int) -> int:
    return value + 1


def text(value: int) -> str:
    return str(value)


class Remembers:
    """A gate as an object: it keeps what waits, and lets it through once it is open."""

    def __init__(self, approved: bool = False) -> None:
        self.approved = approved
        self.pending: list[str] = []

    def evaluate(self, draft: str) -> str | None:
        if self.approved:
            self.pending.clear()
            return draft
        self.pending[:] = [draft]
        return None


class Inc:
    """Increments, and counts its copies."""

    copies = 0

    def evaluate(self, value: int) -> int:
        return value + 1

    def __copy__(self) -> Inc:
        Inc.copies += 1
        return Inc()


# --- linear runs ---------------------------------------------------------------------------------------


def test_a_chain_of_nodes_hands_on_and_finishes() -> None:
    """Cases 1 and 2."""
    graph = Graph("chain")
    one, two, three = (
        graph.node(increment, name="one", start=True),
        graph.node(increment, name="two"),
        graph.node(increment, name="three"),
    )
    graph.edge(one, two)
    graph.edge(two, three)
    graph.finish(three)
    assert value_of(graph, 1) == 4


def test_a_chain_may_change_types_on_its_way() -> None:
    """Case 16."""
    graph = Graph("types")

    @graph.node(start=True)
    def to_text(value: int) -> str:
        return str(value)

    @graph.node
    def to_number(value: str) -> int:
        return int(value)

    @graph.node
    def to_truth(value: int) -> bool:
        return value > 0

    graph.edge(to_text, to_number)
    graph.edge(to_number, to_truth)
    graph.finish(to_truth)
    assert value_of(graph, 3) is True
    assert (graph.input_type, graph.output_type) == (int, bool)


def test_running_uses_the_registered_object_itself_and_a_clone_a_copy_of_it() -> None:
    """Case 3, and 100."""
    graph = Graph("objects")
    node = Inc()
    ref = graph.node(node, start=True)
    graph.finish(ref)
    Inc.copies = 0
    assert value_of(graph, 1) == 2
    assert Inc.copies == 0
    assert ref.body is node
    clone = graph.clone()
    assert Inc.copies == 1
    assert clone.nodes["Inc"].body is not node
    assert value_of(clone, 2) == 3


def test_a_clone_has_not_run_and_shares_its_handlers() -> None:
    """Cases 12 and 102: what a handler captured is shared, also the refs of the first graph."""
    graph = Graph("shared")
    seen: list[int] = []
    graph.node(increment, start=True)
    last = graph.node(increment, name="last")

    @graph.transition("increment")
    def decide(value: int) -> Transition:
        seen.append(value)
        return last.next(value)

    graph.finish(last)
    assert value_of(graph, 1) == 3
    clone = graph.clone()
    assert not clone.frozen
    assert clone.signature() == graph.signature()
    assert value_of(clone, 50) == 52
    assert seen == [2, 51]


def test_what_an_object_shares_by_reference_stays_shared_with_the_clone() -> None:
    graph = Graph("gate")
    gate = Remembers()
    ref = graph.node(gate, start=True)
    graph.transition(ref)(lambda draft: Transition.finish(draft) if draft else Transition.pause())
    clone = graph.clone()
    Run(clone).start("draft")
    copied = clone.nodes["Remembers"].body
    assert copied is not gate
    assert gate.pending == ["draft"]
    copied.approved = True
    assert not gate.approved


def test_an_approval_gate_keeps_what_waits_and_a_resume_evaluates_it_again() -> None:
    """Case 19; the seed's ApprovalGate."""
    graph = Graph("architect")
    gate = Remembers()
    review = graph.node(gate, start=True)
    graph.transition(review)(
        lambda draft: Transition.finish(draft) if draft else Transition.pause("approval")
    )
    run = Run(graph)
    assert run.start("draft") == Applied(paused=True)
    assert (gate.pending, run.pauses[1].reason) == (["draft"], "approval")
    gate.approved = True
    applied = run.resume()
    assert applied is not None
    assert applied.finished == Finish("draft")
    assert gate.pending == []


def test_transitions_and_maps_may_be_async() -> None:
    """Cases 17 and 57."""
    graph = Graph("async")

    @graph.node(start=True)
    async def first(value: int) -> int:
        return value + 1

    @graph.transition(first)
    async def decide(value: int, ctx: NodeContext) -> Transition:
        return Transition.fan_out([(second, value), (second, value)], join=total)

    @graph.node
    def second(value: int) -> int:
        return value + 1

    async def doubled(value: int) -> int:
        return value * 2

    graph_total = graph.node(lambda payloads: sum(payloads), name="total")
    total = graph_total
    graph.join(second, into=total, map=doubled)
    graph.finish(total, map=lambda value: f"sum {value}")
    assert value_of(graph, 1) == "sum 12"


def test_a_node_may_be_almost_any_callable() -> None:
    class Adds:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, value: int) -> int:
            return value + self.by

        async def later(self, value: int, ctx: NodeContext) -> int:
            return value + self.by + ctx.branch

    graph = Graph("callables")
    refs: list[NodeRef[Any, Any]] = [
        graph.node(lambda value: value + 1, name="lambda", start=True),
        graph.node(functools.partial(lambda by, value: value + by, 10), name="partial"),
        graph.node(Adds(100)),
        graph.node(Adds(1000).later),
        graph.node(str),
    ]
    for source, target in itertools.pairwise(refs):
        graph.edge(source, target)
    graph.finish(refs[-1])
    assert list(graph.nodes) == ["lambda", "partial", "Adds", "later", "str"]
    assert [ref.takes_context for ref in refs] == [False, False, False, True, False]
    assert [ref.is_async for ref in refs] == [False, False, False, True, False]
    assert value_of(graph, 0) == "1112"


def test_a_registered_function_can_still_be_called_like_one() -> None:
    graph = Graph("plain")
    ref = graph.node(increment)
    assert ref(1) == 2
    assert graph.node(Inc())(1) == 2


def test_only_what_takes_the_context_is_given_one() -> None:
    graph = Graph("contexts")

    def scaled(value: int, scale: int = 2) -> int:
        return value * scale

    def optional(value: int, ctx: NodeContext | None = None) -> int:
        return value

    a = graph.node(scaled, start=True)
    b = graph.node(optional)
    graph.edge(a, b)
    graph.transition(b)(lambda value, ctx: Transition.finish((value, ctx.run)))
    assert (a.takes_context, b.takes_context) == (False, True)
    assert (needs_context(a), needs_context(b)) == (False, True)
    assert value_of(graph, 4) == (8, "run-1")


def test_the_context_has_no_answer_to_read_unless_there_is_one() -> None:
    with pytest.raises(GraphError, match="answered first"):
        _ = NodeContext("run-1").answer
    assert NodeContext("run-1", answered=True, given=None).answer is None


# --- validation and registration -----------------------------------------------------------------------


def test_a_graph_without_a_start_has_no_steps() -> None:
    """Cases 20 and 21."""
    graph = Graph("empty")
    with pytest.raises(NoSteps, match="graph 'empty' has no start"):
        graph.validate()
    graph.node(increment)
    with pytest.raises(NoSteps):
        graph.validate()


def test_the_first_node_without_a_transition_is_named_reachable_or_not() -> None:
    """Case 22."""
    graph = Graph("incomplete")
    start = graph.node(increment, start=True)
    graph.node(text, name="lonely")
    graph.node(text, name="lonelier")
    with pytest.raises(MissingTransition, match="node 'increment'"):
        graph.validate()
    graph.finish(start)
    with pytest.raises(MissingTransition, match="node 'lonely' of graph 'incomplete'"):
        graph.validate()


@pytest.mark.parametrize("first", ["edge", "join", "finish", "handler"])
@pytest.mark.parametrize("second", ["edge", "join", "finish", "handler"])
def test_a_node_has_one_transition_for_ever(first: str, second: str) -> None:
    """Case 25."""
    graph = Graph("once")
    node = graph.node(increment)
    other = graph.node(lambda value: value, name="other")
    register: dict[str, Callable[[], object]] = {
        "edge": lambda: graph.edge(node, other),
        "join": lambda: graph.join(node, into=other),
        "finish": lambda: graph.finish(node),
        "handler": lambda: graph.transition(node)(lambda value: Transition.finish(value)),
    }
    register[first]()
    before = dict(graph.decisions)
    with pytest.raises(GraphError, match="node 'increment' already has a registered transition"):
        register[second]()
    assert dict(graph.decisions) == before


def test_a_node_of_another_graph_is_refused_at_registration() -> None:
    """Case 26; here also where index and types would fit."""
    graph, other = Graph("mine"), Graph("other")
    mine = graph.node(increment)
    foreign = other.node(increment)
    for wrong in (
        lambda: graph.edge(mine, foreign),
        lambda: graph.edge(foreign, mine),
        lambda: graph.join(mine, into=foreign),
        lambda: graph.finish(foreign),
        lambda: graph.start(foreign),
        lambda: graph.transition(foreign),
        lambda: graph.transition(mine, to=[foreign]),
    ):
        with pytest.raises(GraphError, match=r"graph 'mine' names node 'increment' of graph 'other'"):
            wrong()
    with pytest.raises(MissingNode, match="'nowhere'"):
        graph.edge(mine, "nowhere")
    with pytest.raises(GraphError, match="needs a node"):
        graph.edge(mine, increment)
    assert dict(graph.decisions) == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda foreign: foreign.next(1),
        lambda foreign: Transition.next(foreign, 1),
        lambda foreign: Transition.next("nowhere", 1),
        lambda foreign: Transition.join(foreign, 1),
        lambda foreign: Transition.fan_out([(foreign, 1)], join="sum"),
        lambda foreign: Transition.fan_out([("increment", 1)], join=foreign),
    ],
    ids=["ref.next", "next", "by name", "join", "fan-out", "join of a fan-out"],
)
def test_a_transition_that_leaves_the_graph_is_a_missing_node(make: Callable[[Any], Any]) -> None:
    """Case 27."""
    graph = Graph("mine")
    graph.node(increment)
    graph.node(lambda payloads: payloads, name="sum")
    foreign = Graph("other").node(increment)
    with pytest.raises(
        MissingNode, match=r"node 'increment'.*(of graph 'other'|'nowhere', which graph 'mine')"
    ):
        resolve(graph, "increment", make(foreign))


def test_a_value_that_does_not_fit_its_target_names_both_nodes_and_its_type() -> None:
    """Case 28."""
    graph = Graph("misfit")
    graph.node(lambda value: value, name="source")
    graph.node(increment)
    expected = "node 'source' handed a value of type str to node 'increment', which takes int"
    with pytest.raises(GraphError, match=expected):
        resolve(graph, "source", Transition.next("increment", "3"))
    with pytest.raises(GraphError, match=expected):
        resolve(graph, "source", Transition.fan_out([("increment", 1), ("increment", "3")], join=None))


def test_what_is_no_transition_is_refused_with_its_type() -> None:
    graph = Graph("returns")
    graph.node(increment)
    with pytest.raises(GraphError, match="node 'increment' returned 3 of type int"):
        resolve(graph, "increment", 3)
    with pytest.raises(GraphError, match="forget to return"):
        resolve(graph, "increment", None)


def test_a_number_is_widened_and_nothing_else_is_converted() -> None:
    """Case 59."""
    graph = Graph("wide")

    @graph.node
    def half(value: float) -> float:
        return value / 2

    case = resolve(graph, "half", half.next(3))
    assert isinstance(case, Next)
    assert type(case.value) is float
    with pytest.raises(GraphError, match="of type bool"):
        resolve(graph, "half", half.next(True))


def test_a_handler_leads_only_where_it_declares() -> None:
    graph = Graph("declared")
    a, b, c = (graph.node(lambda value: value, name=name) for name in "abc")

    @graph.transition(a, to=[b])
    def decide(value: Any) -> Transition:
        return c.next(value)

    assert resolve(graph, "a", b.next(1)) == b.next(1)
    assert resolve(graph, "a", Transition.finish(1)) == Finish(1)
    with pytest.raises(GraphError, match=r"node 'a' leads to 'c', but its transition declares to=\['b'\]"):
        resolve(graph, "a", decide(1))
    with pytest.raises(GraphError, match="'c'"):
        resolve(graph, "a", Transition.fan_out([(b, 1)], join=c))


def test_a_graph_that_has_run_takes_no_more_registrations_and_loses_nothing() -> None:
    """Cases 23, 31 and 32, which we decide otherwise: a graph is frozen at its first run."""
    graph = Graph("frozen")
    node = graph.node(increment, start=True)
    graph.finish(node)
    before = graph.signature()
    assert value_of(graph, 1) == 2
    for late in (
        lambda: graph.node(text),
        lambda: graph.node(name="late")(text),
        lambda: graph.gate("late", asks="?"),
        lambda: graph.start(node),
        lambda: graph.edge(node, node),
        lambda: graph.transition(node)(lambda value: Transition.finish(value)),
    ):
        with pytest.raises(GraphError, match="graph 'frozen' has run"):
            late()
    assert graph.signature() == before
    assert value_of(graph, 2) == 3
    clone = graph.clone()
    clone.node(text)
    assert "text" not in graph.nodes


def test_node_names_are_unique_and_the_message_says_how_to_choose_one() -> None:
    graph = Graph("names")
    graph.node(increment)
    with pytest.raises(GraphError, match="has a node 'increment' already; pass name="):
        graph.node(increment)
    graph.node(increment, name="again")
    with pytest.raises(GraphError, match="lambda has no name"):
        graph.node(lambda value: value)
    assert list(graph.nodes) == ["increment", "again"]


def test_what_cannot_be_a_node_is_refused_where_it_is_registered() -> None:
    graph = Graph("refused")

    def generator(value: int) -> Any:
        yield value

    async def stream(value: int) -> Any:
        yield value

    async def later(value: int) -> int:
        return value

    for body, options, message in (
        (generator, {}, "generator function"),
        (stream, {}, "generator function"),
        (lambda: 1, {"name": "none"}, "takes no argument"),
        (lambda a, b, c: 1, {"name": "many"}, "needs 3 arguments"),
        (lambda a, *, key: 1, {"name": "key"}, "keyword argument 'key'"),
        (Inc, {}, r"is the class Inc; register an object of it: Inc\("),
        (3, {}, "is a function, an object with evaluate"),
        (graph.node(increment), {}, "is a node already"),
        (later, {"blocking": True}, "cannot be blocking"),
        (text, {"retries": -1}, "retries"),
        (text, {"backoff": -1.0}, "backoff"),
        (text, {"timeout": 0.0}, "timeout"),
    ):
        with pytest.raises(GraphError, match=message):
            graph.node(body, **options)
    with pytest.raises(TypeError, match="no option tries"):
        graph.node(text, tries=3)
    with pytest.raises(GraphError, match="graph needs a name"):
        Graph("")
    assert list(graph.nodes) == ["increment"]


def test_a_second_start_is_a_mistake_unless_it_is_said_expressly() -> None:
    graph = Graph("starts")
    graph.node(increment, start=True)
    with pytest.raises(GraphError, match="starts with node 'increment'"):
        graph.node(text, start=True)
    other = graph.node(text)
    graph.start(other)
    assert graph.start_node is other


def test_what_a_node_may_use_of_the_machine_is_kept_with_it() -> None:
    graph = Graph("options")
    ref = graph.node(increment, blocking=True, retries=3, backoff=0.5, timeout=2.0)
    assert (ref.blocking, ref.retries, ref.backoff, ref.timeout) == (True, 3, 0.5, 2.0)


# --- types that cannot fit -----------------------------------------------------------------------------


def sum_of(payloads: JoinInput[int]) -> int:
    return sum(payloads)


def test_an_edge_between_types_that_cannot_fit_is_refused_when_it_is_built() -> None:
    """Case 108."""
    graph = Graph("edge")
    source, target = graph.node(text, start=True), graph.node(increment)
    message = "from node 'text' to node 'increment' cannot be: 'text' gives str, 'increment' takes int"
    with pytest.raises(GraphError, match=message):
        graph.edge(source, target)
    assert dict(graph.decisions) == {}
    graph.edge(target, source)


def test_a_join_payload_that_cannot_fit_is_refused_when_it_is_built() -> None:
    """Cases 109 and 110."""
    graph = Graph("join")
    source, total = graph.node(text), graph.node(sum_of)
    with pytest.raises(GraphError, match=r"'text' brings str, 'sum_of' takes JoinInput\[int\]"):
        graph.join(source, into=total)

    def length(value: str) -> int:
        return len(value)

    def wrong(value: int) -> int:
        return value

    with pytest.raises(GraphError, match="the map of node 'text' takes int, but node 'text' gives str"):
        graph.join(source, into=total, map=wrong)
    graph.join(source, into=total, map=length)
    assert graph.payload_type("text", "sum_of") is int


def test_a_join_into_a_node_that_takes_no_join_input_is_refused() -> None:
    """Case 111; at run time too."""
    graph = Graph("join")
    source, target = graph.node(increment), graph.node(text)
    with pytest.raises(GraphError, match="node 'increment' joins node 'text', which takes int"):
        graph.join(source, into=target)
    with pytest.raises(GraphError, match="a join node takes a JoinInput"):
        resolve(graph, "increment", Transition.join(target, 1))
    with pytest.raises(GraphError, match="a join node takes a JoinInput"):
        resolve(graph, "increment", Transition.fan_out([(source, 1)], join=target))
    total = graph.node(sum_of)
    with pytest.raises(GraphError, match="which takes JoinInput"):
        resolve(graph, "increment", Transition.next("sum_of", 3))
    assert resolve(graph, "increment", total.next(JoinInput([1]))) == total.next(JoinInput([1]))


def test_a_handler_or_a_finish_map_that_cannot_take_the_output_is_refused() -> None:
    graph = Graph("handler")
    source = graph.node(text)

    def decide(value: int) -> Transition:
        return Transition.finish(value)

    with pytest.raises(
        GraphError, match="the transition of node 'text' takes int, but node 'text' gives str"
    ):
        graph.transition(source)(decide)
    with pytest.raises(GraphError, match="the map of node 'text' takes int"):
        graph.finish(source, map=increment)


def test_a_payload_that_arrives_by_finishing_is_checked_against_the_join() -> None:
    """Case 51."""
    graph = Graph("finish")
    graph.node(text)
    graph.node(sum_of)
    assert resolve(graph, "text", Transition.finish("3")) == Finish("3")
    assert resolve(graph, "text", Transition.finish(3), "sum_of") == Finish(3)
    with pytest.raises(
        GraphError, match=r"'text' handed a value of type str to node 'sum_of'.*JoinInput\[int"
    ):
        resolve(graph, "text", Transition.finish("3"), "sum_of")


def test_an_annotation_may_name_what_the_module_defines_further_down() -> None:
    graph = Graph("later")

    def use(value: DefinedBelow) -> DefinedBelow:
        return value

    ref = graph.node(use)
    assert ref.input_type is DefinedBelow
    namespace: dict[str, Any] = {"graph": graph}
    exec("def early(value: 'Soon') -> 'Soon': return value", namespace)
    early = graph.node(namespace["early"])
    assert early.input_type is None
    wrong = graph.node(text)
    graph.edge(early, wrong)  # nobody can know yet
    exec("class Soon: ...", namespace)
    assert early.input_type is namespace["Soon"]
    graph.start(early)
    graph.finish(ref)
    graph.finish(wrong)
    with pytest.raises(GraphError, match="'early' gives Soon, 'text' takes int"):
        graph.validate()


@dataclass
class DefinedBelow:
    value: int = 0


def test_classes_of_the_registering_function_are_found() -> None:
    class Local:
        pass

    graph = Graph("local")

    @graph.node
    def make(value: int) -> Local:
        return Local()

    @graph.node(name="take")
    def take(value: Local, ctx: NodeContext) -> int:
        return 1

    assert (make.output_type, take.input_type) == (Local, Local)


def test_what_cannot_be_resolved_counts_as_not_annotated_and_does_not_spoil_the_rest() -> None:
    graph = Graph("typing")

    @graph.node(start=True)
    def priced(value: int) -> Decimal:
        return value

    graph.finish(priced)
    graph.validate()
    assert (priced.input_type, priced.output_type) == (int, None)
    assert graph.signature()["nodes"]["priced"]["output"] == "Decimal"


def test_an_awaitable_that_a_plain_function_returns_counts_by_what_it_gives() -> None:
    graph = Graph("awaitable")

    def soon(value: int) -> Awaitable[str]:
        raise NotImplementedError

    ref = graph.node(soon)
    assert ref.output_type is str
    with pytest.raises(GraphError, match="'soon' gives str"):
        graph.edge(ref, graph.node(increment))


def test_no_return_value_is_a_type_too() -> None:
    graph = Graph("none")

    @graph.node
    def nothing(value: int) -> None: ...

    assert nothing.output_type is type(None)
    with pytest.raises(GraphError, match="'nothing' gives None"):
        graph.edge(nothing, graph.node(increment))


# --- fan-out and join ----------------------------------------------------------------------------------


def fan(default: Concurrency = Concurrency.SEQUENTIAL) -> tuple[Graph, NodeRef[int, int]]:
    graph = Graph("fan", concurrency=default)
    return graph, graph.node(lambda value: value, name="S", start=True)


def test_branches_join_with_their_sum() -> None:
    """Cases 43 and 44."""
    graph, start = fan()
    double = graph.node(lambda value: value * 2, name="double")
    plus = graph.node(increment)
    total = graph.node(sum_of)
    graph.transition(start)(lambda value: Transition.fan_out([double.next(value), (plus, value)], join=total))
    graph.join(double, into=total)
    graph.join(plus, into=total)
    graph.finish(total)
    assert value_of(graph, 3) == 10


def test_a_join_may_take_mixed_payloads_and_pick_them_by_type() -> None:
    """Cases 45 and 60."""

    def weigh(payloads: JoinInput[int | str]) -> int:
        assert list(payloads) == list(payloads)
        return sum(payloads.of(int)) + sum(map(len, payloads.of(str))) + len(payloads)

    graph, start = fan()
    plus = graph.node(increment)
    named = graph.node(lambda value: f"branch-{value}", name="named")
    join = graph.node(weigh)
    graph.transition(start)(lambda value: Transition.fan_out([(plus, value), (named, value)], join=join))
    graph.join(plus, into=join)
    graph.join(named, into=join)
    graph.finish(join)
    assert value_of(graph, 2) == 3 + len("branch-2") + 2


def test_a_join_input_is_a_sequence_that_can_be_read_again_and_again() -> None:
    payloads = JoinInput([1, "a", 2], sources=["x", "y", "z"])
    assert (len(payloads), payloads[0], payloads[-1], payloads[1:]) == (3, 1, 2, ("a", 2))
    assert payloads == JoinInput([1, "a", 2])
    assert payloads != JoinInput([1, "a"])
    assert payloads != [1, "a", 2]
    assert hash(payloads) == hash(JoinInput([1, "a", 2]))
    assert repr(payloads) == "JoinInput([1, 'a', 2])"
    assert payloads.of(int) == JoinInput([1, 2])
    assert payloads.of(int).sources == ("x", "z")
    assert not JoinInput()


def test_a_branch_may_visit_other_nodes_before_it_joins_and_a_map_runs_once_at_arrival() -> None:
    """Cases 48 and 58."""
    mapped: list[int] = []

    def doubled(value: int) -> int:
        mapped.append(value)
        return value * 2

    graph, start = fan()
    a, middle, b = (graph.node(increment, name=name) for name in ("a", "middle", "b"))
    total = graph.node(sum_of)
    graph.transition(start)(lambda value: Transition.fan_out([(a, value), (b, value)], join=total))
    graph.edge(a, middle)
    graph.join(middle, into=total, map=doubled)
    graph.join(b, into=total)
    graph.finish(total)
    run = Run(graph)
    applied = run.start(1)
    assert applied is not None
    assert applied.finished == Finish(6 + 2)
    assert mapped == [3]
    assert run.log == ["S", "a", "b", "middle", "sum_of"]


def test_a_fan_out_says_expressly_whether_it_joins() -> None:
    """Case 106."""
    with pytest.raises(TypeError, match="join"):
        Transition.fan_out([])
    with pytest.raises(GraphError, match="max_parallelism is at least 1"):
        Transition.fan_out([("a", 1)], join="b", max_parallelism=0)
    with pytest.raises(GraphError, match="leads to a node"):
        Transition.next(increment, 1)


def test_the_declared_type_of_a_payload_is_the_joins_else_the_maps_else_the_sources() -> None:
    graph = Graph("payloads")
    source = graph.node(text)
    bare = graph.node(lambda payloads: payloads, name="bare")
    graph.join(source, into=bare)
    assert graph.payload_type("text", "bare") is str
    other = graph.node(text, name="other")

    def length(value: str) -> int:
        return len(value)

    graph.join(other, into=bare, map=length)
    assert graph.payload_type("other", "bare") is int
    graph.node(sum_of)
    assert graph.payload_type("text", "sum_of") is int
    assert graph.payload_type("text", "gone") is str


def test_the_output_type_is_what_the_finishing_nodes_declare() -> None:
    graph = Graph("outputs")
    assert graph.output_type is None
    a, b, c = graph.node(text), graph.node(increment), graph.node(lambda value: value, name="c")
    graph.finish(a)
    assert graph.output_type is str
    graph.finish(b)
    assert graph.output_type == str | int
    assert (graph.finish_type("text"), graph.finish_type("c")) == (str, None)
    graph.finish(c)
    assert graph.output_type == str | int | Any


def test_a_graph_whose_handler_may_finish_can_complete_with_any_value() -> None:
    """`Transition.finish(value)` declares no type: what it gives is stored like what nobody declared."""
    graph = Graph("handled")
    a, b = graph.node(text), graph.node(increment)
    graph.finish(a)

    @graph.transition(b)
    def decide(value: int) -> Transition:
        return Transition.finish(None)

    assert graph.output_type == str | Any


# --- gates ---------------------------------------------------------------------------------------------


def gated(*, takes_rejection: bool = False) -> Graph:
    graph = Graph("gated")

    def words(draft: str) -> str:
        return f"Write {draft}?"

    ask = graph.gate(
        "ask", asks=words, expects=bool, payload=lambda draft: {"draft": draft}, deadline=60.0, start=True
    )

    @graph.transition(ask)
    def decide(answered: tuple[str, bool]) -> Transition:
        draft, yes = answered
        return Transition.finish(draft if yes else None)

    if takes_rejection:

        @graph.rejected(ask)
        def otherwise(draft: str, message: str) -> Transition:
            return Transition.finish(f"{draft}: {message}")

    return graph


def test_a_gate_asks_until_it_is_answered_and_hands_on_input_and_answer() -> None:
    run = Run(gated())
    run.start("plan")
    asked = Transition.pause("Write plan?", expects=bool, payload={"draft": "plan"}, deadline=60.0)
    assert run.pauses[1] == asked
    assert run.resume() == Applied(paused=True)
    assert run.pauses[1] == asked
    applied = run.answer(1, True)
    assert applied is not None
    assert applied.finished == Finish("plan")


def test_false_and_none_are_answers() -> None:
    run = Run(gated())
    run.start("plan")
    applied = run.answer(1, False)
    assert applied is not None
    assert applied.finished == Finish(None)


def test_a_rejection_fails_the_gates_branch_unless_the_graph_decides_otherwise() -> None:
    run = Run(gated())
    run.start("plan")
    applied = run.reject(1, "too long")
    assert applied is not None
    assert isinstance(applied.error, Rejected)
    assert str(applied.error) == "too long"
    assert [branch.input for branch in run.walk.queued] == ["plan"]

    run = Run(gated(takes_rejection=True))
    run.start("plan")
    applied = run.reject(1, "too long")
    assert applied is not None
    assert applied.finished == Finish("plan: too long")


def test_a_gate_may_lead_along_an_edge_and_its_types_are_checked() -> None:
    graph = Graph("edge")
    gate = graph.gate("ask", asks="How many?", expects=int, takes=str)
    assert (gate.input_type, gate.output_type) == (str, tuple[str, int])

    def repeat(answered: tuple[str, int]) -> str:
        return answered[0] * answered[1]

    def wrong(answered: tuple[str, str]) -> str:
        return "".join(answered)

    with pytest.raises(GraphError, match=r"'ask' gives tuple\[str, int\], 'wrong' takes tuple\[str, str\]"):
        graph.edge(gate, graph.node(wrong))
    graph.start(gate)
    graph.edge(gate, graph.node(repeat))
    graph.finish("repeat")
    graph.finish("wrong")
    run = Run(graph)
    run.start("ab")
    applied = run.answer(1, 2)
    assert applied is not None
    assert applied.finished == Finish("abab")


def test_a_rejection_is_decided_once_and_only_for_gates() -> None:
    graph = gated(takes_rejection=True)
    with pytest.raises(GraphError, match="decided already"):
        graph.rejected("ask")(lambda draft, message: Transition.finish(None))
    plain = graph.node(increment)
    with pytest.raises(GraphError, match=r"is no gate.*ctx\.rejected"):
        graph.rejected(plain)


def test_an_async_question_is_refused() -> None:
    async def words(draft: str) -> str:
        return draft

    with pytest.raises(GraphError, match="is async"):
        Graph("async").gate("ask", asks=words)


@pytest.mark.parametrize(
    ("deadline", "on_deadline", "message"),
    [
        (datetime(2030, 1, 1), "hold", "no time zone"),
        (-1.0, "hold", "lies ahead"),
        (float("nan"), "hold", "lies ahead"),
        (timedelta(seconds=-1), "hold", "lies ahead"),
        (True, "hold", "float seconds"),
        ("soon", "hold", "float seconds"),
        (1.0, "explode", "on_deadline"),
        (1.0, ("answer",), "on_deadline"),
    ],
)
def test_a_deadline_that_means_nothing_is_refused_where_it_is_written(
    deadline: Any, on_deadline: Any, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        Transition.pause("?", deadline=deadline, on_deadline=on_deadline)
    with pytest.raises(GraphError, match=message):
        Graph("late").gate("ask", asks="?", deadline=deadline, on_deadline=on_deadline)


def test_a_deadline_is_kept_as_it_was_given() -> None:
    for deadline in (datetime(2030, 1, 1, tzinfo=UTC), timedelta(hours=1), 5, 0.5, None):
        assert Transition.pause(deadline=deadline, on_deadline=("answer", 3)).deadline == deadline


def test_a_plain_node_sees_answer_and_rejection_in_its_context() -> None:
    graph = Graph("plain")

    @graph.node(start=True)
    def ask(value: int, ctx: NodeContext) -> str:
        return f"{value} {ctx.answer if ctx.answered else ctx.rejected}"

    graph.transition(ask)(
        lambda told, ctx: (
            Transition.finish(told) if ctx.answered or ctx.rejected else Transition.pause("?", expects=str)
        )
    )
    for settle, expected in (
        (lambda run: run.answer(1, "yes"), "1 yes"),
        (lambda run: run.reject(1, "no"), "1 no"),
    ):
        run = Run(graph.clone())
        run.start(1)
        assert settle(run).finished == Finish(expected)


# --- flows as nodes ------------------------------------------------------------------------------------


def test_a_flow_is_a_node_whose_visit_is_a_run_of_it() -> None:
    inner = Graph("inner")
    inner.finish(inner.node(text, start=True))
    outer = Graph("outer")
    ref = outer.node(inner)
    assert (ref.name, ref.flow, ref.input_type, ref.output_type) == ("inner", inner, int, str)
    with pytest.raises(GraphError, match="'inner' gives str, 'increment' takes int"):
        outer.edge(ref, outer.node(increment))
    with pytest.raises(GraphError, match="its visit is a run of it"):
        bind(ref)
    with pytest.raises(GraphError, match="only a run evaluates it"):
        ref(1)
    assert outer.clone().nodes["inner"].flow is inner
    assert outer.signature()["nodes"]["inner"]["flow"] == "graph inner"


def test_what_evaluates_is_a_node_even_if_it_has_a_kind_and_a_name() -> None:
    class Named:
        kind = "graph"
        name = "named"

        def evaluate(self, value: int) -> int:
            return value

    assert is_flow(Graph("flow"))
    assert not is_flow(Named())
    assert not is_flow(Named)
    assert not is_flow(increment)


# --- signature -----------------------------------------------------------------------------------------


def signed() -> Graph:
    graph = Graph("signed")
    a = graph.node(increment, name="a", start=True)
    b = graph.node(text, name="b")
    graph.edge(a, b)
    graph.finish(b)
    return graph


def test_a_signature_is_json_and_equal_for_equal_graphs() -> None:
    one, two = signed().signature(), signed().signature()
    assert one == two == json.loads(json.dumps(one))
    assert signed().version_digest() == signed().version_digest()


def test_a_signature_is_the_same_in_another_process() -> None:
    script = (
        "from quiesce.graph import *\n"
        "def increment(value: int) -> int: ...\n"
        "def text(value: int) -> str: ...\n"
        "g = Graph('signed'); a = g.node(increment, name='a', start=True); b = g.node(text, name='b')\n"
        "g.edge(a, b); g.finish(b); print(g.version_digest())"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert told.stdout.strip() == signed().version_digest()


def test_a_difference_is_told_in_lines_that_name_the_nodes() -> None:
    old = signed()
    new = Graph("signed", concurrency=Concurrency.PARALLEL)
    a = new.node(text, name="a")
    c = new.node(lambda value: value, name="c", start=True)
    new.transition(a, to=[c])(lambda value: c.next(value))
    new.finish(c)
    assert diff(old.signature(), old.signature()) == []
    assert diff(old.signature(), new.signature()) == [
        "node 'b' was removed",
        "node 'c' was added",
        "node 'a': output int -> str",
        "node 'a': transition edge to 'b' -> handler to 'c'",
        "start a -> c",
        "concurrency sequential -> parallel",
    ]
    assert old.version_digest() != new.version_digest()


def test_a_changed_question_is_a_change() -> None:
    def of(expects: Any) -> Graph:
        graph = Graph("ask")
        graph.finish(graph.gate("ask", asks="?", expects=expects, start=True))
        return graph

    lines = diff(of(bool).signature(), of(None).signature())
    assert "node 'ask': expects bool -> unknown" in lines


def test_a_graph_knows_where_it_was_defined() -> None:
    graph = Graph("here", version="7")
    assert (graph.defined_in.module, graph.defined_in.file) == (__name__, str(Path(__file__).resolve()))
    assert graph.version == "7"
    assert graph.clone().defined_in == graph.defined_in


def test_errors_are_transitions_too() -> None:
    graph = Graph("errors")
    node = graph.node(increment, start=True)
    graph.transition(node)(lambda value: Transition.error("plain text"))
    assert Run(graph).start(1) == Applied(error="plain text")
    assert isinstance(Transition.error(ValueError("x")), Error)
