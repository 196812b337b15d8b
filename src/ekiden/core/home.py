"""The home folder of the user, which some processes do not have."""

from __future__ import annotations

from pathlib import Path


def home_folder() -> Path | None:
    """The user's home folder.

    `None` if it is unknown: in a container, a numeric user may have neither ``HOME`` nor an entry
    in the list of users. A relative ``HOME`` does not count, because it depends on the current
    folder.
    """
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home if home.is_absolute() else None
