"""All commands, and the parser that calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from ekiden import __version__

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

HELP = ("--help", "-h")
ABOUT = "Agents hand work to each other and never drop it."
COMMANDS = {
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
GROUPS = {
    "completion": (
        "Let your shell complete commands, options, agents and session ids.",
        {
            "install": "Install completion for bash, zsh or fish.",
            "show": "Print the script, for those who install it themselves.",
        },
    ),
    "agents": (
        "Look after the project's agents.",
        {
            "list": "List the agents.",
            "show": "Show everything about an agent.",
            "validate": "Check agent files; lists every fault.",
            "import": "Write agent files of other tools into .ekiden/agents.",
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


def build(asked: Sequence[str] = ()) -> App:
    """The parser; the commands' own modules are loaded when they are called.

    Of the command that is `asked` about, the help is all that its function says.
    """
    from cyclopts import App
    from rich.console import Console

    from ekiden.cli.help import HelpPage

    app = App(
        name="ekiden",
        help=ABOUT,
        version=f"ekiden {__version__}",
        console=Console(width=10_000),  # Help pages break their lines themselves.
        help_formatter=HelpPage([word for word in asked if word not in HELP]),
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        config=_refuse_fractions,
    )
    for name in COMMANDS:
        app.command(f"ekiden.cli.commands.{name}:{name}", name=name)
    for group, (about, members) in GROUPS.items():
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
