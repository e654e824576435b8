"""What should a newcomer to this project read first? The text of its ARCHITECTURE.md, from a `Survey` alone.

`architecture` writes it; the other functions each write a section, or work out what the imports say about the
structure. The same survey gives the same text. `workspace_architect.py` is the flow that this is a part of.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from workspace_survey import Module, Survey, is_package

MAX_NODES, MAX_ROWS = 25, 30  # what a reader can still follow in one diagram, in one table

# --- The document, section by section ---


class Picture:
    """A survey, and what follows from it. Each section of the document draws on it."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.modules = {module.name: module for module in survey.modules}
        # What the project is about; everything, if it is nothing but tests and scripts.
        self.core = {name: m for name, m in self.modules.items() if m.role == "core"} or self.modules
        self.loads = edges(self.core.values(), "load", "conditional")
        self.later = edges(self.core.values(), "lazy", "typing")
        both = (self.loads[name] | self.later[name] for name in self.core)
        self.importers = Counter(chain.from_iterable(both))  # of a module: how many others import it
        self.users = Counter[tuple[str, str]]()  # of a (module, definition): how many import it by name
        for module in survey.modules:
            self.users.update({(self.home(i.target, name), name) for i in module.imports for name in i.names})

    def home(self, module: str, name: str) -> str:
        """Where `name` is defined, past the modules that only pass it on."""
        for _ in range(9):
            found = self.modules.get(module)
            if found is None or any(d.name == name for d in found.definitions):
                break
            module = next((i.target for i in found.imports if name in i.names), module)
        return module


def architecture(survey: Survey) -> str:
    """The whole document, from the facts alone."""
    p = Picture(survey)
    sections = {
        f"# The architecture of {plain(survey.name)}": opening(p),
        "## Where to start reading": reading_order(p),
        "## How it is run": entry_points(p),
        "## How it is laid out": layout(p),
        "## How the parts depend on each other": dependencies(p),
        "## What each module answers": answers(p),
        "## Names to know": names(p),
        "## What it needs from outside": outside(p),
        "## Tests": tests(p),
        "## What this leaves out": gaps(p),
    }
    written = {title: "\n".join(lines) for title, lines in sections.items()}
    return "\n\n".join(f"{title}\n\n{text.strip()}" for title, text in written.items() if text) + "\n"


def opening(p: Picture) -> Iterator[str]:
    for text in p.survey.purpose or ["Nothing says what it is for: no README, description or docstring."]:
        yield f"{plain(text)}\n"
    tests = [module for module in p.survey.modules if module.tests]
    lines = sum(module.code_lines for module in p.core.values())
    facts = [number(len(p.core), "module"), f"{number(lines, 'line')} of code"]
    if tests:
        facts.append(f"{number(sum(m.tests for m in tests), 'test')} in {number(len(tests), 'file')}")
    if p.survey.python:
        facts.append(f"Python {p.survey.python}")
    yield f"{'; '.join(facts)}. Drafted by reading the source; nothing was run."


def reading_order(p: Picture) -> Iterator[str]:
    steps: dict[str, str] = {}
    for entry in p.survey.entry_points:
        name = entry.target.partition(":")[0]
        if entry.kind == "command" and name in p.core and len(steps) < 3:
            steps.setdefault(name, f"{code(entry.name)} starts here")
    faces = (name for name in p.core if "." not in name and p.loads[name] and is_package(p.core[name]))
    for name in frequent(Counter({name: p.importers[name] for name in faces}))[:4]:
        steps.setdefault(name, "what a user of the package imports")
    words = Counter({name: 0 for name in p.core if p.importers[name] > 1 and name not in steps})
    for name in words:  # a vocabulary is classes, if there are any
        classes = (d.name for d in p.core[name].definitions if d.kind == "class")
        words[name] = 1000 * max((p.users[name, cls] for cls in classes), default=0) + p.importers[name]
    for name in sorted(frequent(words)[:5], key=arrange(p.loads).index):
        steps[name] = f"the vocabulary, imported by {number(p.importers[name], 'module')}"
    sizes = Counter({name: module.code_lines for name, module in p.core.items()})
    for name in frequent(sizes)[:3]:
        steps.setdefault(name, f"much of the work, {number(sizes[name], 'line')} of code")
    for n, (name, why) in enumerate(steps.items(), 1):
        yield f"{n}. {code(p.core[name].path)}: {why}. {answer(p, p.core[name])}".strip()
    tests = Counter({module.path: module.tests for module in p.survey.modules if module.tests})
    for path in frequent(tests)[:1]:
        yield f"{len(steps) + 1}. {code(path)}: the code in use, in {number(tests[path], 'test')}."


