"""How is a subject measured: `python -m measures.subjects MODULE FUNCTION ARGUMENTS…`, all of them text.

It ends without tidying up when the function is done: some libraries keep threads for ever.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings


def main(module: str, function: str, *arguments: str) -> None:
    warnings.simplefilter("ignore")  # of libraries that are not ours
    logging.disable(logging.ERROR)
    getattr(importlib.import_module(f"{__package__}.{module}"), function)(*arguments)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
