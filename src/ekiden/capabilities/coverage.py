"""Whether some capabilities are enough."""

from __future__ import annotations

from collections.abc import Iterable

from ekiden.capabilities.names import folded, requirements
from ekiden.core.profile import Capability


def missing_capabilities(
    required: Iterable[str], capabilities: Iterable[Capability]
) -> tuple[str, ...]:
    """The names in `required` that none of `capabilities` has as its name or among its tags.

    They are returned as given, in order and each once; ``tag:name`` is met by a tag only.
    Proficiency does not count, and meaning is not compared. `UserError` for an empty name, and for
    one text instead of several::

        missing_capabilities(["refunds", "tag:money", "visa"], billing.capabilities)  # ("visa",)
    """
    wanted = requirements(required)
    if not wanted:
        return ()
    held: set[str] = set()
    tags: set[str] = set()
    for each in capabilities:
        held.add(folded(each.name))
        tags.update(map(folded, each.tags))
    return tuple(
        each.text
        for each in wanted
        if each.key not in tags and (each.tag_only or each.key not in held)
    )
