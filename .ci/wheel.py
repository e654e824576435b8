"""Does a built wheel hold all of the packages, examples and measures, and nothing else? Does it import?

    python .ci/wheel.py files dist/quiesce-….whl      run in the checkout: the wheel against the tree
    python -I wheel.py imports                        run elsewhere, where the wheel is installed

A build that honours ignore patterns drops data files without a word, so the list is compared whole.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import zipfile
from pathlib import Path

PACKAGES = {"quiesce": "engine", "quiesce_adapters": "adapters", "flowctl": "cli"}
INSIDE_FLOWCTL = (Path("examples"), Path("benchmarks/measures"))
PEERS = "flowctl.measures.subjects.of_"
"""Modules that need what is not installed with the wheel: the extra `bench`."""


def check_files(wheel: Path) -> None:
    """The files of the wheel are the files of the tree, `.sql` and `py.typed` included."""
    expected = {
        path.relative_to(root).as_posix()
        for package, root in PACKAGES.items()
        for path in Path(root, package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected |= {
        f"flowctl/{folder.name}/{path.relative_to(folder).as_posix()}"
        for folder in INSIDE_FLOWCTL
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = zipfile.ZipFile(wheel).namelist()
    found = {name for name in names if ".dist-info/" not in name}
    if expected != found:
        sys.exit(f"not in the wheel: {sorted(expected - found)}\nonly in it: {sorted(found - expected)}")
    needed = {f"{package}/py.typed" for package in PACKAGES}
    if missing := sorted(needed - found):
        sys.exit(f"the tree has no {missing}")
    if not any(name.endswith(".sql") for name in found):
        sys.exit("the tree has no .sql file")
    for suffix in ("/entry_points.txt", "/licenses/LICENSE"):
        if not any(name.endswith(suffix) for name in names):
            sys.exit(f"the wheel has no {suffix[1:]}")
    print(f"{wheel.name}: {len(found)} files, as in the tree")


def check_imports() -> None:
    """Every module comes from where the wheel was installed, and imports without a warning."""
    count = 0
    for package in PACKAGES:
        module = importlib.import_module(package)
        if "site-packages" not in Path(module.__file__ or "").parts:
            sys.exit(f"{package} does not come from the wheel but from {module.__file__}")
        for info in pkgutil.walk_packages(module.__path__, package + "."):
            if not info.name.endswith(".__main__") and not info.name.startswith(PEERS):
                importlib.import_module(info.name)
                count += 1
    print(f"{count} modules imported")


match sys.argv[1:]:
    case ["files", wheel]:
        check_files(Path(wheel))
    case ["imports"]:
        check_imports()
    case _:
        sys.exit(__doc__)
