"""Where does a newcomer to this folder of Python start reading? A flow that drafts its ARCHITECTURE.md.

    survey ──> draft ──> review (a gate: here the run is paused) ──> write

`workspace_survey.py` reads the project, `workspace_document.py` says what it found; this is the flow of both.
Approval may take days while processes come and go, hence three habits. What passes from node to node is a
frozen value of plain types, which a store can write and restore. The pause is on the cheap gate, so a resume
does not survey or draft again. And `write` may be visited twice (a crash after the rename, before its result
was stored): the second visit finds its own work. It replaces nothing that changed while the draft waited.

    python workspace_architect.py                               the story, on a copy of the package json
    flowctl run examples/workspace_architect.py:graph FOLDER    asks on a terminal; in a pipe it exits with 75
    flowctl answer HOLD true                                    from any process, also days later

A language model may do the writing; none is needed. Name a function that takes the facts and the plain draft
and returns the text to review, `def rewrite(survey: Survey, text: str) -> str`, in the environment:

    WORKSPACE_ARCHITECT_WRITER=my_module:rewrite
"""

import hashlib
import importlib
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import count
from pathlib import Path

import anyio

from quiesce import Completed, Graph, Paused, Runtime, Transition
from workspace_document import architecture, number
from workspace_survey import ArchitectError, Survey, survey

TARGET, WRITER = "ARCHITECTURE.md", "WORKSPACE_ARCHITECT_WRITER"


@dataclass(frozen=True, slots=True)
class Draft:
    text: str
    target: Path
    summary: tuple[str, ...]  # what the approver is told
    replaces: str  # SHA-256 of the file that the approval is about; empty if there is none


def draft(survey: Survey) -> Draft:
    """Write the document, and what its approver should know. Nothing on disk changes."""
    text = _writer()(survey, architecture(survey))
    if not isinstance(text, str) or not text.strip():
        raise ArchitectError(f"{WRITER}={os.environ.get(WRITER)} returned {text!r:.60}; expected the text")
    target = Path(os.path.realpath(survey.root / TARGET))  # behind a link: what it leads to
    old = _read(target)
    size = f"{number(len(survey.modules), 'module')}, {number(sum(m.lines for m in survey.modules), 'line')}"
    summary = [f"{TARGET} for {survey.name} ({size}) is drafted: {number(len(text.splitlines()), 'line')}."]
    if old is None:
        summary.append(f"It will be a new file: {target}")
    elif old == text.encode():
        summary.append(f"{target} already says exactly this: nothing will change.")
    else:
        before, after = old.decode("utf-8", "replace").splitlines(), text.splitlines()
        same = sum(block.size for block in SequenceMatcher(None, before, after, False).get_matching_blocks())
        summary.append(f"It will REPLACE {target}: +{len(after) - same} -{len(before) - same} lines.")
        summary.append(f"What is there now will be kept beside it as {_kept(target, old).name}.")
    if survey.problems:
        summary.append(f"{number(len(survey.problems), 'thing')} could not be read: see its end.")
    return Draft(text, target, tuple(summary), _digest(old))


def question(draft: Draft) -> str:
    """What the gate asks."""
    return "\n".join([*draft.summary, f"Write this {TARGET}?"])


def document(draft: Draft) -> str:
    """What the gate shows with its question."""
    return draft.text


def _writer() -> Callable[[Survey, str], str]:
    name = os.environ.get(WRITER, "")
    if not name:
        return lambda survey, text: text
    module, _, function = name.partition(":")
    try:
        found: Callable[[Survey, str], str] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArchitectError(f"{WRITER}={name}: {error}; expected module:function") from error
    return found


# --- Write: whole or not at all, once, and nothing is lost ---


def write(draft: Draft) -> Path:
    """Put the approved text in place, and what it replaces beside it. A second time changes nothing.

    Raises ArchitectError if the file is no longer the one that the approval was about.
    """
    old = _read(draft.target)
    if old == draft.text.encode():
        return draft.target
    if _digest(old) != draft.replaces:
        raise ArchitectError(f"{draft.target} changed while the draft waited: left as it is, draft again")
    if old is not None:
        _put(_kept(draft.target, old), old)
    _put(draft.target, draft.text.encode())
    return draft.target


def _read(target: Path) -> bytes | None:
    if target.is_dir():
        raise ArchitectError(f"{target} is a folder; the file needs that name")
    return target.read_bytes() if target.exists() else None


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _kept(target: Path, old: bytes) -> Path:
    """Where the replaced text goes: the first name that is free, or that holds just this text."""
    names = (target.with_name(f"{target.name}.{n}.bak") for n in count(1))
    return next(path for path in names if not path.exists() or path.read_bytes() == old)


def _put(path: Path, content: bytes) -> None:
    """A reader, or a crash, finds the old file or the new one, never a part."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


# --- The graph ---

graph = Graph("workspace-architect")

surveyed = graph.node(survey, start=True, blocking=True)
drafted = graph.node(draft, blocking=True)
review = graph.gate("review", asks=question, payload=document, expects=bool)
written = graph.node(write, blocking=True)

graph.edge(surveyed, drafted)
graph.edge(drafted, review)
graph.finish(written)


@graph.transition(review, to=[written])
def decide(reviewed: tuple[Draft, bool]) -> Transition:
    draft, approved = reviewed
    return written.next(draft) if approved else Transition.finish(None)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(shutil.copytree(Path(sysconfig.get_path("stdlib"), "json"), Path(folder, "json")))
        async with Runtime(Path(folder, "flows.db")) as rt:
            outcome = await rt.run(graph, project)
            assert isinstance(outcome, Paused)
            print(f"{outcome.reason} Yes.\n")
            outcome = await outcome.resume(True)
            assert isinstance(outcome, Completed)
            print(outcome.value.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    anyio.run(main)