def answer(p: Picture, module: Module) -> str:
    """What a module is for: in its own words, or by what is most used and largest in it."""
    found = sorted(module.definitions, key=lambda d: (-p.users[module.name, d.name], -d.lines, d.name))
    main = max(found, key=lambda d: d.lines, default=None)
    passed = Counter({i.target: len(i.names) for i in module.imports if i.origin == "project"})
    if module.summary:
        return plain(module.summary)
    if passed and is_package(module):
        return f"What is public here? What it passes on from {some(frequent(passed), 4)}."
    if main and main.summary and (len(found) == 1 or main.lines * 2 > module.lines):
        asks = f"What is {code(main.name)}?" if main.kind == "class" else f"What does {code(main.name)} do?"
        return f"{asks} {plain(main.summary)}"
    what = some((d.name for d in found), 4)
    if any(d.kind == "class" for d in found):
        return f"What {'are' if len(found) > 1 else 'is'} {what}?"
    return f"What {'do' if len(found) > 1 else 'does'} {what} do?" if found else ""


def entry_points(p: Picture) -> list[str]:
    rows = ((code(entry.name), entry.kind, code(entry.target)) for entry in p.survey.entry_points)
    return table("Start it with, Kind, It starts in", rows)


def layout(p: Picture) -> list[str]:
    rows = []
    for folder, inside in by_folder(p.survey.modules).items():
        face = "".join(m.summary for m in inside if m.path == f"{folder}__init__.py".removeprefix("./"))
        sizes = Counter({m.path.removeprefix(folder): m.code_lines for m in inside})
        rows.append((code(folder), len(inside), sizes.total(), plain(face) or some(frequent(sizes), 4)))
    return table("Folder, Files, Lines of code, What it holds", rows)


def by_folder(modules: Iterable[Module]) -> dict[str, list[Module]]:
    """As deep as one table can show; what only supports the project, not deeper than its top folder."""
    for depth in range(9, -1, -1):
        found: dict[str, list[Module]] = defaultdict(list)
        for module in modules:
            folders = module.path.split("/")[:-1][: 1 if module.role == "support" else depth]
            found["".join(f"{folder}/" for folder in folders) or "./"].append(module)
        if len(found) <= MAX_ROWS:
            break
    return dict(sorted(found.items()))


