"""A document is measured and goes to two reviewers at once; it comes back until both say yes.

                 ┌──> editor ─────┐
    measure ─────┤                ├──> verdict ──> publish
       ^         └──> maintainer ─┘       │
       └────────────── author <───────────┘

Both gates are open at once, and take their answers in any order, from any process. An answer is a `Decision`:
what is none is refused, and the gate stays open. A no goes to the author; then the document is read again.

    python document_pipeline.py                                           the story, in a temporary folder
    flowctl run examples/document_pipeline.py:graph README.md             exits with 75: two holds are open
    flowctl answer HOLD '{"approved": false, "comment": "Too long."}'     from anywhere, in any order
"""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio

from quiesce import Completed, Concurrency, Graph, Hold, JoinInput, Paused, Runtime, Transition


@dataclass(frozen=True, slots=True)
class Document:
    """A Markdown file as it was when it was read, and what can be counted in it."""

    path: Path
    words: int
    words_per_sentence: float
    headings: tuple[str, ...]
    broken_links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    approved: bool
    comment: str = ""


Review = tuple[Document, Decision]  # what a gate gives: its input, and the answer

graph = Graph("document-pipeline", concurrency=Concurrency.PARALLEL)  # so that both gates are open at once


@graph.node(start=True)
def measure(path: Path) -> Document:
    text = re.sub(r"(?ms)^(```|~~~).*?^\1|`[^`\n]*`", "", path.read_text(encoding="utf-8"))  # without code
    links, prose = re.findall(r"\]\(([^)#\s]+)", text), re.sub(r"\]\([^)]*\)", "]", text)
    words = re.findall(r"\w[\w'-]*", prose)
    sentences = [text for text in re.split(r"[.!?](?=\s)|\n\s*\n", prose) if re.search(r"\w", text)]
    return Document(
        path=path.resolve(),  # another process may go on from another directory
        words=len(words),
        words_per_sentence=round(len(words) / max(1, len(sentences)), 1),
        headings=tuple(re.findall(r"(?m)^#+ +(.+)$", prose)),
        broken_links=tuple(link for link in links if ":" not in link and not (path.parent / link).exists()),
    )


def figures(document: Document) -> str:
    return (
        f"{document.path.name}: {document.words} words, {document.words_per_sentence} to a sentence; "
        f"{len(document.headings)} headings; broken links: {', '.join(document.broken_links) or 'none'}"
    )


editor = graph.gate("editor", asks=figures, payload=lambda document: document, expects=Decision)
maintainer = graph.gate("maintainer", asks=figures, payload=lambda document: document, expects=Decision)


@graph.node
def verdict(reviews: JoinInput[Review]) -> list[Review]:
    return list(reviews)


def wishes(reviews: list[Review]) -> str:
    comments = [decision.comment for _, decision in reviews if not decision.approved]
    return f"What did you change in {reviews[0][0].path.name}? Asked for: {'; '.join(comments)}"


author = graph.gate("author", asks=wishes, payload=lambda reviews: reviews[0][0], expects=str)


@graph.node
def publish(reviews: list[Review]) -> Path:
    """Put the report beside the document. To write it twice does no harm."""
    document = reviews[0][0]
    report = document.path.with_suffix(".review.txt")
    lines = [figures(document), *(f"approved: {decision.comment}" for _, decision in reviews)]
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return report


@graph.transition(measure, to=[editor, maintainer, verdict])
def to_both(document: Document) -> Transition:
    return Transition.fan_out([editor.next(document), maintainer.next(document)], join=verdict)


@graph.transition(verdict, to=[author, publish])
def decide(reviews: list[Review]) -> Transition:
    agreed = all(decision.approved for _, decision in reviews)
    return publish.next(reviews) if agreed else author.next(reviews)


@graph.transition(author, to=[measure])
def again(answered: tuple[list[Review], str]) -> Transition:
    return measure.next(answered[0][0][0].path)


graph.join(editor, into=verdict)
graph.join(maintainer, into=verdict)
graph.finish(publish)


def reply(hold: Hold) -> object:
    """Two reviewers and an author who go by rules. People use `flowctl answer`."""
    path, words, broken = (hold.payload[name] for name in ("path", "words", "broken_links"))
    match hold.path.partition("#")[0]:
        case "editor":
            return Decision(True, f"{words // 200 + 1} min to read")
        case "maintainer":
            return Decision(not broken, f"{len(broken)} broken links")
        case _:
            text = Path(path).read_text(encoding="utf-8")
            for link in broken:
                text = text.replace(f"]({link})", "]")
            Path(path).write_text(text, encoding="utf-8")
            return f"took out {len(broken)} links"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(Path(__file__).parent / "README.md", folder)  # from there its links lead nowhere
        async with Runtime(Path(folder, "flows.db")) as rt:
            outcome = await rt.run(graph, Path(copy))
            while isinstance(outcome, Paused):
                hold = outcome.holds[-1]  # any of them
                print(f"{hold.path}: {hold.reason}\n  -> {(answer := reply(hold))}")
                outcome = await outcome.resume(answer, hold=hold.id)
            assert isinstance(outcome, Completed)
            print(f"\n{outcome.value.name}:\n{outcome.value.read_text(encoding='utf-8')}", end="")


if __name__ == "__main__":
    anyio.run(main)
