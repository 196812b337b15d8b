"""Patterns of texts, so that the OpenAPI document says what is taken."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Query

_ODD: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

ONE_LINE: Final = rf"^[^{_ODD}]+$"
"""Without control characters and line breaks."""
PERSON: Final = rf"^[^\s{_ODD}][^{_ODD}]*$"
"""A person's name, in any script."""
PARTY: Final = rf"^[^#\s{_ODD}][^#{_ODD}]*$"
"""An agent's name on the bus."""
MEMORY_KEY: Final = rf"^[^{_ODD}]*[^\s{_ODD}][^{_ODD}]*$"
"""Without control characters, and not blank."""
SAID: Final = r"\S"
"""Something is said."""
KEY_NAME: Final = (
    r"^[!-~\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
    r"[ -~\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*$"
)
"""Latin, Cyrillic, Chinese, Japanese and Korean letters, and what ASCII has besides."""
TENANT: Final = r"^[a-z0-9]([a-z0-9_]{0,30}[a-z0-9])?$"
"""As tenants can be called."""
CAPABILITIES: Final = r"^[^\x00]*[^\s\x00,，、][^\x00]*$"
"""Names with commas between, of which there is at least one."""
EVENT_CURSOR: Final = r"-?[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}"
"""A place in the events of a store."""


def cursor_as(pattern: str) -> Any:
    """The cursor of a list whose cursors look so."""
    return Query(
        max_length=500,
        pattern=pattern,
        description="`next_cursor` of the page before; none for the first.",
    )
