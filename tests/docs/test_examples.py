"""Every example of the documentation runs and prints what the page says."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, Block, Page, pages
from tests.docs.running import commands_of, file_of, is_runnable, run_page
from tests.docs.serving import guarded, guarded_lookup
from tests.support.terminal import TMUX

NOT_RUN_AT_MOST = 9
"""Examples that need a key or a server and that no other test runs."""

LANGUAGES = {"python", "text", "console", "screen", "markdown", "json", "toml", "sql"}
"""Of fenced blocks: what a reader would type is `python`, `console` or `screen`, and is run."""

TRANSLATED = "docs/tutorial.zh.md"
"""It has the examples of the English page, which are run."""
PAGES = [page for page in pages() if page.name != TRANSLATED]
FIRST = "README.md"
"""The page that people read first: its screens are played in the normal run, too."""
SCREENS = [
    page
    for page in PAGES
    if page.name != FIRST and any(block.language == "screen" for block in page.blocks)
]


@pytest.fixture
def folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty current folder, an empty home and no network; modules found in the folder are
    forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in [name for name in os.environ if name.startswith("EKIDEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EKIDEN_BLOCK_MODELS", "1")
    monkeypatch.setattr(socket, "getaddrinfo", guarded_lookup(socket.getaddrinfo, refuse))
    monkeypatch.setattr(socket.socket, "connect", guarded(socket.socket.connect, refuse))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    # A copy is made at once, even if a thread is still importing.
    for name, module in sys.modules.copy().items():
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def refuse(*arguments: Any, **options: Any) -> None:
    """Instead of the network."""
    raise OSError(f"documentation must not need the network: {arguments!r}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_and_print_the_documented_output(
    page: Page, folder: Path
) -> None:
    run_page(page, folder, screens=page.name == FIRST)


@pytest.mark.slow
@pytest.mark.skipif(TMUX is None, reason="there is no tmux here")
@pytest.mark.parametrize("page", SCREENS, ids=lambda page: page.name)
def test_the_screens_of_a_page_match_the_program(page: Page, folder: Path) -> None:
    run_page(page, folder)


@pytest.mark.parametrize(
    "block",
    [block for block in PAGES[0].blocks if block.language == "python"],
    ids=lambda block: f"line {block.line}",
)
def test_a_readme_block_runs_when_saved_to_a_file(block: Block, folder: Path) -> None:
    exec(compile(block.text, "saved.py", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_are_of_a_checked_kind(page: Page) -> None:
    strange = [(block.line, block.language) for block in page.blocks if not _is_known(block)]
    assert not strange, f"{page.name}: use one of {sorted(LANGUAGES)}"


def _is_known(block: Block) -> bool:
    if block.language == "console" and block.not_run is None:
        return bool(commands_of(block)) and all(
            is_runnable(command) for command, _ in commands_of(block)
        )
    return block.language in LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_file_shown_on_a_page_is_used_on_that_page(page: Page) -> None:
    for index, block in enumerate(page.blocks):
        name = file_of(block)
        if name is not None:
            others = "".join(each.text for at, each in enumerate(page.blocks) if at != index)
            assert name.removesuffix(".py") in others, f"{page.name}:{block.line}: nobody runs it"


def test_the_number_of_skipped_blocks_is_limited() -> None:
    skipped = [
        f"{page.name}:{block.line}: {block.not_run}"
        for page in PAGES
        for block in page.blocks
        if block.not_run is not None and not block.not_run.endswith(" runs it")
    ]
    assert len(skipped) <= NOT_RUN_AT_MOST, "\n".join(skipped)


def test_a_translation_has_the_examples_of_its_page() -> None:
    original, translated = (Page(DOCS / name) for name in ("tutorial.md", "tutorial.zh.md"))
    assert [each.text for each in translated.blocks] == [each.text for each in original.blocks]
