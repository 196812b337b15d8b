"""Memories as search entries: their limits, their form and their space."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from unicodedata import category

from ekiden.core.errors import UserError
from ekiden.core.errors.memory import MemoryInvalid, MemoryTooLarge, NoMemory
from ekiden.core.profile import MemoryScope
from ekiden.core.roles import FoundBy, MemoryRecord
from ekiden.core.values import dumps, loads
from ekiden.storage.base import SearchEntry

MAX_KEY = 512
"""The maximum length of a key, in characters."""
MAX_CONTENT = 64 * 1024
"""The maximum size of a content, in bytes of UTF-8."""
MAX_METADATA = 16 * 1024
"""The maximum size of metadata, in bytes of JSON."""
MAX_TOP_K = 100

_UNFIT = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that a key cannot have."""
_REPLACEMENT = "\ufffd"


def checked_key(key: object) -> str:
    """The key without surrounding space; raises `MemoryInvalid` or `MemoryTooLarge`."""
    if not isinstance(key, str) or not key.strip():
        raise MemoryInvalid(f"a key must be a text that is not blank, not {key!r:.80}")
    key = key.strip()
    if len(key) > MAX_KEY:
        raise MemoryTooLarge("the key", len(key), limit=MAX_KEY, unit="characters")
    if not _UNFIT.isdisjoint(map(category, key)):
        raise MemoryInvalid(f"the key {key[:80]!r} has control characters, or halves of others")
    return key


def checked_content(content: object) -> str:
    """The content with replaced single surrogates and NUL, which some stores cannot keep; raises
    `MemoryInvalid` or `MemoryTooLarge`."""
    if not isinstance(content, str) or not content.strip():
        raise MemoryInvalid(f"a memory must be a text that is not blank: {content!r:.80}")
    content = content.replace("\x00", _REPLACEMENT)
    try:
        raw = content.encode()
    except UnicodeEncodeError:
        content = "".join(_REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in content)
        raw = content.encode()
    if len(raw) > MAX_CONTENT:
        raise MemoryTooLarge("the content", len(raw), limit=MAX_CONTENT)
    return content


def checked_metadata(metadata: object) -> dict[str, Any]:
    """A copy of the metadata; raises `MemoryInvalid` unless it is a JSON object."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise MemoryInvalid(f"`metadata` must be a JSON object, not {type(metadata).__name__}")
    try:
        text = dumps(dict(metadata))
    except (TypeError, ValueError, RecursionError) as exc:
        raise MemoryInvalid(f"`metadata` is not JSON: {exc!s:.200}") from exc
    size = len(text.encode())
    if size > MAX_METADATA:
        raise MemoryTooLarge("`metadata`", size, limit=MAX_METADATA)
    copied: dict[str, Any] = loads(text)
    return copied


def key_of(content: str) -> str:
    """The key of a content that is stored without a key; it is the same for the same words."""
    words = " ".join(content.split())
    return f"note-{sha256(words.encode()).hexdigest()[:16]}"


def checked_top_k(top_k: int) -> int:
    """`top_k`; raises `UserError` unless it is from 1 to `MAX_TOP_K`."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise UserError(f"`top_k` must be from 1 to {MAX_TOP_K}, not {top_k!r:.40}")
    return top_k


def checked_threshold(threshold: float | None) -> float | None:
    """`threshold`; raises `UserError` unless it is from 0 to 1."""
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise UserError(f"`threshold` must be a number from 0 to 1, not {threshold!r:.40}")
    if not 0 <= threshold <= 1:
        raise UserError(f"`threshold` must be from 0 to 1, not {threshold!r:.40}")
    return float(threshold)


def entry_of(
    space: str,
    key: str,
    content: str,
    metadata: Mapping[str, Any],
    *,
    agent: str | None,
    stored_at_us: int,
) -> SearchEntry:
    """The search entry of a memory, without a vector.

    A chosen key and the tags are put above the content, so that searches find them.
    """
    tags = [tag for tag in _listed(metadata.get("tags")) if isinstance(tag, str)]
    words = [] if key == key_of(content) else [key]
    heading = " ".join([*words, *(_storable(tag) for tag in tags)])
    text = f"{heading}\n{content}" if heading else content
    body: dict[str, Any] = {"v": 1, "at": stored_at_us, "head": len(text) - len(content)}
    if metadata:
        body["meta"] = dict(metadata)
    if agent is not None:
        body["by"] = agent
    return SearchEntry(space=space, key=key, text=text, body=body)


def memory_record(
    entry: SearchEntry, *, score: float | None = None, found_by: FoundBy | None = None
) -> MemoryRecord:
    """The memory of a search entry."""
    body = entry.body if isinstance(entry.body, dict) else {}
    return MemoryRecord(
        key=entry.key,
        content=entry.text[body.get("head", 0) :],
        metadata=body.get("meta", {}),
        score=score,
        found_by=found_by,
        stored_at_us=body.get("at", entry.updated_at_us),
        agent=body.get("by"),
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", " ")


DEFAULT_APP = "ekiden"
"""The default app, as in the settings of the command."""


def space_of(scope: MemoryScope, *, app: str | None, user: str | None) -> str:
    """The space of a user's memories in the app, or of the memories of the app itself. Raises
    `NoMemory` if a user is needed and missing.

    An app without a name is ``ekiden``. The command `ekiden memory` has the same default, so it
    finds the memories of a program's agents.

    All agents that work for a user in an app share the memories of this user. Ids are
    case-sensitive. The space is a hash of all parts, each with its length, so that different ids
    cannot collide.
    """
    app = app or DEFAULT_APP
    if scope == "user":
        if not user:
            raise NoMemory(
                "nothing can be remembered or recalled: this memory is a user's, and the session "
                "has no user (`Session(user_id=…)`, `--user`, or the setting `user`)"
            )
        return f"memory.user.{_hash(app, user)}"
    return f"memory.app.{_hash(app)}"


def _hash(*parts: str) -> str:
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b;" % (len(raw), raw))
    return digest.hexdigest()
