"""The door: parses the command line, calls one command, and turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, get_args

from ekiden import __version__
from ekiden.cli.errors import BadInput, Interrupted, UsageError
from ekiden.cli.exits import Exit, exit_for_error
from ekiden.cli.output import complain, prepare_log, prepare_streams, say
from ekiden.cli.server_option import put_server
from ekiden.core.conversation.quotes import is_unicode
from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

_ABOUT = "Agents hand work to each other and never drop it."
_COMMANDS = {
    "init": "Write a working team of agents into this folder.",
    "trust": "Trust the files of a folder: the code, commands and addresses in them.",
    "chat": "Talk with a team.",
    "run": "Say something to a team.",
    "route": "Show which agent would get a request, and why; nothing is run.",
    "plan": "Show how a request would be split among agents; nothing is run.",
    "trace": "Show what happened in a session: runs, agents, calls, handoffs.",
    "chain": "Show who handed a session to whom, and why.",
    "watch": "Show events as they happen.",
    "cost": "Show what model calls used and cost.",
    "serve": "Serve the team over HTTP.",
    "mcp": "Serve the team as an MCP server on the standard streams.",
    "doctor": "Check this installation and the store.",
    "bench": "Measure Ekiden against plain asyncio.",
    "simulate": "Run your team in simulated worlds in which everything goes wrong.",
}
_GROUPS = {
    "agents": (
        "Look after the project's agents.",
        {
            "list": "List the agents.",
            "show": "Show everything about an agent.",
            "validate": "Check agent files; lists every fault.",
            "schema": "Print the JSON Schema of agent files, for editors.",
            "ps": "Show who works, and who waits for whom.",
            "deadlocks": "List agents that waited for each other in a circle.",
            "match": "Find the agents that have certain capabilities.",
        },
    ),
    "config": (
        "Read and change settings.",
        {
            "list": "List the settings, with where each comes from.",
            "get": "Print one setting.",
            "set": "Change one setting; the rest of the file stays as it is.",
            "unset": "Take a setting out of the file.",
            "path": "Say where the settings files are.",
            "schema": "Print the JSON Schema of settings files, for editors.",
        },
    ),
    "session": (
        "Look after stored sessions.",
        {
            "list": "List the sessions, newest first.",
            "show": "Show a session's conversation.",
            "resume": "Go on with a session that was interrupted.",
            "search": "Find sessions by titles and by what was said.",
            "fork": "Begin a new session from an earlier point of another.",
            "rewind": "Take a session back to an earlier event.",
            "export": "Write a session with all its events as JSON.",
            "import": "Store a session that was exported.",
            "prune": "Remove old sessions.",
            "delete": "Remove a session.",
        },
    ),
    "memory": (
        "Look after what agents remember.",
        {
            "list": "List what is remembered, by key.",
            "show": "Show one memory.",
            "search": "Find memories, the best first.",
            "store": "Remember something.",
            "forget": "Forget one memory.",
            "export": "Write all memories as JSON lines.",
            "clear": "Forget everything.",
            "sync": "Tell back ends what waits to be sent to them.",
        },
    ),
    "mirror": (
        "Send what is said in sessions to their mirror.",
        {
            "run": "Send it, as it is said; what cannot be sent waits.",
            "status": "Show how far the mirror is.",
        },
    ),
    "state": (
        "Look into the state of sessions, users and apps, and change it.",
        {
            "show": "Show how a session stands or stood, or a user's or an app's variables.",
            "set": "Set variables.",
            "delete": "Delete variables.",
        },
    ),
    "handoff": (
        "Hand sessions over, and look into handoffs.",
        {
            "start": "Hand a session to another agent.",
            "list": "List handoffs, newest first.",
            "show": "Show everything about a handoff.",
            "cancel": "Undo a handoff that is not confirmed, or withdraw one.",
            "answer": "Answer, as a person, a session that waits for one.",
        },
    ),
    "message": (
        "Look into messages between agents, and send some.",
        {
            "list": "List messages between agents, the oldest first.",
            "show": "Show a message and what became of it.",
            "send": "Ask an agent something, or tell it.",
            "requeue": "Deliver messages again that are dead or expired.",
        },
    ),
    "collaboration": (
        "Let agents agree on work, and look into their agreements.",
        {
            "list": "List collaborations, the oldest first.",
            "show": "Show a collaboration, with what was said in it.",
            "request": "Ask another agent to take work over.",
            "propose": "Propose terms to another agent.",
            "call": "Call for bids: ask who can do something.",
            "acknowledge": "Say yes to a request.",
            "accept": "Accept the terms on the table.",
            "counter": "Propose other terms.",
            "reject": "Reject a request, or the terms on the table.",
            "bid": "Bid for a call.",
            "decline": "Decline a call.",
            "award": "Take a bid as it is.",
            "select": "Negotiate with a bidder.",
            "cancel": "End a collaboration.",
        },
    ),
    "inbox": (
        "Answer what agents ask people.",
        {
            "list": "List what waits for people, the most urgent first.",
            "show": "Show everything about a question.",
            "answer": "Answer a question, once.",
            "assign": "Say whose a question is.",
            "snooze": "Hide a question for a time.",
            "cancel": "Withdraw a question.",
            "watch": "Show questions, and what becomes of them, as they come.",
        },
    ),
    "worker": (
        "Work on the sessions of a store, and see who does.",
        {
            "run": "Work on the sessions of a store, with others; `run` may be left out.",
            "list": "List the workers of a store.",
        },
    ),
    "keys": (
        "Look after the keys that callers of the server need.",
        {
            "create": "Make a key; it is shown once.",
            "list": "List the keys, without their secrets.",
            "revoke": "Make a key useless, for ever.",
        },
    ),
    "store": (
        "Look after whole stores.",
        {
            "copy": "Copy everything from SQLite to PostgreSQL, and compare the two.",
            "backup": "Back up the store into a file, while others work with it.",
            "restore": "Restore a backup into an empty store.",
            "verify": "Read everything in the store, and tell what is wrong.",
            "info": "Show what the store is and how much is in it.",
        },
    ),
    "audit": (
        "Look into the audit: who handed what to whom, who decided, and whether it was changed.",
        {
            "list": "List the audit's records, newest first.",
            "show": "Show a record, or all records of a handoff.",
            "verify": "Find out whether somebody changed what is stored.",
            "export": "Write records as JSON lines, to be kept elsewhere.",
        },
    ),
}

_HELP = ("--help", "-h")


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
    """What there is; made without the parser, which takes longer to load than all the rest."""
    commands = {
        **_COMMANDS,
        **{
            f"{group} {name}": text
            for group, (_, members) in _GROUPS.items()
            for name, text in members.items()
        },
    }
    width = max(map(len, commands))
    return "\n".join(
        [
            "Usage: ekiden COMMAND [OPTIONS]",
            "",
            _ABOUT,
            "",
            *(f"  {name:{width}}  {text}" for name, text in commands.items()),
            "",
            "`ekiden COMMAND --help` says more. EKIDEN_STORE names the store; --server URL, or",
            "EKIDEN_SERVER, lets a command work with a server instead, with the key in",
            "EKIDEN_API_KEY.",
        ]
    )


def build(asked: Sequence[str] = ()) -> App:
    """The parser; the commands' own modules are loaded when they are called.

    Of the command that is `asked` about, the help is all that its function says.
    """
    from cyclopts import App

    app = App(
        name="ekiden",
        help=_ABOUT,
        version=f"ekiden {__version__}",
        help_formatter="plain",
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        config=_refuse_fractions,
    )
    for name in _COMMANDS:
        app.command(f"ekiden.cli.commands.{name}:{name}", name=name)
    for group, (about, members) in _GROUPS.items():
        commands = App(name=group, help=about)
        for name, text in members.items():
            target = f"ekiden.cli.commands.{group}:{group}_{name}"
            is_asked = list(asked[:2]) == [group, name]
            commands.command(target, name=name, help=None if is_asked else text)
        app.command(commands)
    return app


def _refuse_fractions(_: App, __: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse a fraction where a whole number belongs, which the parser would round."""
    from cyclopts import CoercionError

    for argument in arguments:
        if int not in (argument.hint, *get_args(argument.hint)):
            continue
        for token in argument.tokens:
            if "." in token.value:
                raise CoercionError(argument=argument, token=token, target_type=int)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors too are to be JSON: said before anything is parsed, for errors in parsing."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options or "--json-lines" in options


def _dispatch(arguments: list[str]) -> int:
    from cyclopts import CycloptsError

    if "-" in arguments and "--" not in arguments:
        # A lone dash is standard input, which the parser would take for an option.
        arguments.remove("-")
        arguments += ["--", "-"]
    if arguments[0] == "worker" and (
        arguments[1:] == [] or (arguments[1].startswith("-") and arguments[1] not in _HELP)
    ):
        arguments.insert(1, "run")
    for before, word in pairwise(["", *arguments]):
        if not is_unicode(word):
            option = word.partition("=")[0] if word.startswith("--") else before
            what = option if option.startswith("--") and is_unicode(option) else ascii(word)[:80]
            raise BadInput(f"{what} is not UTF-8; convert it first, for example with iconv")
    put_server(arguments, _GROUPS)
    try:
        app = build(arguments) if any(each in arguments for each in _HELP) else build()
        code = app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as exc:
        raise UsageError(f"{exc} `ekiden --help` shows what there is.") from exc
    return Exit.OK if code is None else code


def _debug() -> None:
    if os.environ.get("EKIDEN_DEBUG") == "1":
        import traceback

        traceback.print_exc()
