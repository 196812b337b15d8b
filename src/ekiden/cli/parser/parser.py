"""All commands, and the parser that calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from ekiden import __version__

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

HELP = ("--help", "-h")
ABOUT = "Run teams of agents that hand work to each other without losing it."
COMMANDS = {
    "init": "Write a working team of agents into this folder.",
    "trust": "Trust the code, commands and network addresses in a folder's files.",
    "chat": "Chat with a team.",
    "run": "Send a message to a team and print the answer.",
    "route": "Show which agent would get a request, and why. The request is not run.",
    "plan": "Show how a supervisor would split a request into tasks. The request is not run.",
    "trace": "Show the trace of a session: its runs, agents, calls and handoffs.",
    "chain": "Show a session's handoffs and their reasons.",
    "watch": "Show events as they happen.",
    "cost": "Show the tokens and cost of model calls.",
    "serve": "Serve the team over HTTP.",
    "mcp": "Serve the team to one MCP client, over standard input and output.",
    "doctor": "Check this installation and the store.",
    "bench": "Compare the speed of Ekiden with plain asyncio.",
    "simulate": "Test your team in simulated worlds, into which faults are injected.",
}
_MODULES = {
    "audit": "administration",
    "chain": "trace",
    "chat": "run",
    "completion": "setup",
    "config": "bench",
    "cost": "trace",
    "doctor": "bench",
    "init": "setup",
    "keys": "serve",
    "mcp": "serve",
    "memory": "state",
    "message": "collaboration",
    "mirror": "administration",
    "plan": "run",
    "route": "run",
    "simulate": "bench",
    "store": "administration",
    "trust": "setup",
    "watch": "trace",
}
"""Commands and groups that share the module of another."""

GROUPS = {
    "completion": (
        "Shell completion of commands, options, agents and session ids.",
        {
            "install": "Install completion for bash, zsh or fish.",
            "show": "Print the completion script, so that you can install it yourself.",
        },
    ),
    "agents": (
        "Show and check the project's agents.",
        {
            "list": "List the agents.",
            "show": "Show all details of an agent.",
            "validate": "Check agent files, and list every error.",
            "import": "Convert agent files of other programs into .ekiden/agents.",
            "schema": "Print the JSON Schema of agent files, for editors.",
            "ps": "Show the sessions of each agent, and what each agent waits for.",
            "deadlocks": "List deadlocks: agents that wait for each other in a circle.",
            "match": "Find agents by capability.",
        },
    ),
    "config": (
        "Read and change settings.",
        {
            "list": "List all settings with their values and sources.",
            "get": "Print the value of a setting.",
            "set": "Set the value of a setting.",
            "unset": "Remove a setting from a settings file.",
            "path": "Print the paths of the settings files.",
            "schema": "Print the JSON Schema of settings files, for editors.",
        },
    ),
    "session": (
        "Manage stored sessions.",
        {
            "list": "List the sessions, newest first.",
            "show": "Show a session's conversation.",
            "resume": "Resume a session that was interrupted, failed or waited.",
            "search": "Search sessions by title and content.",
            "fork": "Copy a session up to an earlier point into a new session.",
            "rewind": "Rewind a session to an earlier event.",
            "request": "Write the request of a model call as JSON.",
            "export": "Write a session with all its events as JSON.",
            "import": "Store an exported session.",
            "prune": "Delete old sessions.",
            "delete": "Delete a session with all its events.",
        },
    ),
    "memory": (
        "Manage the agents' memories.",
        {
            "list": "List memories, sorted by key.",
            "show": "Show one memory.",
            "search": "Search memories, best match first.",
            "store": "Store a memory.",
            "forget": "Delete one memory.",
            "export": "Write all memories as JSON lines.",
            "clear": "Delete all memories of a user, or of the whole app.",
            "sync": "Send pending memory changes to the external memory services.",
        },
    ),
    "mirror": (
        "Replicate session events to another system, the mirror.",
        {
            "run": "Copy session events to another system, the mirror, as they happen.",
            "status": "Show how many events were replicated.",
        },
    ),
    "state": (
        "Show and change the state of sessions, users and apps.",
        {
            "show": "Show a session's state, or the variables of a user or an app.",
            "set": "Set variables of a session, a user or an app.",
            "delete": "Delete variables of a session, a user or an app.",
        },
    ),
    "handoff": (
        "Start, inspect, cancel and answer handoffs.",
        {
            "start": "Hand off a session to another agent.",
            "list": "List handoffs, newest first.",
            "show": "Show all details of a handoff.",
            "cancel": "Roll back a handoff that is not completed, or withdraw a handoff request.",
            "answer": "Answer a session that was handed off to a person.",
        },
    ),
    "message": (
        "Send and inspect messages between agents.",
        {
            "list": "List messages between agents, oldest first.",
            "show": "Show a message and its delivery status.",
            "send": "Send a query or a notification to an agent.",
            "requeue": "Deliver dead or expired messages again.",
        },
    ),
    "collaboration": (
        "Let agents negotiate who does a task, and inspect their agreements.",
        {
            "list": "List collaborations, oldest first.",
            "show": "Show a collaboration's state and messages.",
            "request": "Ask another agent to do a task.",
            "propose": "Propose terms to another agent.",
            "call": "Call for bids: ask which agents can do a task.",
            "acknowledge": "Accept a request without changes.",
            "accept": "Accept the current terms.",
            "counter": "Propose different terms.",
            "reject": "Reject a request, or the current terms.",
            "bid": "Make a bid in a call for bids.",
            "decline": "Decline a call for bids, or withdraw a bid.",
            "award": "Accept a bid without changes.",
            "select": "Negotiate with one of the bidders.",
            "cancel": "End a collaboration before it is completed.",
        },
    ),
    "inbox": (
        "Answer questions from agents, and manage the inbox.",
        {
            "list": "List the open items of the inbox, most urgent first.",
            "show": "Show all details of an inbox item.",
            "answer": "Answer an inbox item.",
            "assign": "Assign an inbox item to a person.",
            "snooze": "Hide an inbox item for a while.",
            "cancel": "Cancel an inbox item.",
            "watch": "Show new and changed inbox items as they happen.",
        },
    ),
    "worker": (
        "Run and list workers.",
        {
            "run": "Run the sessions of a store, together with other workers.",
            "list": "List the workers of a store.",
        },
    ),
    "keys": (
        "Manage the API keys of the server.",
        {
            "create": "Create an API key for the server.",
            "list": "List the API keys, without their secrets.",
            "revoke": "Revoke an API key permanently.",
        },
    ),
    "store": (
        "Copy, back up, check and migrate whole stores.",
        {
            "copy": "Copy everything from SQLite to PostgreSQL, and compare the two.",
            "backup": "Back up the store into a file, while it is in use.",
            "restore": "Restore a backup into an empty store.",
            "verify": "Check all data in the store, and report errors.",
            "info": "Show the store's format and size.",
            "migrate": "Bring the store to the format of this version.",
        },
    ),
    "audit": (
        "Inspect and verify the audit log of handoffs and decisions.",
        {
            "list": "List the records of the audit log, newest first.",
            "show": "Show an audit record, or all records of a handoff.",
            "verify": "Check that no stored event was altered.",
            "export": "Write audit records as JSON lines.",
        },
    ),
}


def build(asked: Sequence[str] = ()) -> App:
    """The parser; the commands' own modules are loaded when they are called.

    The command that is `asked` about gets its help from its function.
    """
    from cyclopts import App, Parameter

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
        default_parameter=Parameter(negative=""),  # No --no-x; an option that has one says so.
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
