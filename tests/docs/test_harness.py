"""The harness itself: what it takes for right, and what it complains about."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.curl import curl
from tests.docs.matching import matches
from tests.docs.pages import Page, read_blocks, slug
from tests.docs.running import PageError, commands_of, is_runnable, run_page
from tests.docs.screens import play, steps, visible
from tests.docs.serving import Servers
from tests.support.terminal import TMUX


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pages are written here and run here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    return tmp_path


def written(folder: Path, text: str) -> Page:
    """A page with this text, in which ''' stands for a fence."""
    path = folder / "page.md"
    path.write_text(text.replace("'''", "```"), encoding="utf-8")
    return Page(path)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\nb\n", "a\nb\n"),
        ("a\n", "a  \n\n"),
        ("ses_...: done\n", "ses_06gx: done\n"),
        ("a\n...\nz\n", "a\nb\nc\nz\n"),
        ("a\n...\nz\n", "a\nz\n"),
        ("...", "anything\nat all\n"),
        ("took ... ms, and more\n", "took 1.2 s, and more\n"),
        ("(a|b)*.\n", "(a|b)*.\n"),
    ],
)
def test_an_expected_output_matches_the_printed_one(expected: str, printed: str) -> None:
    assert matches(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [("a\n", "b\n"), ("a\n", "a\nb\n"), ("a...\n", "a\nb\n"), ("a.c\n", "abc\n"), ("a\n", "")],
)
def test_a_different_output_does_not_match(expected: str, printed: str) -> None:
    assert not matches(expected, printed)


def test_blocks_share_a_namespace_and_may_await(folder: Path) -> None:
    page = written(
        folder,
        """
'''python
import asyncio
async def double(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n
'''

'''python
print(await double(21))
'''

'''text
42
'''
""",
    )
    run_page(page, folder)


def test_a_wrong_output_is_reported_with_its_line(folder: Path) -> None:
    page = written(folder, "# A page\n\n'''python\nprint(1)\n'''\n'''text\n2\n'''\n")
    with pytest.raises(PageError, match=r"(?s)page\.md:4.*-2.*\+1"):
        run_page(page, folder)


def test_an_exception_is_reported_with_its_line(folder: Path) -> None:
    page = written(folder, "'''python\n1 / 0\n'''\n")
    with pytest.raises(PageError, match=r"page\.md:2: ZeroDivisionError"):
        run_page(page, folder)


def test_a_later_text_is_not_an_expected_output(folder: Path) -> None:
    page = written(folder, "'''python\nprint(1)\n'''\n\nA file:\n\n'''text\n2\n'''\n")
    run_page(page, folder)
    assert [block.language for block in page.blocks] == ["python", "text"]


def test_a_block_is_skipped_only_with_a_reason(folder: Path) -> None:
    page = written(folder, "<!-- not run: needs a key -->\n'''python\n1 / 0\n'''\n")
    run_page(page, folder)
    assert page.blocks[0].not_run == "needs a key"
    without = written(folder, "<!-- not run -->\n'''python\n1 / 0\n'''\n")
    with pytest.raises(PageError):
        run_page(without, folder)


def test_commands_run_with_the_files_shown_on_the_page(folder: Path) -> None:
    page = written(
        folder,
        """
'''python
# hello.py
import os, signal, sys
print("hello", os.environ["WHO"])
if sys.argv[1:]:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
'''

'''console
$ WHO=you python hello.py
hello you
$ WHO=us python \\
    hello.py die
hello ...
Killed
'''
""",
    )
    run_page(page, folder)


def test_a_block_below_a_comment_that_names_a_file_is_that_file(folder: Path) -> None:
    page = written(
        folder,
        """
<!-- file: notes/today.md -->
'''markdown
---
name: today
---
'''

'''console
$ python -c "print(open('notes/today.md').read())"
---
name: today
---
'''
""",
    )
    run_page(page, folder)


SCREEN = """\
$ printf 'auto › '; read said; echo "it was $said"; printf 'desk › '; read said; echo "$said"
auto › hello
it was hello
desk › [y]es
...
EXIT=0
"""


def test_text_behind_a_prompt_on_a_screen_is_typed() -> None:
    lines = ["welcome", "auto › hello", "it was hello", "Go on? [y]es, [n]o (30 s):", "desk ›"]
    assert list(steps(lines)) == [
        ("welcome\nauto ›", "hello"),
        ("\n".join(lines), None),
    ]
    asked = ["[y]es, [n]o (30 s): y", "done"]
    assert next(steps(asked)) == ("[y]es, [n]o (30 s):", "y")


def test_the_status_line_of_a_screen_is_compared_only_where_shown() -> None:
    screen = "auto ›\n\n\n\n ses_1  ·  /help"
    assert visible(screen, status=False) == "auto ›"
    assert visible(screen, status=True) == "auto ›\n ses_1  ·  /help"
    assert visible("auto ›", status=False) == "auto ›"


@pytest.mark.skipif(TMUX is None, reason="tmux is not installed")
def test_a_screen_is_played_in_a_terminal_and_compared(folder: Path) -> None:
    env = {"PATH": os.environ["PATH"]}
    assert play(SCREEN, folder=folder, env=env) is None
    wrong = SCREEN.replace("EXIT=0", "EXIT=1").replace("auto › hello", "auto › hallo")
    different = play(wrong, folder=folder, env=env, patience_s=3)
    assert different is not None
    assert "-it was hello" in different
    assert "+it was hallo" in different


def test_a_failing_command_must_be_marked_on_the_page(folder: Path) -> None:
    page = written(folder, "'''console\n$ python -c 'import sys; sys.exit(3)'\n'''\n")
    with pytest.raises(PageError, match="fails"):
        run_page(page, folder)


def test_a_command_cannot_use_the_network(folder: Path) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 9))"
    page = written(folder, f"'''console\n$ python -c \"{code}\"\n...\nOSError: docu...\n'''\n")
    run_page(page, folder)


def test_a_server_runs_for_the_page_at_a_port_of_its_own(folder: Path) -> None:
    page = written(
        folder,
        """
'''console
$ ekiden serve --store a.db --log none &
serving on http://127.0.0.1:8321; Ctrl-C ends it
$ curl -s -i http://127.0.0.1:8321/healthz
HTTP/1.1 200 OK
...
$ export NOTE_KEY=$(ekiden keys create note --scope run --store a.db)
$ curl -s http://127.0.0.1:8321/api/v1/runs -H "X-API-Key: $NOTE_KEY" --json '{"input": "1042?"}'
{"run_id":"ses_...","status":"done",...
'''

'''python
import os
import socket

where = ("127.0.0.1", int("http://127.0.0.1:8321".rpartition(":")[2]))
with socket.socket() as found:
    print(found.connect_ex(where), os.environ["NOTE_KEY"][:3])
'''

'''text
0 ek_
'''

'''console
$ kill %1
'''

'''python
with socket.socket() as gone:
    print(gone.connect_ex(where) == 0)
'''

'''text
False
'''
""",
    )
    run_page(page, folder)
    assert "NOTE_KEY" not in os.environ


def test_ports_are_translated_in_both_directions() -> None:
    with contextlib.closing(Servers()) as servers:
        real = servers.real("ws://127.0.0.1:8321/ and --port 8322, not 8321 alone")
        assert "127.0.0.1:8321" not in real
        assert "--port 8322" not in real
        assert real.endswith("not 8321 alone")
        assert servers.shown(real).startswith("ws://127.0.0.1:8321/ and --port 8322")
        assert servers.port(8321) != servers.port(8322)


def test_curl_reaches_only_the_servers_of_the_page() -> None:
    assert curl("curl -s http://127.0.0.1:9/") == (
        7,
        "curl: (7) documentation calls its own servers only: http://127.0.0.1:9/\n",
    )


@pytest.mark.parametrize(
    ("command", "answer"),
    [("ekiden run hi", True), ("A=1 ekiden run", True), ("pip install x", False), ("A=1", False)],
)
def test_only_project_commands_are_run(command: str, answer: bool) -> None:
    assert is_runnable(command) is answer


def test_a_console_block_without_prompts_has_no_commands() -> None:
    (block,) = read_blocks("```console\nekiden run hi\n```\n")
    assert commands_of(block) == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Two runs on one session", "two-runs-on-one-session"),
        ("`on_handoff`", "on_handoff"),
        ("What happens, then?", "what-happens-then"),
        ("See [tools](tools.md)", "see-tools"),
    ],
)
def test_headings_have_anchors(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
