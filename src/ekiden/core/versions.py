"""Digests: short names of values, to tell whether something is still what it was."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ekiden.core.tools.tool import FunctionTool

DIGEST_BYTES = 16


def digest(value: Any) -> str:
    """The digest of a JSON value. The order of keys does not count.

    Raises `TypeError` or `ValueError` if the value is not JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


_signatures: WeakKeyDictionary[FunctionTool, str] = WeakKeyDictionary()
_SIGNATURE_LENGTH = 10
NEEDS_APPROVAL = "?"
"""The beginning of the signature of a tool whose calls need approval."""


def tool_signature(tool: FunctionTool) -> str:
    """The digest of everything that a call of the tool depends on: name, description, schema, and
    whether calls need approval. It does not depend on the code of the tool, because a call is
    repeated with corrected code. It is short, because it is stored with each call."""
    known = _signatures.get(tool)
    if known is None:
        parts = [tool.name, tool.description, tool.params_json_schema, bool(tool.confirmation)]
        mark = NEEDS_APPROVAL if tool.confirmation else ""
        known = _signatures[tool] = mark + digest(parts)[:_SIGNATURE_LENGTH]
    return known
