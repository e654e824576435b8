"""A deploy waits for approval, but not for ever: an approval that comes too late is none.

    pack ──> approval (a gate with a deadline) ──> stage ──> switch

Nobody answers within the hour: the run fails, and nothing was deployed. Who still wants it says `retry`: the
question is asked again, with an hour of its own, and nothing before it is done again.

Each effect is a node of its own, idempotent by a key, here the digest of what is deployed. A node that was
under way when its process died is evaluated again: `stage` finds its folder, `switch` its link, and both are
content. A copy that broke off in the middle is never taken for a release: the last step is a rename.

    python deploy.py                                                       the story, by a clock that it moves
    flowctl run examples/deploy.py:graph --input '["SOURCE", "TARGET"]'    exits with 75
    flowctl answer HOLD '{"approved": true}'                               within the hour
    flowctl retry RUN                                                      after it
"""

import hashlib
import os
import shutil
import sysconfig
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import anyio

from quiesce import Completed, Graph, Paused, Runtime, Transition
from quiesce.clock import ManualClock
from quiesce.errors import NodeError


@dataclass(frozen=True, slots=True)
class Release:
    """What is to be deployed, and its key: the digest of all its files."""

    source: Path
    target: Path
    key: str
    files: int

    @property
    def folder(self) -> Path:
        return self.target / "releases" / self.key


@dataclass(frozen=True, slots=True)
class Approval:
    approved: bool
    comment: str = ""


graph = Graph("deploy")


def files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in files_in(folder):
        found.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]


@graph.node(start=True, blocking=True)
def pack(what: tuple[Path, Path]) -> Release:
    source, target = (path.resolve() for path in what)  # another process may stand elsewhere
    return Release(source, target, digest(source), len(files_in(source)))


def question(release: Release) -> str:
    return f"Deploy {release.key}, {release.files} files of {release.source.name}?"


approval = graph.gate(
    "approval", asks=question, expects=Approval, deadline=timedelta(hours=1), on_deadline="fail"
)


@graph.node(blocking=True)
def stage(release: Release) -> Release:
    """Copy the files to a folder that has their key for its name."""
    if not release.folder.exists():
        part = release.folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)  # of a copy that broke off
        shutil.copytree(release.source, part, ignore=shutil.ignore_patterns("__pycache__"))
        if digest(part) != release.key:
            raise ValueError(f"{release.source} is not what was approved: it changed after it was packed")
        part.rename(release.folder)
    return release


@graph.node(blocking=True)
def switch(release: Release) -> Path:
    """Let `current` point at the release, from one instant to the next."""
    current, new = release.target / "current", release.target / f"current.{release.key}"
    new.unlink(missing_ok=True)
    new.symlink_to(release.folder.relative_to(release.target))
    os.replace(new, current)
    return current


graph.edge(pack, approval)
graph.edge(stage, switch)
graph.finish(switch)


@graph.transition(approval, to=[stage])
def decide(answered: tuple[Release, Approval]) -> Transition:
    release, approval = answered
    return stage.next(release) if approval.approved else Transition.finish(None)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target, clock = Path(sysconfig.get_path("stdlib"), "json"), Path(folder, "www"), ManualClock()
        async with Runtime(Path(folder, "flows.db"), clock=clock) as rt:
            outcome = await rt.run(graph, (source, target))
            assert isinstance(outcome, Paused)
            run, (hold,) = outcome.run, outcome.holds
            print(f"{hold.reason} Until {hold.deadline:%H:%M}, it is {clock.now():%H:%M}.")
            clock.advance(3600)
            try:
                await run.result()
            except NodeError as error:
                print(f"An hour later: {error}")
            await run.retry(actor="ops")
            outcome = await run.settled()
            assert isinstance(outcome, Paused)
            print(f"Asked again, until {outcome.holds[0].deadline:%H:%M}.")
            match await outcome.resume({"approved": True}):
                case Completed(current):
                    print(f"{current.name} -> {os.readlink(current)}: {len(os.listdir(current))} files")


if __name__ == "__main__":
    anyio.run(main)
