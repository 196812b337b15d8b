"""Regular expressions that are compiled at first use."""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile`, at the first use of the result: compiling all patterns of the runtime takes a
    tenth of its import, and a run needs few of them."""
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """Called for a method that was not used before: the next call finds it at once."""
        if name.startswith("_"):  # Of `copy` and `pickle`, which ask before there is a text.
            raise AttributeError(name)
        method = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, method)
        return method
