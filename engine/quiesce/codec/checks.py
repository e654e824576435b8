"""Does a value from outside fit what is declared: an input, an answer, a word on the command line?

Nothing is converted with a loss: "3" is no int, 3 is a fine float, 3.7 is no int, True is no int.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from types import NoneType
from typing import Any, get_args

from quiesce.codec.annotations import resolve
from quiesce.codec.containers import Choice
from quiesce.codec.foreign import Foreign
from quiesce.codec.leaves import Member, OneOf, Scalar, Tagged, Undeclared
from quiesce.codec.plan import Plan, plan_for
from quiesce.codec.refusal import Refused, one_line, short
from quiesce.errors import InputRejected

__all__ = ["coerce_text", "validate", "validate_json"]


def validate(value: Any, declared: Any, *, place: str = "input", from_json: bool = False) -> Any:
    """The value, as given by Python code, if it fits; an int for a float becomes one.

    With `from_json` it came from JSON instead, see `validate_json`.

    Raises:
        InputRejected: it does not fit; says what was expected, what came, and where.
    """
    return _accepted(lambda: plan_for(declared).accept(value, from_json), place)


def validate_json(value: Any, declared: Any, *, place: str = "answer") -> Any:
    """The value of the declared type that a JSON value stands for.

    Dates, paths and ids are text, tuples and sets lists, models and dataclasses objects, enums their
    values. A value that already is of the type is right too.

    Raises:
        InputRejected: it does not fit.
    """
    return _accepted(lambda: plan_for(declared).accept(value, True), place)


def coerce_text(text: str, declared: Any, *, place: str = "input") -> Any:
    """The value that a word on the command line stands for; containers and models are JSON.

    Raises:
        InputRejected: it stands for none.
    """
    return _accepted(lambda: _from_text(text, plan_for(resolve(declared)), plan_for(declared)), place)


def _accepted(accept: Callable[[], Any], place: str) -> Any:
    try:
        return accept()
    except Refused as refused:
        raise InputRejected(f"{refused.place(place)}: {one_line(refused.why)}") from None
    except RecursionError:
        raise InputRejected(f"{place}: it is nested too deeply") from None


# --- a word on the command line ------------------------------------------------------------------------


_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def _from_text(text: str, plan: Plan, whole: Plan) -> Any:
    """`plan` is what the text is read as; `whole` has the constraints too, which the value must meet."""
    value = _read_text(text, plan)
    return whole.accept(value, True) if whole is not plan else value


def _read_text(text: str, plan: Plan) -> Any:
    if isinstance(plan, Undeclared):
        return text
    if isinstance(plan, Scalar):
        return _scalar_from_text(text, plan)
    if isinstance(plan, Member):
        return _enum_from_text(text, plan)
    if isinstance(plan, OneOf):
        for each in get_args(plan.declared):
            told = each.value if isinstance(each, Enum) else each
            if text == (told if isinstance(told, str) else json.dumps(told, default=str)):
                return each
        raise plan.unfit(text)
    if isinstance(plan, Choice):
        return _choice_from_text(text, plan)
    if isinstance(plan, Tagged):
        return plan.accept(text, True)
    if isinstance(plan, Foreign):
        try:  # a URL, an address: text is their JSON form
            return plan.accept(text, True)
        except Refused as refused:
            try:
                return plan.accept(json.loads(text), True)
            except ValueError:
                raise refused from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"expected {plan.name} as JSON, got {short(text)}: {error}") from None
    return plan.accept(value, True)


def _scalar_from_text(text: str, plan: Scalar) -> Any:
    kind = plan.declared
    word = text.strip()
    if kind is str:
        return text
    if kind is bool and word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if kind is NoneType and word.lower() in ("", "null", "none"):
        return None
    if kind in (int, float) and "_" not in word:
        try:
            return kind(word)
        except ValueError:
            pass
    raise plan.unfit(text)


def _enum_from_text(text: str, plan: Member) -> Any:
    for told in (lambda each: str(each.value), lambda each: each.name):
        for member in plan.declared:
            if told(member) == text:
                return member
    return plan.accept(text, True)  # says which there are


def _choice_from_text(text: str, plan: Choice) -> Any:
    # Text fits str always, and "null" may be meant as text, so these two come last; 1 is a number first.
    order = {int: 0, float: 1, bool: 2, str: 8, NoneType: 9}
    problem: Refused | None = None
    for member in sorted(plan.members.values(), key=lambda each: order.get(each.declared, 4)):
        try:
            return _from_text(text, plan_for(resolve(member.declared)), member)
        except Refused as refused:
            problem = refused
    raise problem if problem is not None and plan.sole is not None else plan.unfit(text)
