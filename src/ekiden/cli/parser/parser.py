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
    "chat": "Chat with a team.",
    "run": "Send a message to a team.",
    "route": "Show which agent would get a request, and why; nothing is run.",
    "plan": "Show how a request would be split among agents; nothing is run.",
    "trace": "Show what happened in a session: runs, agents, calls, handoffs.",
    "chain": "Show a session's handoffs and their reasons.",
    "watch": "Show events as they happen.",
    "cost": "Show the tokens and cost of model calls.",
    "serve": "Serve the team over HTTP.",
    "mcp": "Serve the team as an MCP server on the standard streams.",
    "doctor": "Check this installation and the store.",
    "bench": "Measure Ekiden against plain asyncio.",
    "simulate": "Run your team in simulated worlds with injected faults.",
}
_MODULES = {
    "chain": "trace",
    "chat": "run",
    "completion": "setup",
    "cost": "trace",
    "doctor": "bench",
    "init": "setup",
    "keys": "serve",
    "mcp": "serve",
    "mirror": "store",
    "plan": "run",
    "route": "run",
    "simulate": "bench",
    "trust": "setup",
    "watch": "trace",
}
"""Commands and groups that share the module of another."""

GROUPS = {
    "completion": (
        "Shell completion of commands, options, agents and session ids.",
        {
            "install": "Install completion for bash, zsh or fish.",
            "show": "Print the completion script, to install it yourself.",
        },
    ),
    "agents": (
        "Show and check the project's agents.",
        {
            "list": "List the agents.",
            "show": "Show everything about an agent.",
            "validate": "Check agent files; lists every fault.",
            "import": "Convert agent files of other tools into .ekiden/agents.",
            "schema": "Print the JSON Schema of agent files, for editors.",
            "ps": "Show which agents work, and what they wait for.",
            "deadlocks": "List agents that waited for each other in a circle.",
            "match": "Find agents by capability.",
        },
    ),
    "config": (
        "Read and change settings.",
        {
            "list": "List the settings, with the source of each.",
            "get": "Print one setting.",
            "set": "Change one setting; the rest of the file stays unchanged.",
            "unset": "Remove a setting from the file.",
            "path": "Print the paths of the settings files.",
            "schema": "Print the JSON Schema of settings files, for editors.",
        },
    ),
    "session": (
        "Manage stored sessions.",
        {
            "list": "List the sessions, newest first.",
            "show": "Show a session's conversation.",
            "resume": "Resume an interrupted session.",
            "search": "Search sessions by title and content.",
            "fork": "Start a new session from an earlier point of another.",
            "rewind": "Rewind a session to an earlier event.",
            "export": "Write a session with all its events as JSON.",
            "import": "Store an exported session.",
            "prune": "Delete old sessions.",
            "delete": "Remove a session.",
        },
    ),
    "memory": (
        "Manage the agents' memories.",
        {
            "list": "List memories by key.",
            "show": "Show one memory.",
            "search": "Search memories, best match first.",
            "store": "Remember something.",
            "forget": "Delete one memory.",
            "export": "Write all memories as JSON lines.",
            "clear": "Forget everything.",
            "sync": "Send pending memory changes to the back ends.",
        },
    ),
    "mirror": (
        "Replicate session events to a mirror.",
        {
            "run": "Replicate events; queue what fails.",
            "status": "Show the replication progress.",
        },
    ),
    "state": (
        "Show and change the state of sessions, users and apps.",
        {
            "show": "Show a session's state, or the variables of a user or an app.",
            "set": "Set variables.",
            "delete": "Delete variables.",
        },
    ),
    "handoff": (
        "Make handoffs, and inspect them.",
        {
            "start": "Hand a session to another agent.",
            "list": "List handoffs, newest first.",
            "show": "Show everything about a handoff.",
            "cancel": "Roll back an unconfirmed handoff, or withdraw a request.",
            "answer": "Answer a session that waits for a person.",
        },
    ),
    "message": (
        "Send and inspect messages between agents.",
        {
            "list": "List messages between agents, oldest first.",
            "show": "Show a message and its delivery.",
            "send": "Send a query or a notice to an agent.",
            "requeue": "Deliver dead or expired messages again.",
        },
    ),
    "collaboration": (
        "Agree on work between agents, and inspect agreements.",
        {
            "list": "List collaborations, oldest first.",
            "show": "Show a collaboration's state and messages.",
            "request": "Ask another agent to take over work.",
            "propose": "Propose terms to another agent.",
            "call": "Call for bids: ask which agents can do a task.",
            "acknowledge": "Accept a request.",
            "accept": "Accept the current terms.",
            "counter": "Propose different terms.",
            "reject": "Reject a request, or the current terms.",
            "bid": "Bid in a call for bids.",
            "decline": "Decline a call.",
            "award": "Accept a bid as it is.",
            "select": "Negotiate with a bidder.",
            "cancel": "End a collaboration.",
        },
    ),
    "inbox": (
        "Answer the questions of agents.",
        {
            "list": "List open items, most urgent first.",
            "show": "Show everything about an item.",
            "answer": "Answer an item.",
            "assign": "Assign an item.",
            "snooze": "Hide an item for a time.",
            "cancel": "Withdraw a question.",
            "watch": "Show new items, and changes of items, as they happen.",
        },
    ),
    "worker": (
        "Run and list workers.",
        {
            "run": "Work on the sessions of a store; `run` may be left out.",
            "list": "List the workers of a store.",
        },
    ),
    "keys": (
        "Manage the API keys of the server.",
        {
            "create": "Create a key; it is shown once.",
            "list": "List the keys, without their secrets.",
            "revoke": "Revoke a key for good.",
        },
    ),
    "store": (
        "Copy, back up and check whole stores.",
        {
            "copy": "Copy everything from SQLite to PostgreSQL, and compare the two.",
            "backup": "Back up the store into a file, while it is in use.",
            "restore": "Restore a backup into an empty store.",
            "verify": "Read everything in the store, and report faults.",
            "info": "Show the store's format and size.",
        },
    ),
    "audit": (
        "Inspect and verify the audit of handoffs and decisions.",
        {
            "list": "List the audit's records, newest first.",
            "show": "Show a record, or all records of a handoff.",
            "verify": "Check that stored events were not altered.",
            "export": "Write records as JSON lines, for an archive.",
        },
    ),
}


