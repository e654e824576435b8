"""A team that releases a small Python package: a coordinator plans, members do it with real processes.

    python examples/team_release.py                         the story, with a package of its own
    flowctl run examples/team_release.py:release FOLDER     exits with 75 when it asks

FOLDER has a `pyproject.toml` (with a version), a package and a `HISTORY` of one change a line. The scribe
raises the version and writes CHANGELOG.md, the tester runs what is in `tests` with `unittest`, the builder
makes a wheel by hand (a wheel is a zip) and looks at what is in it, and before the result is published a
person is asked. Every task is done once, whoever is killed in between: what has an effect is a step.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import anyio

from quiesce import Completed, Paused, Runtime, Team, Turn, agent, step

PACKAGE = {
    "pyproject.toml": '[project]\nname = "tally"\nversion = "1.2.0"\n',
    "HISTORY": "count words, not letters\nan empty text has no words\n",
    "tally/__init__.py": "def words(text: str) -> int:\n    return len(text.split())\n",
    "tests/__init__.py": "",
    "tests/test_tally.py": (
        "import unittest\nimport tally\n\n\nclass Words(unittest.TestCase):\n"
        "    def test_counts(self):\n        self.assertEqual(tally.words('one two'), 2)\n"
    ),
}


def journal(folder: Path, what: str) -> None:
    """Say that an effect happened; the test counts these lines."""
    with (folder / "release.log").open("a", encoding="utf-8") as file:
        file.write(what + "\n")


@step
def raise_version(folder: Path) -> str:
    """Raise the last part of the version; one that is raised already stays."""
    path = folder / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    name, old = re.findall(r'^(?:name|version) = "(.*)"$', text, re.MULTILINE)
    changelog = folder / "CHANGELOG.md"
    if changelog.exists() and changelog.read_text(encoding="utf-8").startswith(f"# {name} {old}\n"):
        return str(old)  # a process died between this and its record
    major, minor, patch = old.split(".")
    new = f"{major}.{minor}.{int(patch) + 1}"
    changes = (folder / "HISTORY").read_text(encoding="utf-8").splitlines()
    changelog.write_text(f"# {name} {new}\n\n" + "".join(f"- {line}\n" for line in changes), encoding="utf-8")
    path.write_text(text.replace(f'"{old}"', f'"{new}"'), encoding="utf-8")
    journal(folder, f"version {new}")
    return new


@step
def run_tests(folder: Path) -> str:
    """Run the tests of the package in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    journal(folder, f"tests {done.returncode}")
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stderr.strip().splitlines()[-1]


@step
def build_wheel(folder: Path, version: str) -> Path:
    """Put the package into a wheel."""
    (name,) = re.findall(r'^name = "(.*)"$', (folder / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    facts = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted((folder / name).rglob("*.py")):
            archive.writestr(path.relative_to(folder).as_posix(), path.read_bytes())
        archive.writestr(f"{facts}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{facts}/RECORD", "")
    journal(folder, f"wheel {wheel.name}")
    return wheel


@step
def contents(wheel: Path) -> list[str]:
    """What is in a wheel, asked of the `zipfile` command."""
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True
    )
    return [line.split()[0] for line in listed.stdout.splitlines()[1:]]


@step
def publish(wheel: Path) -> str:
    """Put the wheel where people find it, with its digest beside it."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    shelf = wheel.parent / "published"
    shelf.mkdir(exist_ok=True)
    (shelf / wheel.name).write_bytes(wheel.read_bytes())
    (shelf / f"{wheel.name}.sha256").write_text(digest + "\n", encoding="utf-8")
    journal(wheel.parent, f"published {wheel.name}")
    return digest


async def plan(turn: Turn) -> None:
    """The whole plan at once; then wait until it is done, or say what went wrong."""
    tasks = turn.tasks()
    if not tasks:
        folder = str(turn.prompt)
        version = turn.create_task("raise the version", goal=folder, owner="scribe")
        tests = turn.create_task("run the tests", goal=folder, owner="tester", after=[version])
        wheel = turn.create_task("build the wheel", goal=folder, owner="builder", after=[version])
        turn.create_task("publish", goal=folder, owner="builder", after=[tests, wheel])
    elif any(task.state == "failed" for task in tasks):
        turn.finish({task.title: task.reason for task in tasks if task.state == "failed"})
    elif all(task.state == "completed" for task in tasks):
        turn.finish({task.title: task.result for task in tasks})


def folder_of(turn: Turn) -> Path:
    assert turn.task is not None
    return Path(turn.task.goal or ".")


async def scribe(turn: Turn) -> str:
    return raise_version(folder_of(turn))


async def tester(turn: Turn) -> str:
    return run_tests(folder_of(turn))


@agent
def builder(turn: Turn) -> str:
    """Build and check; publish only after a yes that has seen what is in the wheel."""
    done = {task.title: task.result for task in turn.tasks()}
    if turn.task is not None and turn.task.title == "build the wheel":
        return str(build_wheel(folder_of(turn), done["raise the version"]))
    wheel = Path(done["build the wheel"])
    shown = {"wheel": wheel.name, "contents": contents(wheel), "tests": done["run the tests"]}
    if not turn.pause(f"publish {wheel.name}?", expects=bool, payload=shown):
        turn.fail("nobody wanted it published")
        return ""
    return publish(wheel)


release = Team(
    "release",
    coordinator=plan,
    members={"scribe": scribe, "tester": tester, "builder": builder},
    input=str,
)


def make_package(folder: Path) -> None:
    """The package that the story releases."""
    for name, text in PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_package(folder)
        async with Runtime(folder / "flows.db") as runtime:
            outcome = await runtime.run(release, str(folder), run_id="release")
            assert isinstance(outcome, Paused)
            (hold,) = outcome.holds
            print(hold.reason, hold.payload["contents"])
            for turn in await outcome.run.turns():
                print(f"  {turn.participant} {turn.kind} {turn.state}")
        async with Runtime(folder / "flows.db") as runtime:  # another process, days later
            await runtime.answer(hold.id, True)
            value = await (await runtime.get("release")).result()
            print(Completed(value).value["raise the version"], "is published")
        print((folder / "release.log").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    anyio.run(main)