def dependencies(p: Picture) -> Iterator[str]:
    """The diagram, the same as layers in words, and the cycles."""
    shown = fold(name for name, module in p.core.items() if module.code_lines or p.importers[name])
    loads, later = folded(p.loads, shown), folded(p.later, shown)
    weight = Counter({node: targets.total() for node, targets in loads.items()})
    weight.update(chain.from_iterable(targets.elements() for targets in loads.values()))
    kept = frequent(weight)[:MAX_NODES]
    order = [node for node in arrange(loads) if node in kept]
    yield from mermaid(order, loads, later, Counter(shown.values()))
    yield "\nAn arrow points at what a part needs to load; what follows from other arrows is left out."
    yield "Thick: each needs the other, directly or through others. Dotted: needed later, when it is called."
    if len(loads) > len(kept):
        yield f"Left out: the {number(len(loads) - len(kept), 'part')} with the fewest imports."
    layers: dict[int, list[str]] = defaultdict(list)
    depth: dict[str, int] = {}
    for node in order:
        depth[node] = 1 + max((depth.get(below, 0) for below in loads[node]), default=0)
        layers[depth[node]].append(node)
    yield "\nAs layers, each of which loads only from below it, the cycles aside:\n"
    yield from table("Layer, Parts", ((n, some(sorted(layers[n]), 99)) for n in sorted(layers, reverse=True)))
    knots = [component for component in components(p.loads) if len(component) > 1]
    yield "\n**Import cycles**, each to be understood as one:\n" if knots else "\nThere are no import cycles."
    for knot in knots:
        way = " → ".join(map(code, shortest_cycle(p.loads, knot)))
        yield f"- {way}" + (f", in a knot of {len(knot)}: {some(knot, 12)}" if len(knot) > 2 else "")
    known = {entry.target.partition(":")[0] for entry in p.survey.entry_points} | {*p.importers}
    idle = [n for n, m in p.core.items() if m.code_lines and n not in known and not is_package(m)]
    if idle:
        yield f"\nImported by nothing but tests (for users, loaded by name, or unused): {some(idle, 12)}."


def answers(p: Picture) -> Iterator[str]:
    full = {name: module for name, module in p.core.items() if module.code_lines or module.summary}
    lines, times = sum(module.code_lines for module in full.values()) or 1, p.importers.total() or 1
    weight = {n: -p.importers[n] / times - m.code_lines / lines for n, m in full.items()}
    main = sorted(sorted(full, key=lambda name: (weight[name], name))[:MAX_ROWS])
    rows = ((code(n), answer(p, full[n]), full[n].code_lines, p.importers[n]) for n in main)
    yield from table("Module, What it answers, Lines of code, Imported by", rows)
    if len(full) > len(main):
        yield f"\n{number(len(full) - len(main), 'smaller module')} not shown."


def names(p: Picture) -> list[str]:
    found = [(p.users[m.name, d.name], d, m.name) for m in p.core.values() for d in m.definitions]
    found.sort(key=lambda x: (-x[0], -x[1].lines, x[2], x[1].name))
    rows = ((code(d.name), code(module), users, plain(d.summary)) for users, d, module in found[:20])
    return table("Name, Where, Imported by, What it is", rows)


ROLES = {"core": "", "support": "scripts, docs, examples", "test": "tests"}
MOMENTS = {"load": "", "conditional": "if there, or by version", "lazy": "when called", "typing": "for types"}


def outside(p: Picture) -> Iterator[str]:
    uses: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for module in p.survey.modules:
        for i in (i for i in module.imports if i.origin == "third-party"):
            uses[i.target].append(([*ROLES].index(module.role), [*MOMENTS].index(i.when), module.name))
    rows = []
    for name in sorted(uses):
        role, moment, _ = min(uses[name])  # what matters most
        users = sorted({user for r, _, user in uses[name] if r == role})
        rows.append((code(name), some(users, 3), [*ROLES.values()][role], [*MOMENTS.values()][moment]))
    yield from table("Package, Imported by, For, When", rows) or ["Nothing but the standard library."]
    stdlib = Counter(i.target for m in p.core.values() for i in m.imports if i.origin == "stdlib")
    if stdlib:
        most = ", ".join(f"{code(name)} ({stdlib[name]})" for name in frequent(stdlib)[:10])
        yield f"\nOf the standard library mostly {most}."


def tests(p: Picture) -> list[str]:
    tests = [module for module in p.survey.modules if module.tests]
    groups = {m.path: [m] for m in tests} if len(tests) <= MAX_ROWS else by_folder(tests)
    rows = []
    for path, inside in sorted(groups.items()):
        uses = Counter(i.target for m in inside for i in m.imports if i.target in p.core)
        rows.append((code(path), len(inside), sum(m.tests for m in inside), some(frequent(uses), 5)))
    return table("Where, Files, Tests, What they import", rows)


