"""JSON Schemas as the strict mode of OpenAI's API wants them."""

from typing import Any
from urllib.parse import unquote

from ekiden.core.tools.tool import ensure_strict_json_schema as ensure_strict_json_schema


def is_dict(obj: object) -> bool:
    """Whether it is a dictionary."""
    return isinstance(obj, dict)


def is_list(obj: object) -> bool:
    """Whether it is a list."""
    return isinstance(obj, list)


def has_more_than_n_keys(obj: dict[str, object], n: int) -> bool:
    """Whether the dictionary has more than `n` keys."""
    return len(obj) > n


def resolve_ref(*, root: dict[str, object], ref: str) -> object:
    """The part of a schema that a ``$ref`` names."""
    if not ref.startswith("#/"):
        raise ValueError(f"a $ref begins with #/, unlike {ref!r}")
    found: Any = root
    for part in unquote(ref[2:], errors="strict").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found
