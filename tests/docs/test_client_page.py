"""The page about the client has everything that the client has."""

from __future__ import annotations

import re

import pytest

import ekiden.client
from ekiden.cli.main import LOCAL_ONLY
from ekiden.client.ekiden import RESOURCES, interface_of
from tests.docs.pages import page

PAGE = page("client.md").text


def methods_on_page(resource: str) -> set[str]:
    """Those in the row of the resource."""
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|$", PAGE, re.MULTILINE)
    return {
        method
        for names, methods in rows
        if f"`{resource}`" in names
        for method in re.findall(r"`(\w+)`", methods)
    }


INTERFACES = {name: interface_of(name) for name in RESOURCES}


@pytest.mark.parametrize("name", INTERFACES)
def test_the_page_lists_the_methods_of_the_interface(name: str) -> None:
    own = {each for each in vars(INTERFACES[name]) if not each.startswith("_")}
    assert methods_on_page(name) == own


def test_the_local_only_commands_are_named() -> None:
    text = page("cli.md").text
    assert not [command for command in LOCAL_ONLY if f"`{command}`" not in text]


def test_every_public_name_of_the_client_is_documented() -> None:
    text = "\n".join(page(name).text for name in ("client.md", "errors.md"))
    assert not [name for name in ekiden.client.__all__ if not re.search(rf"\b{name}\b", text)]
