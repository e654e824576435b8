"""How is a subject measured: `python -m measures.subjects trips|story MODULE NAME [PATH] [ANSWER]`.

`trips` prints a line when it is ready, then reads numbers and prints a list of so many seconds for each.
`story` prints the value of the story. Both end without tidying up: some libraries keep threads for ever.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator


def rounds() -> Iterator[int]:
    """What the other process asks for; the first number means that this one is ready."""
    print("ready", flush=True)
    for line in sys.stdin:
        yield int(line)


def report(value: object) -> None:
    print(json.dumps(value), flush=True)


def main(what: str, module: str, name: str, path: str = "", answer: str = "") -> None:
    warnings.simplefilter("ignore")  # of libraries that are not ours
    logging.disable(logging.ERROR)
    subject = importlib.import_module(f"{__package__}.{module}")
    if what == "trips":
        subject.trips(name, path or None, rounds(), report)
    else:
        report(subject.tell(name, path, answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