def gaps(p: Picture) -> Iterator[str]:
    lines = [f"- {code(problem.path)} {plain(problem.what)}" for problem in p.survey.problems]
    missing = {i.target for m in p.survey.modules for i in m.imports if i.origin == "missing"}
    for target in sorted(missing):
        users = [m.name for m in p.survey.modules if any(i.target == target for i in m.imports)]
        lines.append(f"- {code(target)} has no Python source here; imported by {some(users, 3)}")
    yield from lines[:MAX_ROWS]
    if len(lines) > MAX_ROWS:
        yield f"- … and {len(lines) - MAX_ROWS:,} more"
    if ignored := sorted({path.rpartition("/")[2] for path in p.survey.ignored}):
        yield f"- Ignored: {some(ignored, 12)}"


# --- Shape: what the imports say about the structure ---

Edges = dict[str, Counter[str]]  # importer -> imported -> in how many places


def edges(modules: Iterable[Module], *moments: str) -> Edges:
    """Who imports whom at these moments, among these modules."""
    found: Edges = {module.name: Counter() for module in modules}
    for module in modules:
        found[module.name].update(i.target for i in module.imports if i.when in moments and i.target in found)
    return found


def components(graph: Edges) -> list[list[str]]:
    """The strongly connected components, what is imported first. Larger than one: a cycle (Kosaraju)."""
    back: Edges = {node: Counter() for node in graph}
    for node, targets in graph.items():
        for target in targets:
            back[target][node] += 1

    def visit(start: str, ways: Edges, seen: set[str]) -> Iterator[str]:  # depth first, without recursion
        seen.add(start)
        work = [(start, iter(sorted(ways[start])))]
        while work:
            target = next((t for t in work[-1][1] if t not in seen), None)
            if target is None:
                yield work.pop()[0]
            else:
                seen.add(target)
                work.append((target, iter(sorted(ways[target]))))

    seen: set[str] = set()
    done = [node for start in sorted(graph) if start not in seen for node in visit(start, graph, seen)]
    seen.clear()
    return [sorted(visit(start, back, seen)) for start in reversed(done) if start not in seen][::-1]


def arrange(graph: Edges) -> list[str]:
    """What is imported before what imports it; a cycle is cut where the fewest imports go against that."""
    order: list[str] = []
    for component in components(graph):
        left = {node: sum(graph[node][other] for other in component) for node in component}
        while left:
            order.append(min(left, key=lambda node: (left[node], node)))
            del left[order[-1]]
            for node in left:
                left[node] -= graph[node][order[-1]]
    return order


def shortest_cycle(graph: Edges, component: list[str]) -> list[str]:
    ways, seen = [component[:1]], set[str]()
    for way in ways:  # grows while it is walked
        for target in sorted(set(component) & set(graph[way[-1]]) - seen):
            seen.add(target)
            ways.append([*way, target])
    return next(way for way in ways[1:] if way[-1] == component[0])


def fold(names: Iterable[str]) -> dict[str, str]:
    """Module -> what stands for it in the picture: itself, or a package drawn as one (the deepest first)."""
    shown = {name: name for name in names}
    while len(nodes := set(shown.values())) > MAX_NODES:
        parents = Counter(node.rpartition(".")[0] for node in nodes if "." in node)
        if len(tops := {node.partition(".")[0] for node in nodes}) == 1:
            del parents[tops.pop()]  # one box for everything shows nothing
        if not parents:
            break
        whole = max(parents, key=lambda name: (name.count("."), parents[name], name))
        shown = {name: whole if f"{node}.".startswith(f"{whole}.") else node for name, node in shown.items()}
    return shown


def folded(graph: Edges, shown: dict[str, str]) -> Edges:
    found: Edges = {node: Counter() for node in shown.values()}
    for name, targets in graph.items():
        for target, times in targets.items():
            if name in shown and target in shown and shown[name] != shown[target]:
                found[shown[name]][shown[target]] += times
    return found


