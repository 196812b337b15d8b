"""The page about the server says what the server does."""

from __future__ import annotations

import re
from dataclasses import fields

from ekiden.server.configuration import ServerConfig
from ekiden.server.problems import status_of
from tests.docs.pages import page
from tests.docs.reference import known_errors

PAGE = page("server.md").text


def section(heading: str) -> str:
    """What stands below a heading, to the next one."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def statuses() -> dict[str, int]:
    """By name of the error, as the table has it."""
    return {
        name: int(status)
        for status, names in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", section("Errors"), re.M)
        for name in re.findall(r"`(\w+)`", names)
    }


def test_the_status_of_every_error_equals_the_table() -> None:
    listed = statuses()
    for error in known_errors().values():
        nearest = next(kind.__name__ for kind in error.__mro__ if kind.__name__ in listed)
        assert listed[nearest] == status_of(error.__new__(error)), error


def test_the_table_of_statuses_names_only_existing_errors() -> None:
    assert not statuses().keys() - known_errors().keys()


def test_every_server_option_is_documented() -> None:
    names = [each.name for each in fields(ServerConfig)]
    assert not [name for name in names if not re.search(rf"`(server\.)?{name}`", PAGE)]
