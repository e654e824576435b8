"""Does `flowctl bench` measure, and say what it found? Nothing is asserted about how long anything took."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from flowctl import figures, plots
from flowctl.main import main
from measures.series import Limit, Series

from .conftest import Shell

COLUMNS = 80


def series(
    subject: str, *samples: float, case: str = "graph, SQLite: until it returns", **facts: Any
) -> Series:
    return Series("fence", case, subject, facts.pop("unit", "s"), samples, **facts)


def quick(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "flowctl", "bench", "--quick", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.slow  # CI takes each measure as a benchmark
def test_a_quick_measurement_summarizes_every_series(tmp_path: Path) -> None:
    """Source: issue 6: `flowctl bench --quick --json`; spec engine, 8: ratios of one run."""
    done = quick(tmp_path, "--backend", "graph", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"at", "scale", "machine", "versions", "series"} == set(told)
    assert {"python", "sqlite", "quiesce"} <= set(told["versions"])
    found = told["series"]
    assert {"limits", "fence", "drain"} <= {each["measure"] for each in found}
    assert "peers" not in {each["measure"] for each in found}
    for each in found:
        assert each["samples"] >= 1
        assert 0 <= each["p50"] <= each["p90"] <= each["p99"] <= each["max"]
    assert not any(each["case"].startswith(("agent", "team")) for each in found)
    counted = [each for each in found if each["case"] == "graph, SQLite: statements of a fence"]
    assert [each["budget"] is not None for each in counted] == [False, True]
    assert counted[1]["budget"]["kept"] is (counted[1]["p50"] <= counted[0]["p50"])
    assert "fence: graph, SQLite full, alone: until it returns, 10" in done.stderr.splitlines()
    assert list(tmp_path.iterdir()) == [], "what was measured on is removed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--backend", "nothing"), "'nothing' is not one of 'graph', 'agent', 'team'"),
        (("--plot", "out.png"), "name a file that ends in .svg or .html"),
        (("--plot", "nowhere/out.svg"), "there is no folder"),
        (("--request-id", "x"), "No such option"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    flowctl: Shell, words: tuple[str, ...], said: str
) -> None:
    """Source: spec engine, 7: usage, exit 2."""
    done = flowctl("bench", *words)
    assert done.code == 2, done
    assert said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--peers",), "the peers need"), (("--plot", "out.svg"), "--plot needs matplotlib")],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """Source: issue 6: the peers come with the extra `bench`."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["bench", *words])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "pip install 'quiesce[bench]'" in done.stderr


@pytest.mark.parametrize(
    ("ours", "limit", "kept", "said"),
    [
        (3.0, Limit("bare", 2), False, "at most 2 x bare (P50): 3, missed by 50%"),
        (2.0, Limit("bare", 2), True, "at most 2 x bare (P50): 2, kept"),
        (
            0.5,
            Limit("bare", 4, faster=True),
            False,
            "at least 4 times faster than bare (P50): 2, missed by 50%",
        ),
        (0.1, Limit("bare", 4, faster=True), True, "at least 4 times faster than bare (P50): 10, kept"),
        (0.9, Limit("bare", 1, "p90"), True, "at most bare (P90): 0.9, kept"),
    ],
)
def test_a_budget_is_kept_or_missed_by_a_share(ours: float, limit: Limit, kept: bool, said: str) -> None:
    """Source: spec engine, 8: budgets are ratios in one run."""
    one = series("quiesce", ours, size=10, limit=limit)
    found = figures.budget(one, [series("bare", 1.0, size=10), series("bare", 100.0, size=100), one])
    assert found is not None
    assert (found.kept, str(found)) == (kept, said)


def test_a_budget_beside_nothing_is_no_budget() -> None:
    """What was not measured beside it says nothing."""
    assert figures.budget(series("quiesce", 1.0, limit=Limit("bare", 2)), []) is None


def sample() -> Iterator[Series]:
    for size in (10, 10_000):
        ours = [0.001 * number for number in range(1, 100)]
        yield series("quiesce", *ours, size=size, limit=Limit("bare", 2, "p90"))
        yield series("bare", *(each / 10 for each in ours), size=size, note="12 rows")
    case = "team, SQLite full, beside what has a name that needs more than one line of eighty letters to tell"
    yield series("quiesce", 0.0, 0.0, case=case)
    yield series("LangGraph functions, with a long name", 0.5, 123.4, case=case, note="langgraph 1.2, " * 9)
    yield series("quiesce", 7_000.0, case="graph, SQLite: bytes", unit="B")


def test_a_table_is_read_at_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Source: issue 6: tables a person can read."""
    figures.show(list(sample()))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
    of_bare = next(line for line in lines if line.split()[:2] == ["10", "bare"])
    assert of_bare.split()[2:] == ["5", "ms", "9", "ms", "9.9", "ms", "9.9", "ms", "10", "x"]
    assert "BUDGETS: 0 of 2 kept" in lines


@pytest.mark.parametrize("suffix", plots.SUFFIXES)
def test_a_plot_is_one_file_that_needs_no_other(tmp_path: Path, suffix: str) -> None:
    """Source: issue 6: plots of latency distributions and growth."""
    path = tmp_path / f"out{suffix}"
    plots.draw(path, list(sample()))
    text = path.read_text(encoding="utf-8")
    svg = ElementTree.fromstring(text[text.index("<svg") :] if suffix == ".html" else text)
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    refers = {
        value for element in svg.iter() for name, value in element.attrib.items() if name.endswith("href")
    }
    assert refers
    assert all(value.startswith("#") for value in refers)
    drawn = {element.get("id") for element in svg.iter()}
    assert {"axes_1", "axes_2"} <= drawn, "a distribution and a growth"