def mermaid(order: list[str], loads: Edges, later: Edges, sizes: Counter[str]) -> list[str]:
    """A flowchart of the nodes in `order` (what is needed first), with the arrows that say something new."""
    ids = {node: f"m{i}" for i, node in reversed(list(enumerate(order)))}
    down = {node: [t for t in order[:i] if loads[node][t]] for i, node in enumerate(order)}
    up = {(above, node) for i, node in enumerate(order) for above in order[i:] if loads[node][above]}
    reach: dict[str, set[str]] = {}
    for node in order:
        reach[node] = set(down[node]).union(*(reach[below] for below in down[node]))
    nodes: dict[str, list[str]] = defaultdict(list)
    arrows = []
    for node in ids:
        size = f"<br/>{sizes[node]} modules" if sizes[node] > 1 else ""
        nodes[node.partition(".")[0]].append(f'    {ids[node]}["{label(node)}{size}"]')
        for other in ids:
            new = other in down[node] and not any(other in reach[below] for below in down[node])
            lonely = not any(other in targets for targets in loads.values()) and node not in reach[other]
            for arrow, drawn in {
                "<==>": (node, other) in up,
                "-->": new,
                "-.->": lonely and later[node][other],
            }.items():
                if drawn:
                    arrows.append(f"    {ids[node]} {arrow} {ids[other]}")
                    break
    boxes = []
    for i, (top, inside) in enumerate(sorted(nodes.items())):
        boxed = len(nodes) > 1 and len(inside) > 1
        boxes += [f'    subgraph g{i}["{label(top)}"]', *inside, "    end"] if boxed else inside
    return ["```mermaid", "flowchart TD", *boxes, *arrows, "```"]


def label(text: str) -> str:
    """Any text, safe between the quotes of a label."""
    return re.sub(r"[^\w .,/()-]", lambda match: f"#{ord(match[0])};", text)


# --- Text: docstrings and names, whatever they hold, as Markdown that shows just them ---

MARKUP = [  # of reStructuredText and Markdown, down to what both share
    (r":[\w:.+-]+:`[~!]?([^`<]+?)(?: <[^`]*>)?`", r"`\1`"),
    (r"`([^`<]+) <[^`>]+>`__?", r"\1"),
    (r"!?\[([^\[\]]*)\]\([^)]*\)", r"\1"),
    (r"(?<![\w*])\*{1,2}(\w[^*]*)(?<=\w)\*{1,2}(?!\w)", r"\1"),
    (r"``", "`"),
    (r"(?<=`)\\(?=\w)", ""),
]


def plain(text: str) -> str:
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text)
    spans = text.split("`") if text.count("`") % 2 == 0 else [text.replace("`", "'")]
    spans[::2] = [re.sub(r"([\\*_<>\[\]])", r"\\\1", span) for span in spans[::2]]
    return "`".join(spans)


def code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def number(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + "s" * (n != 1)


def some(names: Iterable[str], limit: int) -> str:
    shown = list(names)
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(map(code, shown[:limit])) + more


def frequent(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))


def table(head: str, rows: Iterable[tuple[str | int, ...]]) -> list[str]:
    """A Markdown table, without the columns that are empty throughout; nothing at all without rows."""
    cells = [[f"{c:,}" if isinstance(c, int) else c.replace("|", "\\|") for c in row] for row in rows]
    kept = [i for i, _ in enumerate(head.split(", ")) if any(row[i] for row in cells)]
    lines = [head.split(", "), ["---"] * 9, *cells[:MAX_ROWS]] if cells else []
    more = [f"\n… and {len(cells) - MAX_ROWS:,} more."] if len(cells) > MAX_ROWS else []
    return ["| " + " | ".join(line[i] for i in kept) + " |" for line in lines] + more
