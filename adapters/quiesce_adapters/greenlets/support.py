"""Can this interpreter suspend call stacks? Not every build of Python keeps what greenlet relies on.

Source: cases failures-durable-engines 80.
"""

from __future__ import annotations

import sys
import sysconfig

__all__ = ["unsupported"]


def unsupported() -> str | None:
    """Why agents cannot be run by this interpreter; None if they can."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return (
            f"agents need greenlet, which crashes on free-threaded builds of Python (this is "
            f"{sys.version.split()[0]}); run them with a build that has the GIL"
        )
    if sys.implementation.name not in ("cpython", "pypy"):
        return f"agents need greenlet, which {sys.implementation.name} does not have; run them with CPython"
    return None