def build(asked: Sequence[str] = ()) -> App:
    """The parser; the commands' own modules are loaded when they are called.

    The command that is `asked` about gets its help from its function.
    """
    from cyclopts import App

    from ekiden.cli.parser.help import HelpPage

    console = None
    if asked:
        from rich.console import Console

        console = Console(width=10_000)  # Help pages break their lines themselves.
    app = App(
        name="ekiden",
        help=ABOUT,
        version=f"ekiden {__version__}",
        console=console,
        help_formatter=HelpPage([word for word in asked if word not in HELP]),
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        config=_refuse_fractions,
    )
    for name in COMMANDS:
        app.command(f"ekiden.cli.commands.{_MODULES.get(name, name)}:{name}", name=name)
    for group, (about, members) in GROUPS.items():
        commands = App(name=group, help=about)
        for name, text in members.items():
            target = f"ekiden.cli.commands.{_MODULES.get(group, group)}:{group}_{name}"
            is_asked = list(asked[:2]) == [group, name]
            commands.command(target, name=name, help=None if is_asked else text)
        app.command(commands)
    return app


def _refuse_fractions(_: App, __: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse a fraction where an integer is required; the parser would round it."""
    from cyclopts import CoercionError

    for argument in arguments:
        if int not in (argument.hint, *get_args(argument.hint)):
            continue
        for token in argument.tokens:
            if "." in token.value:
                raise CoercionError(argument=argument, token=token, target_type=int)
