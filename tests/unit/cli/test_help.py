"""Help pages: every command has one that fits the terminal and shows an example."""

from __future__ import annotations

import shlex

import pytest

from ekiden.cli.main import main
from ekiden.cli.parser.help import EXAMPLES
from ekiden.cli.parser.parser import build


def pages() -> list[str]:
    """Every command and every group, as it is typed."""
    app = build()
    names = [name for name in app if not name.startswith("-")]
    below = [f"{name} {each}" for name in names for each in app[name] if not each.startswith("-")]
    return [*names, *below]


@pytest.mark.parametrize("page", pages())
def test_a_page_has_an_example_and_lines_that_fit(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*page.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"    {EXAMPLES[page].splitlines()[0]}\n" in out
    assert out.startswith(f"Usage: ekiden {page}")
    assert not [line for line in out.splitlines() if len(line) > 80]


def test_the_overview_fits_and_has_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "    ekiden run " in out
    assert not [line for line in out.splitlines() if len(line) > 80]


def test_every_example_belongs_to_an_existing_command() -> None:
    assert EXAMPLES.keys() == set(pages())


@pytest.mark.parametrize(
    "example", [line for each in EXAMPLES.values() for line in each.split("\n")]
)
def test_every_example_can_be_parsed(example: str) -> None:
    words = shlex.split(example)[1:]
    if words == ["worker"]:
        words.append("run")
    build().parse_args(words, exit_on_error=False, print_error=False)
