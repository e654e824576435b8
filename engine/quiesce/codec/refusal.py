"""What is said when a value is refused: where in it, and why, in one line."""

from __future__ import annotations

__all__ = ["Refused", "one_line", "short"]


class Refused(Exception):
    """A value or a piece of stored JSON that does not fit; `path` grows as it passes the containers."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []

    def place(self, root: str) -> str:
        return root + "".join(reversed(self.path))


def short(value: object, limit: int = 80) -> str:
    """`repr(value)` on one line, without control characters, at most `limit` characters."""
    try:
        text = repr(value[:limit] if type(value) in (str, bytes, list, tuple) else value)  # type: ignore[index]
    except Exception:  # a repr of somebody else's; the message matters more than it does
        text = f"<{type(value).__name__}>"
    return one_line(text, limit)


def one_line(text: str, limit: int = 400) -> str:
    """`text` on one line, without control characters, at most `limit` characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"
