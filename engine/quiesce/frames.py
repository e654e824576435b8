"""Where does a suspended body stand: its call stack as values that a person can read.

Only the frames of user code are shown; a coroutine that waits is followed inwards along what it awaits.

Source: spec agent (`run.frames()`); cases agent S19, S23.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from quiesce.runs import Value

__all__ = ["Frame", "innermost", "stack"]

_LOOPS = {"anyio", "asyncio", "trio"}
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class Frame(Value):
    """One call: where it stands, the text of that line, and its local variables as they are now."""

    file: str
    line: int
    function: str
    source: str
    locals: dict[str, Any]


def stack(innermost: FrameType | None, awaited: Any = None, hidden: tuple[str, ...] = ()) -> list[Frame]:
    """The frames of user code, outermost first.

    Args:
        innermost: of a suspended stack.
        awaited: a coroutine that this stack drives and that is suspended itself.
        hidden: folders whose frames are the mechanism's, besides the engine's own.
    """
    outwards: list[FrameType] = []
    while innermost is not None:
        outwards.append(innermost)
        innermost = innermost.f_back
    frames = [*reversed(outwards), *_inwards(awaited)]
    own = (_OWN, *hidden)
    return [_shown(frame) for frame in frames if not frame.f_code.co_filename.startswith(own)]


def _inwards(awaited: Any) -> Iterator[FrameType]:
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            return
        yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _shown(frame: FrameType) -> Frame:
    code = frame.f_code
    return Frame(
        file=code.co_filename,
        line=frame.f_lineno,
        function=code.co_qualname,
        source=linecache.getline(code.co_filename, frame.f_lineno).strip(),
        locals=dict(frame.f_locals),
    )


def innermost(frame: FrameType | None, awaited: Any = None, hidden: tuple[str, ...] = ()) -> str | None:
    """The line of user code that is innermost in a suspended stack, as `file:line`; arguments as `stack`.

    Of a coroutine that waits it is the last line before the event loop's own code.
    """
    own = (_OWN, *hidden)
    for inner in _inwards(awaited):
        if str(inner.f_globals.get("__name__")).partition(".")[0] in _LOOPS:
            break
        if not inner.f_code.co_filename.startswith(own):
            frame = inner
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
