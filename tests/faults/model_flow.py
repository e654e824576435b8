"""The flow that the model test drives: a visit that ends when the test says so, then a question, in turns."""

from __future__ import annotations

from collections import defaultdict

import anyio

from quiesce import Graph, NodeContext, Transition

__all__ = ["LIMIT", "VISITS", "Visit", "story"]

LIMIT = 100.0
"""Seconds after which the question answers itself with 0."""


class Visit:
    """One evaluation of the node, while it lasts."""

    def __init__(self) -> None:
        self.may_end = anyio.Event()
        self.fails = False
        self.over = False

    def end(self, *, fails: bool) -> None:
        self.fails = fails
        self.may_end.set()


VISITS: defaultdict[str, list[Visit]] = defaultdict(list)

story = Graph("story")


@story.node(start=True)
async def work(x: int, ctx: NodeContext) -> int:
    visit = Visit()
    VISITS[ctx.run].append(visit)
    try:
        await visit.may_end.wait()
    finally:
        visit.over = True
    if visit.fails:
        raise ValueError("this visit was to fail")
    return x + 1


review = story.gate(
    "review", asks="again?", expects=int, deadline=LIMIT, on_deadline=("answer", 0), takes=int
)
story.edge(work, review)


@story.transition(review)
def decide(pair: tuple[int, int]) -> Transition:
    x, again = pair
    return work.next(x) if again else Transition.finish(x)
