"""How values of settings are read from the command line and the environment."""

from __future__ import annotations

from ekiden.app.settings.jsonc import JsoncError, parse
from ekiden.core.kinds import Choice, Flag, Kind, Text, Texts

_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def from_text(kind: Kind, text: str) -> object:
    """What `text` means as a value of `kind`; it is not checked.

    A flag may be ``yes``, ``on``, ``1`` and their opposites, in any case; a text in double quotes
    is JSON and every other itself, but ``null`` is none where there may be none. A list is
    JSON, or texts with commas between them.
    """
    if isinstance(kind, Flag):
        return _FLAGS.get(text.lower(), text)
    if isinstance(kind, Text) and kind.optional and text == "null":
        return None
    if isinstance(kind, Texts) and not text.startswith(("[", "{", '"')):
        return [each.strip() for each in text.split(",")]
    is_quoted = len(text) >= 2 and text.startswith('"') and text.endswith('"')
    if isinstance(kind, Text | Choice) and not is_quoted:
        return text
    try:
        read = parse(text)
    except JsoncError:
        return text
    return text if read.root is None or read.duplicates else read.root.value
