"""The entry point: places `--server`, calls one command, and turns errors into exit codes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ekiden import __version__
from ekiden.cli.errors import (
    BadInput,
    Exit,
    Interrupted,
    UsageError,
    debug_trace,
    defect,
    exit_for_error,
)
from ekiden.cli.output import complain, prepare_log, prepare_streams, say, show
from ekiden.cli.parser.parser import ABOUT, COMMANDS, GROUPS, HELP, build
from ekiden.core.errors import EkidenError
from ekiden.core.text.wording import did_you_mean, is_unicode

if TYPE_CHECKING:
    from cyclopts import CycloptsError

T = TypeVar("T")

LOCAL_ONLY: Final[Mapping[str, str]] = {
    "init": "it writes files into this folder",
    "trust": "it is about a folder of this machine",
    "completion install": "it is about the shell of this machine",
    "completion show": "it is about the shell of this machine",
    "serve": "it is the server",
    "mcp": "it serves the team of this folder",
    "doctor": "it checks this installation",
    "bench": "it measures this machine",
    "simulate": "it runs a team of this machine",
    "agents validate": "it checks files in this folder",
    "agents import": "it writes files in this folder",
    "agents schema": "it needs no server",
    "config set": "settings are changed on the server's own machine",
    "config unset": "settings are changed on the server's own machine",
    "config schema": "it needs no server",
    "config path": "it is about files of this machine",
    "worker run": "it works on a store; run it where it can reach the store",
    "store copy": "it works with stores themselves; run it where they are reachable",
    "store backup": "it works with the store itself; run it where that is reachable",
    "store restore": "it works with the store itself; run it where that is reachable",
    "store verify": "it works with the store itself; run it where that is reachable",
    "store info": "it works with the store itself; run it where that is reachable",
    "store migrate": "it works with the store itself; run it where that is reachable",
    "mirror run": "it sends from a store; run it where the store is",
}
"""The commands that refuse `--server`, with the reason."""

_OPTION: Final = "--server"


def put_server(arguments: list[str], groups: Mapping[str, object]) -> None:
    """Move `--server URL` behind the command, wherever it stands.

    `UsageError` if the address is missing, and for local commands.
    """
    url = _take_option(arguments)
    command = _command_of(arguments, groups)
    if url is None or not command:
        return
    if command in LOCAL_ONLY:
        raise UsageError(f"`ekiden {command}` does not work with a server: {LOCAL_ONLY[command]}")
    end = len(_options(arguments))
    arguments[end:end] = [_OPTION, url]


def _take_option(arguments: list[str]) -> str | None:
    """Remove `--server URL`, and return the URL."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    url: str | None = None
    index = 0
    while index < end:
        word = arguments[index]
        value, length = "", 0
        if word.startswith(f"{_OPTION}="):
            value, length = word.partition("=")[2], 1
        elif word == _OPTION:
            if index + 1 >= end:
                raise UsageError(f"{_OPTION} needs the server's address")
            value, length = arguments[index + 1], 2
        if not length:
            index += 1
            continue
        if url is not None or not value:
            raise UsageError(f"{_OPTION} needs one address, such as http://127.0.0.1:8321")
        url = value
        del arguments[index : index + length]
        end -= length
    return url


