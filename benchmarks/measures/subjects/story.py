"""The same work for all: one effect, a question, an effect that has the answer. What was done is in a file.

    reserve()                   appends `reserve` to the file
    answer = a question
    return charge(answer)       appends `charge <answer>` to the file

Whoever watches can have the process stand still in one place, to kill it there: after an effect and before
its library has recorded it, at the question, or once the answer was acknowledged.
"""

from __future__ import annotations

import os
import sys

__all__ = ["PLACES", "happen", "happened", "reach"]

PLACES = ("reserve", "asks", "answered", "charge")


def happen(effect: str) -> None:
    """An effect: it cannot be taken back, and is done twice if this is called twice."""
    with open(os.environ["STORY_FILE"], "a", encoding="utf-8") as file:
        file.write(effect + "\n")
    reach(effect.split()[0])


def happened(effect: str) -> bool:
    """Whether it was done, for what can look before it does it again."""
    try:
        with open(os.environ["STORY_FILE"], encoding="utf-8") as file:
            return effect in file.read().splitlines()
    except FileNotFoundError:
        return False


def reach(place: str) -> None:
    """Stand still here for good, if this is the place to be killed at."""
    if os.environ.get("STORY_PLACE") == place:
        print("there", flush=True)
        sys.stdin.read()
