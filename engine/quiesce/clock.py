"""Where time, ids, randomness and the process's identity come from.

Nothing else in quiesce asks the operating system for any of them (a test holds it), so one object
decides what a test, a replay or a simulation sees. Ownership is never decided by time: leases and
generations are integers.
"""

from __future__ import annotations

import base64
import getpass
import os
import random as _random
import socket
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID, uuid4

import anyio

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """One source of time, ids, randomness and process identity."""

    def now(self) -> datetime:
        """The instant, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. For durations inside one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""
        ...

    def new_id(self, prefix: str) -> str:
        """A fresh id such as `run-3f9c…`: the prefix, a dash, 16 characters of 0-9a-v (80 bits)."""
        ...

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def uuid(self) -> UUID:
        """A random UUID (version 4)."""
        ...

    def pid(self) -> int:
        """The id of this process (another one after a fork)."""
        ...

    def host(self) -> str:
        """The name of this machine."""
        ...

    def actor(self) -> str:
        """Who acts when nobody is named: `user@host`."""
        ...


class SystemClock:
    """The real thing."""

    def __init__(self) -> None:
        self._random = _random.SystemRandom()
        self._host = socket.gethostname()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}-{base64.b32hexencode(os.urandom(10)).decode().lower()}"

    def random(self) -> float:
        return self._random.random()

    def uuid(self) -> UUID:
        return uuid4()

    def pid(self) -> int:
        return os.getpid()

    def host(self) -> str:
        return self._host

    def actor(self) -> str:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container user without a name
            user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
        return f"{user}@{self._host}"


class ManualClock(SystemClock):
    """A clock that a test moves; ids count up, randomness is seeded."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC), seed: int = 0) -> None:
        super().__init__()
        self._now = start
        self._monotonic = 0.0
        self._count = 0
        self._advanced = anyio.Event()
        self._seeded = _random.Random(seed)

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds`."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
        self._advanced.set()
        self._advanced = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        until = self._monotonic + seconds
        while self._monotonic < until:
            await self._advanced.wait()

    def set_wall(self, now: datetime) -> None:
        """Set the wall clock alone, as an operator or NTP would."""
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def new_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:016d}"

    def random(self) -> float:
        return self._seeded.random()

    def uuid(self) -> UUID:
        return UUID(int=self._seeded.getrandbits(128), version=4)
