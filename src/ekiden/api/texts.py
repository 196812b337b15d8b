"""Patterns for texts from outside, which the OpenAPI document shows."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

_ODD: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

PLAIN: Final = r"^[^\x00]*$"
"""Any text without a NUL, which not every store can search for."""
ONE_LINE: Final = rf"^[^{_ODD}]+$"
"""Without control characters and line breaks."""
PERSON: Final = rf"^[^\s{_ODD}][^{_ODD}]*$"
"""A person's name, in any script."""
PARTY: Final = rf"^[^#\s{_ODD}][^#{_ODD}]*$"
"""An agent's name on the bus."""
MEMORY_KEY: Final = rf"^[^{_ODD}]*[^\s{_ODD}][^{_ODD}]*$"
"""Without control characters, and not blank."""
SAID: Final = r"\S"
"""Text that is not blank."""
KEY_NAME: Final = (
    r"^[!-~\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
    r"[ -~\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*$"
)
"""Latin, Cyrillic, Chinese, Japanese and Korean letters, and other ASCII characters."""
TENANT: Final = r"^[a-z0-9]([a-z0-9_]{0,30}[a-z0-9])?$"
"""Valid tenant names."""
CAPABILITIES: Final = r"^[^\x00]*[^\s\x00,，、][^\x00]*$"
"""Names separated by commas, at least one."""
EVENT_CURSOR: Final = r"-?[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}"
"""A position in the events of a store."""
SESSION_ID: Final = r"^[A-Za-z0-9_\-.:@]+$"
"""The id of a session."""
ADDRESSED: Final = r"^[^\x00-\x1f\x7f]*$"
"""Text that can be part of a path."""
MOST_EVENTS: Final = 1_000_000_000
"""The highest possible number of an event."""

_DATE = (
    r"(?:19[7-9][0-9]|2[0-9]{3})-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-9]))"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?"
MOMENT: Final = rf"^(?:[0-9]{{1,4}}[smhdw]|{_DATE}(?:T{_CLOCK}{_ZONE})?)$"
"""A time as a text: a date, a date with a time, or how long ago."""
TIMES: Final = (
    "A date, a date with a time (UTC, unless it names its zone), or how long ago: `90s`, `30m`, "
    "`2h`, `7d`, `4w`."
)
"""The description of a time parameter."""
Moment: TypeAlias = datetime | str
"""A time: a `datetime`, or a text that matches `MOMENT`; without a zone it is UTC."""
