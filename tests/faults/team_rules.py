"""What is true of a team, by the rules of the spec alone: lanes of items, in order.

It knows nothing of rows, leases or transactions, nor of time. Source: spec team, "Model", "pause", "drain",
"resume" and "restart".
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MEMBERS", "Item", "Model"]

MEMBERS = ("m0", "m1")


@dataclass
class Item:
    """A piece of work in the lane of a member."""

    what: str
    task: int | None
    """None: a user wants it."""
    state: str = "queued"
    """`queued`, `running`, or `captured` by a pause."""
    alive: bool = False
    """A body works for it; also while a pause drains, and until then after its resume."""
    outcome: str | None = None
    """`ok` or `bad`: its body came to its end under a fence, which has taken effect on nothing yet."""
    lost: int = 0


@dataclass
class Model:
    """What is true of a team, by the rules of the spec."""

    state: str = "idle"
    generation: int = 1
    tasks: dict[int, str] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    after: dict[int, tuple[int, ...]] = field(default_factory=dict)
    lanes: dict[str, list[Item]] = field(default_factory=lambda: {name: [] for name in MEMBERS})
    overdue: set[str] = field(default_factory=set)

    def items(self) -> list[tuple[str, Item]]:
        return [(name, item) for name in MEMBERS for item in self.lanes[name]]

    def drains(self) -> set[str]:
        """What still works of what was captured."""
        return {item.what for _, item in self.items() if item.alive and item.state != "running"}

    def woken(self) -> None:
        if self.state == "idle":
            self.state, self.generation = "running", self.generation + 1

    def create(self, task: int, owner: str, after: tuple[int, ...]) -> None:
        self.woken()
        self.tasks[task], self.owners[task], self.after[task] = "pending", owner, after
        self.go()

    def direct(self, name: str, what: str) -> None:
        self.lanes[name].append(Item(what, None))
        self.go()

    def pause(self) -> None:
        self.state, self.generation = "paused", self.generation + 1
        for _, item in self.items():
            if item.task is not None:
                item.state = "captured"

    def resume(self) -> None:
        self.state, self.generation = "running", self.generation + 1
        for name, lane in self.lanes.items():
            captured = [item for item in lane if item.state == "captured"]
            self.lanes[name] = [item for item in lane if item.state != "captured"] + captured
            for item in captured:
                item.state = "queued"
        self.overdue.clear()
        self.go()

    def end(self, what: str, outcome: str) -> None:
        name, item = next(found for found in self.items() if found[1].what == what)
        item.alive, item.outcome = False, outcome
        self.overdue.discard(what)
        if item.state == "running":
            self._settle(name, item)
        self.go()

    def drop(self, task: int) -> None:
        """Its turn is not wanted any more, nor is its body."""
        for lane in self.lanes.values():
            lane[:] = [item for item in lane if item.task != task]

    def cancel(self, task: int) -> None:
        self.woken()
        self.tasks[task] = "cancelled"
        self.drop(task)
        self.go()

    def assign(self, task: int, owner: str) -> None:
        self.woken()
        if self.owners[task] != owner:
            self.drop(task)
            self.owners[task], self.tasks[task] = owner, "pending"
        self.go()

    def restart(self, *, lost: bool) -> None:
        """No body is left; those of a running team, and what users want, begin again."""
        for _, item in self.items():
            item.lost += item.alive and lost
            if item.state == "running":
                item.alive = True
            elif item.alive:
                item.alive = False
        self.overdue.clear()
        self.go()

    def _settle(self, name: str, item: Item) -> None:
        self.lanes[name].remove(item)
        if item.task is not None:
            self.tasks[item.task] = "completed" if item.outcome == "ok" else "failed"

    def go(self) -> None:
        """Whatever may begin begins; without work the team is idle."""
        moved = True
        while moved:
            moved = False
            if self.state == "running":
                known = {item.task for _, item in self.items()}
                for task, state in sorted(self.tasks.items()):
                    ready = all(self.tasks[one] == "completed" for one in self.after[task])
                    if state == "pending" and ready and task not in known:
                        self.lanes[self.owners[task]].append(Item(f"t{task}", task))
            for name, lane in self.lanes.items():
                queued = [
                    item
                    for item in lane
                    if item.state == "queued" and (item.task is None or self.state == "running")
                ]
                if not queued or any(item.alive for item in lane):
                    continue
                first = queued[0]
                if first.task is not None:
                    self.tasks[first.task] = "in_progress"
                first.state = "running"
                first.alive = first.outcome is None
                if first.outcome is not None:
                    self._settle(name, first)
                moved = True
        if self.state == "running" and not any(item.task is not None for _, item in self.items()):
            self.state = "idle"