def _options(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _command_of(arguments: list[str], groups: Mapping[str, object]) -> str:
    words = [word for word in _options(arguments) if not word.startswith("-")]
    is_group = bool(words) and words[0] in groups
    return " ".join(words[: 2 if is_group else 1])


COMPLETE = "__complete"
"""The command that completion scripts call before the words to complete."""
_MORE = (
    "`ekiden COMMAND --help` shows the options of a command. The environment variable EKIDEN_STORE "
    "names the store. To use a server instead, give --server URL or set EKIDEN_SERVER. The API key "
    "comes from EKIDEN_API_KEY. `ekiden completion install` lets your shell complete commands, "
    "agents and sessions."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv`, by default that of this process, and return the exit code."""
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
        return _dispatch(arguments, ends_process=argv is None)
    except EkidenError as exc:
        debug_trace(exc)
        complain(exc.code, str(exc), as_json=as_json)
        return exit_for_error(exc)
    except KeyboardInterrupt:
        complain(Interrupted.code, "stopped", as_json=as_json)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output at exit, which would fail again on the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE
    except Exception as exc:
        complain(*defect(exc), as_json=as_json)
        return Exit.INTERNAL


def overview() -> str:
    """The list of commands; made without the parser, which is slow to load."""
    from ekiden.cli.parser.help import described, paragraphs

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


def _dispatch(arguments: list[str], *, ends_process: bool) -> int:
    if arguments[0] == "route" and (code := quick_route(arguments)) is not None:
        if ends_process:
            # At its end, the interpreter would search all objects for garbage several times.
            gc.freeze()
        return code
    from cyclopts import CycloptsError, UnknownCommandError

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
    except UnknownCommandError as exc:
        group = f" {arguments[0]}" if arguments[0] in GROUPS else ""
        raise UsageError(f"{exc} `ekiden{group} --help` lists the commands.") from exc
    except CycloptsError as exc:
        help_page = f"ekiden {_command_of(arguments, GROUPS)} --help"
        raise UsageError(
            f"{_problem(exc)} `{help_page}` shows which arguments the command takes."
        ) from exc
    return Exit.OK if code is None else code


def _problem(exc: CycloptsError) -> str:
    """What is wrong with the arguments, as a sentence."""
    from cyclopts import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

    if isinstance(exc, UnusedCliTokensError):
        extra = ", ".join(map(repr, exc.unused_tokens or ()))[:200]
        return f"too many arguments: {extra}."
    if isinstance(exc, MissingArgumentError) and exc.argument is not None:
        if exc.keyword is not None:
            return f"{exc.keyword} needs a value."
        name = exc.argument.name
        return f"{name} is missing." if name.startswith("-") else f"the argument {name} is missing."
    if isinstance(exc, UnknownOptionError):
        option = (exc.token.keyword or exc.token.value).partition("=")[0]
        known = (name for each in exc.argument_collection for name in each.names)
        # Without the dashes, which would make any two options similar.
        meant = did_you_mean(option.lstrip("-"), [name.lstrip("-") for name in known])
        return f"there is no option {option}." + (f" Did you mean --{meant}?" if meant else "")
    return str(exc)


def _complete(arguments: list[str]) -> int:
    """Print completions of the last word; never an error, which would disturb typing."""
    from ekiden.cli.parser.shell_completion import completion_lines

    try:
        for line in completion_lines(arguments):
            say(line)
    except Exception as exc:
        debug_trace(exc)
        return Exit.FAILED
    return Exit.OK


# `ekiden route "text"` for a large team that did not change since the last call. The team comes
# from `ekiden.routing.stored_team`; neither the parser nor an event loop is loaded. The result is
# that of the command in `ekiden.cli.commands.run`.

_LONGEST: Final = 2_000
"""Longer texts are rare, and the router may check them in a thread."""
_THREADS: Final = "OPENBLAS_NUM_THREADS"
_MENTIONS: Final = ("@", "＠", "\\")


def quick_route(arguments: Sequence[str]) -> int | None:
    """Run the command; `None` if it must be run as any other, because it has other options than
    ``--json``, or because there is no stored team."""
    words = [word for word in arguments[1:] if word != "--json"]
    as_json = len(arguments) == 3
    if len(words) != 1 or len(arguments) > 3 or os.environ.get("EKIDEN_SERVER"):
        return None
    text = words[0]
    start = text.strip()[:1]
    if not start or start in _MENTIONS or text[0] == "-" or len(text) > _LONGEST:
        return None
    if not is_unicode(text):
        return None
    with _short_process() as has_one_thread:
        return _routed(text, begin=_all_threads if has_one_thread else None, as_json=as_json)


def _routed(text: str, *, begin: Callable[[], None] | None, as_json: bool) -> int | None:
    from ekiden.routing.stored_team import read_team

    team = read_team(os.getcwd())
    if team is None:
        return None
    from ekiden.cli.projects import show_learning, tell_problem
    from ekiden.cli.transcript import print_route
    from ekiden.routing.analysis import analysis

    for data, line in team.problems:
        tell_problem(data, line, as_json=as_json)
    show_learning(as_json=as_json, begin=begin)
    limit = max(len(team.agents), 1)
    decision = _result(team.router.route(text, limit=limit))
    show(analysis(team.agents, team.settings, decision), print_route, as_json=as_json)
    return Exit.OK


@contextmanager
def _short_process() -> Iterator[bool]:
    """Do without what pays only in a process that lives longer: the garbage collector, and numpy's
    threads, which wait for work in a busy loop. Yields whether numpy will have one thread."""
    is_collecting = gc.isenabled()
    gc.disable()
    is_ours = "numpy" not in sys.modules and _THREADS not in os.environ
    if is_ours:
        os.environ[_THREADS] = "1"
    try:
        yield is_ours
    finally:
        if is_ours:
            del os.environ[_THREADS]
        if is_collecting:
            gc.enable()


def _all_threads() -> None:
    """Let numpy use every core after all: a large team is to be learned."""
    from ekiden.embeddings.local import use_threads

    use_threads(os.cpu_count() or 1)


def _result(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits: without a model, routing has nothing to wait
    for."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("routing without a model waits for nothing")
