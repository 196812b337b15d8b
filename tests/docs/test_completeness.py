"""What the code has, the pages have: nothing public is left undocumented."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import ekiden
from ekiden.client import errors as client_errors
from ekiden.core import errors
from ekiden.core import guardrails as guardrail_errors
from ekiden.core.errors import collaboration as collaboration_errors
from ekiden.core.errors import integrations as integration_errors
from ekiden.core.errors import memory as memory_errors
from ekiden.core.errors import messages as message_errors
from ekiden.core.errors import server as server_errors
from ekiden.core.errors import stored_data as stored_data_errors
from ekiden.core.events import EventType
from ekiden.core.values import dumps
from ekiden.guardrails import schemas as guardrail_making_errors
from ekiden.project.settings import SETTINGS, SettingsProblem
from ekiden.runtime import Limits, RunConfig
from ekiden.testing.faults import fault_points
from tests.docs.pages import DOCS, ROOT, Page, page, pages

_MODULES = (
    errors,
    message_errors,
    collaboration_errors,
    guardrail_errors,
    guardrail_making_errors,
    memory_errors,
    stored_data_errors,
    server_errors,
    integration_errors,
    client_errors,
)
ERRORS = list(
    dict.fromkeys(
        value
        for module in _MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, errors.EkidenError)
    )
)
POINTS = sorted({point.name for point in fault_points()})
PAGES = [*pages(), *(Page(ROOT / name) for name in ("CONTRIBUTING.md", "ARCHITECTURE.md"))]


def rows(name: str) -> list[str]:
    """The first two cells of every row of the tables of a page, and its headings."""
    text = page(name).text
    return [
        *(" ".join(row.split("|")[1:3]) for row in re.findall(r"^\|.*$", text, re.MULTILINE)),
        *re.findall(r"^#+ .*$", text, re.MULTILINE),
    ]


def test_every_error_has_a_row_with_its_code() -> None:
    listed = rows("errors.md")
    wanted = [(f"`{error.__name__}`", f"`{error.code}`") for error in ERRORS]
    assert not [(name, code) for name, code in wanted if not _has_row(listed, name, code)]


def _has_row(listed: list[str], *texts: str) -> bool:
    return any(all(text in row for text in texts) for row in listed)


def test_every_error_has_a_code_of_its_own() -> None:
    assert len({error.code for error in ERRORS}) == len(ERRORS)


def test_every_event_has_a_row() -> None:
    listed = rows("events.md")
    assert not [kind for kind in get_args(EventType) if not _has_row(listed, f"`{kind}`")]


@pytest.mark.parametrize("settings", [RunConfig, Limits])
def test_every_setting_of_a_run_is_named(settings: type) -> None:
    named = rows("running.md")
    missing = [
        each.name for each in fields(settings) if not any(f"`{each.name}`" in row for row in named)
    ]
    assert not missing


def shown(value: object) -> str:
    """A value in a table."""
    text = value if isinstance(value, str) else dumps(value)
    return f"`{text}`"


def test_every_setting_has_a_row_with_default_variable_and_values() -> None:
    table = re.findall(r"^\|(.*)\|$", page("settings.md").text, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in table]
    for setting in SETTINGS:
        known = [shown(setting.name), shown(setting.default), shown(setting.env)]
        wanted = [*known, setting.kind.expects, setting.meaning]
        assert [row for row in cells if row[0] == wanted[0]] == [wanted]


def test_the_settings_page_has_no_setting_that_is_gone() -> None:
    table = page("settings.md").text.partition("## All settings")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([^`]+)`", table, re.MULTILINE) == [each.name for each in SETTINGS]


def test_every_kind_of_problem_with_settings_has_a_row() -> None:
    listed, codes = rows("settings.md"), get_args(get_type_hints(SettingsProblem)["code"])
    assert not [code for code in codes if not _has_row(listed, f"`{code}`")]


def test_every_public_name_is_on_some_page() -> None:
    words = set(re.findall(r"\w+", "\n".join(each.text for each in pages())))
    assert not [name for name in dir(ekiden) if name not in words]


def test_the_fault_points_on_the_page_are_those_of_the_code() -> None:
    table = page("reliability.md").text.partition("| operation | points |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\|[^|]+\|([^|]+)\|$", table, re.MULTILINE)
    assert sorted(re.findall(r"`([a-z_.]+)`", "".join(cells))) == POINTS


def test_every_page_is_on_the_map() -> None:
    linked = set(page("index.md").links)
    own = {"index.md", "python.md"}  # The second is made with the site.
    assert {path.name for path in DOCS.glob("*.md")} - own <= linked


def test_every_internal_link_leads_somewhere() -> None:
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
