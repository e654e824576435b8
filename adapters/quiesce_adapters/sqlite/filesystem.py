"""Can a store live at this path?

Locks decide who lives and whose turn it is, and network file systems lie about them; so such a place is
refused instead of being trusted. Source: spec engine, 6; the SQLite documentation on WAL.
"""

from __future__ import annotations

from pathlib import Path

from quiesce.errors import StoreMismatch

__all__ = ["file_system", "refuse_unusable"]

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs"}
)

MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux tells what is mounted where."""


def refuse_unusable(path: Path) -> None:
    """Refuse a path that cannot hold a store.

    Raises:
        StoreMismatch: it is a folder, its folder does not exist, or it is on a network file system.
    """
    if path.is_dir():
        raise StoreMismatch(f"{path} is a folder; a store is a file: name one in it")
    if not path.parent.is_dir():
        raise StoreMismatch(f"the folder {path.parent} does not exist, so no store can be made in it")
    kind = file_system(path.resolve().parent)
    if kind in NETWORK:
        raise StoreMismatch(
            f"{path} is on a network file system ({kind}), where locks cannot be trusted; "
            "put the store on a local disk"
        )


def file_system(folder: Path) -> str | None:
    """The type of the file system that a folder is on, as Linux names it; None elsewhere."""
    try:
        mounts = MOUNTS.read_text("utf-8", errors="replace")
    except OSError:
        return None
    best, kind = "", None
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = (
            point == "/" or str(folder.resolve()) == point or str(folder.resolve()).startswith(point + "/")
        )
        if inside and len(point) >= len(best) and right:
            best, kind = point, right.split()[0]
    return kind
