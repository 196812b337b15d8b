"""What the code has, the pages have: nothing public is left undocumented."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import ekiden
from ekiden.core.events import EventType
from ekiden.project.settings import SettingsProblem
from ekiden.runtime import Limits, RunConfig
from ekiden.server.openapi.examples import EVENT_TYPES
from ekiden.testing.faults import fault_points
from tests.docs.pages import DOCS, ROOT, Page, page, pages
from tests.docs.reference import known_errors

POINTS = {point.name for point in fault_points()}
PAGES = [*pages(), *(Page(ROOT / name) for name in ("CONTRIBUTING.md", "ARCHITECTURE.md"))]


def rows(name: str) -> list[str]:
    """The first two cells of every row of the tables of a page, and its headings."""
    text = page(name).text
    return [
        *(" ".join(row.split("|")[1:3]) for row in re.findall(r"^\|.*$", text, re.MULTILINE)),
        *re.findall(r"^#+ .*$", text, re.MULTILINE),
    ]


def test_every_error_has_a_row_and_a_unique_code() -> None:
    """The page says which classes each of its lists has."""
    listed = re.findall(r"^- `(\w+)` \(`([\w.]+)`", page("errors.md").text, re.MULTILINE)
    assert {(name, each.code) for name, each in known_errors().items()} <= set(listed)
    assert len({code for _, code in listed}) == len(listed)


def test_every_event_type_is_described() -> None:
    assert set(EVENT_TYPES) == set(get_args(EventType))


@pytest.mark.parametrize("settings", [RunConfig, Limits])
def test_every_setting_of_a_run_is_documented(settings: type) -> None:
    named = rows("running.md")
    missing = [
        each.name for each in fields(settings) if not any(f"`{each.name}`" in row for row in named)
    ]
    assert not missing


def test_every_kind_of_settings_problem_has_a_row() -> None:
    listed = " ".join(rows("settings.md"))
    codes = get_args(get_type_hints(SettingsProblem)["code"])
    assert not [code for code in codes if f"`{code}`" not in listed]


def test_every_public_name_is_documented() -> None:
    words = set(re.findall(r"\w+", "\n".join(each.text for each in pages())))
    assert not [name for name in dir(ekiden) if name not in words]


def test_the_documented_fault_points_exist() -> None:
    table = page("reliability.md").text.partition("| operation | points |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\|[^|]+\|([^|]+)\|$", table, re.MULTILINE)
    named = set(re.findall(r"`([a-z_.]+)`", "".join(cells)))
    assert named
    assert named <= POINTS


def test_every_page_is_on_the_map() -> None:
    linked = set(page("index.md").links)
    own = {"index.md", "python.md"}  # The second is made with the site.
    assert {path.name for path in DOCS.glob("*.md")} - own <= linked


def test_every_internal_link_resolves() -> None:
    for each in PAGES:
        assert each.path.exists(), f"there is no {each.name}"
        broken = [link for link in each.links if not _resolves(link, each.path)]
        assert not broken, f"{each.name} links to {broken}"


def _resolves(link: str, source: Path) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    file, _, anchor = link.partition("#")
    target = (source.parent / file).resolve() if file else source
    if not target.exists() or ROOT not in target.parents:
        return False
    return not anchor or (target.suffix == ".md" and anchor in Page(target).anchors)


def test_the_site_has_every_page_once() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    named = re.findall(r"[\w./-]+\.md", str(config["project"]["nav"]))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(named) == sorted({*there, "python.md"})
