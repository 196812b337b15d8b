"""What a setting may be, said at the field of the dataclass that holds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What is to be known of a setting beyond its type, default and description.

    For example::

        port: Annotated[int, Allowed(low=0, high=65535, env="EKIDEN_PORT")] = 8321
        \"\"\"The port; 0 takes a free one.\"\"\"
    """

    low: float = 0
    """Of numbers: the lowest."""
    high: float = 1_000_000_000
    """Of numbers: the highest."""
    exclusive: bool = False
    """Of numbers: the lowest itself is too low."""
    filled: bool = False
    """Of texts: a blank one is refused; a setting's text never is blank."""
    what: str = "text"
    """Of texts: what is written, such as "an agent's name"; of lists: what they are lists of."""
    form: str | None = None
    """Of texts: a pattern that all of it matches."""
    env: str | None = None
    """The environment variable, if it is not called after the setting."""
    risk: str | None = None
    """What a value other than the default does, such as "imports this code", if a person must trust
    the project's folder first."""
