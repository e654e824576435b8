"""What does a Python value look like as plain JSON? For answers and payloads, which people see."""

from __future__ import annotations

import json
from typing import Any

from quiesce.codec import tags
from quiesce.codec.foreign import Foreign
from quiesce.codec.refusal import Refused
from quiesce.errors import NotSerializable

__all__ = ["jsonable"]


def jsonable(value: object, *, chosen: Any = None, place: str = "value") -> Any:
    """The JSON value for a Python one: models and dataclasses as objects, instants as ISO text.

    Args:
        chosen: its type, where models in it shall have no field that nobody gave them.

    Raises:
        NotSerializable: a part of it has no JSON form.
    """
    if tags.is_plain(value):
        return value
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        if chosen is not None:
            value = Foreign(chosen).adapter.dump_python(value, by_alias=True, exclude_unset=True)
        found = to_jsonable_python(value, inf_nan_mode="constants")
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()  # NaN, or half a character
        return found
    except (PydanticSerializationError, Refused, ValueError) as error:
        raise NotSerializable(f"{place} has no JSON form: {error}", place=place) from None
