"""Values at the border: how they become bytes and come back, and whether they fit what is declared.

Bytes are JSON. A value that a type was declared for is restored by that type (`plan.py`); where nothing
is declared, tags say which builtin it was (`tags.py`). A type named in the data is never imported. What
would not come back with the same bytes and the same type is refused at save, so a store never holds what
cannot be loaded. `checks.py` and `schemas.py` answer whether a value from outside fits, `annotations.py`
whether two annotations can. pydantic and jsonschema are imported where a value needs them and not before:
pydantic alone is 130 ms of start-up.
"""

from quiesce.codec.annotations import fits, type_name
from quiesce.codec.checks import coerce_text, validate, validate_json
from quiesce.codec.jsonable import jsonable
from quiesce.codec.schemas import check_schema, schema
from quiesce.codec.stored import decode, digest, encode, plain

__all__ = [
    "check_schema",
    "coerce_text",
    "decode",
    "digest",
    "encode",
    "fits",
    "jsonable",
    "plain",
    "schema",
    "type_name",
    "validate",
    "validate_json",
]
