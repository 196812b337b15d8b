"""The entry point: parses the command line, calls one command, and turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ekiden import __version__
from ekiden.cli.errors import BadInput, Interrupted, UsageError
from ekiden.cli.exits import Exit, exit_for_error
from ekiden.cli.output import complain, prepare_log, prepare_streams, say
from ekiden.cli.parser import ABOUT, COMMANDS, GROUPS, HELP, build
from ekiden.cli.server_option import put_server
from ekiden.core.errors import EkidenError
from ekiden.core.text import is_unicode

if TYPE_CHECKING:
    pass

COMPLETE = "__complete"
"""The command that completion scripts call before the words to complete."""
_MORE = (
    "See `ekiden COMMAND --help` for a command. EKIDEN_STORE names the store; with --server "
    "URL, or EKIDEN_SERVER, a command uses a server instead, with the key in EKIDEN_API_KEY. "
    "`ekiden completion install` enables completion of commands, agents and sessions in your "
    "shell."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (this process's own by default) and give the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    if arguments == ["--version"]:
        say(f"ekiden {__version__}")
        return Exit.OK
    if arguments in ([], ["--help"], ["-h"]):
        say(overview())
        return Exit.OK
    if arguments[0] == COMPLETE:
        return _complete(arguments[1:])
    as_json = wants_json(arguments)
    prepare_log(as_json=as_json)
    try:
        return _dispatch(arguments)
    except EkidenError as exc:
        _debug()
        complain(exc.code, str(exc), as_json=as_json)
        return exit_for_error(exc)
    except KeyboardInterrupt:
        complain(Interrupted.code, "stopped", as_json=as_json)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more at its end; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE
    except Exception as exc:
        _debug()
        message = f"{type(exc).__name__}: {exc} (EKIDEN_DEBUG=1 shows where)"
        complain("cli.internal", message, as_json=as_json)
        return Exit.INTERNAL


def overview() -> str:
    """The list of commands; made without the parser, which is slow to load."""
    from ekiden.cli.help import described, paragraphs

    commands = {
        **COMMANDS,
        **{
            f"{group} {name}": text
            for group, (_, members) in GROUPS.items()
            for name, text in members.items()
        },
    }
    return "\n".join(
        [
            "Usage: ekiden COMMAND [OPTIONS]",
            "",
            ABOUT,
            "",
            *(line for name, text in commands.items() for line in described(name, text)),
            "",
            *paragraphs(_MORE),
            "Example:",
            "",
            '    ekiden run "Where is my order 1042?"',
        ]
    )


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are printed as JSON too; checked before parsing, for parse errors."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options or "--json-lines" in options


def _dispatch(arguments: list[str]) -> int:
    from cyclopts import CycloptsError

    if "-" in arguments and "--" not in arguments:
        # A lone dash is standard input, which the parser would take for an option.
        arguments.remove("-")
        arguments += ["--", "-"]
    if arguments[0] == "worker" and (
        arguments[1:] == [] or (arguments[1].startswith("-") and arguments[1] not in HELP)
    ):
        arguments.insert(1, "run")
    for before, word in pairwise(["", *arguments]):
        if not is_unicode(word):
            option = word.partition("=")[0] if word.startswith("--") else before
            what = option if option.startswith("--") and is_unicode(option) else ascii(word)[:80]
            raise BadInput(f"{what} is not UTF-8; convert it first, for example with iconv")
    put_server(arguments, GROUPS)
    try:
        app = build(arguments) if any(each in arguments for each in HELP) else build()
        code = app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as exc:
        raise UsageError(f"{exc} `ekiden --help` lists the commands.") from exc
    return Exit.OK if code is None else code


def _complete(arguments: list[str]) -> int:
    """Print completions of the last word; never an error, which would disturb typing."""
    from ekiden.cli.shell_completion import completion_lines

    try:
        for line in completion_lines(arguments):
            say(line)
    except Exception:
        _debug()
        return Exit.FAILED
    return Exit.OK


def _debug() -> None:
    if os.environ.get("EKIDEN_DEBUG") == "1":
        import traceback

        traceback.print_exc()
