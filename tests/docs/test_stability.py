"""Every public thing has a state in `docs/stability.json`, and no stable thing disappears."""

from __future__ import annotations

from functools import cache

import pytest

from tests.docs import stability
from tests.docs.surfaces import current

now = cache(current)
SMALL: stability.Listed = {
    "commands": {"stable": frozenset({"run", "chat"}), "removed": frozenset({"old"})},
    "options": {"provisional": frozenset({"run: --json"})},
}


def test_every_public_thing_has_a_state() -> None:
    new = stability.missing(stability.read(), now())
    assert not new, "give them a state: python -m tests.docs.surfaces stable (or: provisional)"


def test_no_public_thing_disappears_without_an_entry() -> None:
    gone = stability.vanished(stability.read(), now())
    assert not gone, "keep stable things, or move them to `removed` in docs/stability.json"


def test_what_was_removed_is_gone() -> None:
    for surface, states in stability.read().items():
        assert not states.get("removed", frozenset()) & now()[surface]


def test_the_list_has_every_surface_and_each_name_once() -> None:
    listed = stability.read()
    assert list(listed) == list(stability.SURFACES) == list(now())
    for surface, states in listed.items():
        assert set(states) <= set(stability.STATES)
        assert sum(map(len, states.values())) == len(stability.known(states)), surface


def test_the_list_is_written_as_it_is_read() -> None:
    assert stability.text(stability.read()) == stability.FILE.read_text("utf-8"), (
        "write it anew: python -m tests.docs.surfaces stable"
    )


@pytest.mark.parametrize("surface", stability.SURFACES)
def test_every_surface_of_the_code_is_found(surface: str) -> None:
    assert now()[surface]


def test_a_renamed_thing_is_new_and_gone() -> None:
    renamed = {"commands": frozenset({"run", "talk"}), "options": frozenset({"run: --json"})}
    assert stability.missing(SMALL, renamed) == {"commands": ["talk"]}
    assert stability.vanished(SMALL, renamed) == {"commands": ["chat"]}


def test_a_stable_thing_of_an_earlier_list_must_be_stable_or_removed() -> None:
    before: stability.Listed = {"commands": {"stable": frozenset({"run", "chat", "old"})}}
    assert stability.broken(before, SMALL) == {}
    later: stability.Listed = {"commands": {"stable": frozenset({"run"})}}
    assert stability.broken(before, later) == {"commands": ["chat", "old"]}


def test_a_removed_thing_may_be_absent() -> None:
    same = {"commands": frozenset({"run", "chat"}), "options": frozenset({"run: --json"})}
    assert stability.missing(SMALL, same) == stability.vanished(SMALL, same) == {}
