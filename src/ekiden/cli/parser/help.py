"""Help pages: two columns, lines that fit the terminal, and an example for each command."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions


EXAMPLES: Final[Mapping[str, str]] = {
    "init": "ekiden init\nekiden init --template coding --model openai:gpt-5-mini --yes",
    "trust": "ekiden trust --show\nekiden trust",
    "completion": "ekiden completion install",
    "completion install": "ekiden completion install --shell zsh",
    "completion show": "ekiden completion show --shell fish",
    "chat": "ekiden chat --continue",
    "run": 'ekiden run "Where is my order 1042?"\nekiden run "@billing I was charged twice"',
    "route": 'ekiden route "I was charged twice"',
    "plan": 'ekiden plan "Where is order 1042, and what do I owe?"',
    "trace": "ekiden trace\nekiden trace ses_06gys83gccfs --errors",
    "chain": "ekiden chain ses_06gys83gccfs",
    "watch": "ekiden watch --agent billing --type handoff",
    "cost": "ekiden cost --since 7d --by model",
    "serve": "ekiden serve --port 8321",
    "mcp": "ekiden mcp --scope read",
    "doctor": "ekiden doctor",
    "bench": "ekiden bench s1 --quick",
    "simulate": 'ekiden simulate shop.py:team --say "Where is my order?" --seeds 100',
    "agents": "ekiden agents list",
    "agents list": "ekiden agents list --wide",
    "agents show": "ekiden agents show billing",
    "agents validate": "ekiden agents validate .ekiden/agents/billing.md",
    "agents import": "ekiden agents import ~/downloads/agents --dry-run",
    "agents schema": "ekiden agents schema",
    "agents ps": "ekiden agents ps",
    "agents deadlocks": "ekiden agents deadlocks --limit 5",
    "agents match": "ekiden agents match refunds,invoices",
    "config": "ekiden config list",
    "config list": "ekiden config list",
    "config get": "ekiden config get agents.routing.strategy",
    "config set": "ekiden config set model openai:gpt-5-mini",
    "config unset": "ekiden config unset model",
    "config path": "ekiden config path",
    "config schema": "ekiden config schema",
    "session": "ekiden session list",
    "session list": "ekiden session list --agent billing --status waiting_person --limit 10",
    "session show": "ekiden session show ses_06gys83gccfs",
    "session resume": "ekiden session resume ses_06gys83gccfs --wait",
    "session search": 'ekiden session search "parcel from Kyoto"',
    "session fork": "ekiden session fork ses_06gys83gccfs --at 12",
    "session rewind": "ekiden session rewind ses_06gys83gccfs --to 12",
    "session request": "ekiden session request ses_06gys83gccfs --event 3",
    "session export": "ekiden session export ses_06gys83gccfs --output session.json",
    "session import": "ekiden session import session.json --id copy-1",
    "session prune": "ekiden session prune --older-than 30d --dry-run",
    "session delete": "ekiden session delete ses_06gys83gccfs",
    "memory": "ekiden memory list --user anna",
    "memory list": "ekiden memory list --user anna --limit 10",
    "memory show": "ekiden memory show colour --user anna",
    "memory search": 'ekiden memory search "which colour" --user anna',
    "memory store": 'ekiden memory store "likes blue" --key colour --user anna',
    "memory forget": "ekiden memory forget colour --user anna",
    "memory export": "ekiden memory export --user anna --output anna.jsonl",
    "memory clear": "ekiden memory clear --user anna",
    "memory sync": "ekiden memory sync",
    "mirror": "ekiden mirror status",
    "mirror run": "ekiden mirror run --once",
    "mirror status": "ekiden mirror status",
    "state": "ekiden state show ses_06gys83gccfs",
    "state show": "ekiden state show ses_06gys83gccfs --at 12",
    "state set": "ekiden state set ses_06gys83gccfs tier=gold",
    "state delete": "ekiden state delete ses_06gys83gccfs tier",
    "handoff": "ekiden handoff list",
    "handoff start": 'ekiden handoff start ses_06gys83gccfs --to billing --reason "a refund"',
    "handoff list": "ekiden handoff list --to billing --status failed --since 2h",
    "handoff show": "ekiden handoff show ses_06gys83gccfs.h1",
    "handoff cancel": 'ekiden handoff cancel ses_06gys83gccfs.h1 --reason "not needed"',
    "handoff answer": 'ekiden handoff answer ses_06gys83gccfs "It leaves today." --back',
    "message": "ekiden message list",
    "message list": "ekiden message list --agent billing --status open",
    "message show": "ekiden message show msg_06gys83gccfs",
    "message send": 'ekiden message send billing "Is order 1042 paid?"',
    "message requeue": "ekiden message requeue msg_06gys83gccfs",
    "collaboration": "ekiden collaboration list",
    "collaboration list": "ekiden collaboration list --phase negotiation",
    "collaboration show": "ekiden collaboration show col_06gys83gccfs",
    "collaboration request": 'ekiden collaboration request billing "Refund order 7." --as triage',
    "collaboration propose": "ekiden collaboration propose billing '{\"price\": 10}' --as triage",
    "collaboration call": (
        'ekiden collaboration call translation --task "Translate this." --as triage'
    ),
    "collaboration acknowledge": "ekiden collaboration acknowledge col_06gys83gccfs --as billing",
    "collaboration accept": "ekiden collaboration accept col_06gys83gccfs --as billing --version 2",
    "collaboration counter": (
        "ekiden collaboration counter col_06gys83gccfs 12 --as billing --version 1"
    ),
    "collaboration reject": "ekiden collaboration reject col_06gys83gccfs --as billing",
    "collaboration bid": "ekiden collaboration bid col_06gys83gccfs --score 0.8 --as billing",
    "collaboration decline": "ekiden collaboration decline col_06gys83gccfs --as billing",
    "collaboration award": (
        "ekiden collaboration award col_06gys83gccfs --as triage --bidder billing"
    ),
    "collaboration select": (
        "ekiden collaboration select col_06gys83gccfs --as triage --bidder billing"
    ),
    "collaboration cancel": "ekiden collaboration cancel col_06gys83gccfs --as triage",
    "inbox": "ekiden inbox list",
    "inbox list": "ekiden inbox list --status closed --role operator",
    "inbox show": "ekiden inbox show inb_06gys83gccfs",
    "inbox answer": "ekiden inbox answer inb_06gys83gccfs yes",
    "inbox assign": "ekiden inbox assign inb_06gys83gccfs mira",
    "inbox snooze": "ekiden inbox snooze inb_06gys83gccfs 2h",
    "inbox cancel": 'ekiden inbox cancel inb_06gys83gccfs --reason "solved by phone"',
    "inbox watch": "ekiden inbox watch --role operator",
    "worker": "ekiden worker",
    "worker run": "ekiden worker run --concurrency 20 --label gpu",
    "worker list": "ekiden worker list",
    "keys": "ekiden keys list",
    "keys create": "ekiden keys create shop --scope run --expires 30d",
    "keys list": "ekiden keys list",
    "keys revoke": "ekiden keys revoke key_06gys83gccfs",
    "store": "ekiden store info",
    "store copy": "ekiden store copy .ekiden/ekiden.db postgresql://localhost/ekiden",
    "store backup": "ekiden store backup backup.db",
    "store restore": "ekiden store restore backup.db --store new.db",
    "store verify": "ekiden store verify",
    "store info": "ekiden store info",
    "store migrate": "ekiden store migrate --dry-run",
    "audit": "ekiden audit list",
    "audit list": "ekiden audit list --agent billing --since 7d",
    "audit show": "ekiden audit show ses_06gys83gccfs.h1",
    "audit verify": "ekiden audit verify --against audit.jsonl",
    "audit export": "ekiden audit export --output audit.jsonl",
}
"""By command, or by group."""

FIELDS: Final[Mapping[str, str]] = {
    "init": (
        "the fields template, folder, written, kept, model and trusted (false if existing files "
        "need trust)"
    ),
    "trust": (
        "the fields folder, trusted, content (hash of the files, or null) and lines [{path, line, "
        "key, value, effect}]. With --list, the fields are folder and trusted_at. With --revoke, "
        "the fields are folder and revoked"
    ),
    "completion install": (
        "the fields shell, script and startup (shell file that loads the script, or null)"
    ),
    "chat": "one object per line",
    "run": (
        "the fields session_id, agent, output, outcome, chain, handoffs and usage. A session that "
        "waits for people also has the field waiting_for [{id, kind, from_agent, role, subject, "
        "options, deadline_us, session_id}]. With --stream, the output is one line per event or "
        "text delta, and then the result"
    ),
    "route": (
        "the fields agent (or null), method, confidence, matched_keywords, matched_patterns, "
        "candidates [{agent, score, confidence, method, matches}], reason, elapsed_ms, strategy, "
        "cause (why the request was routed) and stages (results of the routing methods, in order)"
    ),
    "plan": (
        "the fields reasoning, requires_aggregation, method (model, rules, or own for a plan made "
        "by Python code), tasks [{task_id, agent, description, parameters, depends_on}], notes "
        "and supervisor (or null). A plan made by a model also has the field model"
    ),
    "trace": (
        "an array of spans with the fields trace_id, span_id, parent_id, kind, name, session_id, "
        "correlation_id, started_at, ended_at and status (ok, error or waiting). Optional fields "
        "are agent_name, duration_ms, error, details, content, tokens, cost, links (ids of "
        "related spans) and depth. The fields total_tokens, total_cost and unpriced_requests are "
        "sums over a span and all spans below it. With --follow, each line is the start or the "
        "end of a span"
    ),
    "chain": (
        "the fields session_id, chain and handoffs. A session that waits also has the field "
        "waiting_for (text)"
    ),
    "watch": "one line per event, with its id and the same fields as in `ekiden session export`",
    "cost": (
        "the fields by, lines, total and unpriced_models. Each entry of lines has the fields that "
        "you group by, and requests, input_tokens, cached_tokens, output_tokens, "
        "reasoning_tokens, tokens, cost and unpriced_requests"
    ),
    "serve": "the fields url, store, workers and person_token, as soon as the server is ready",
    "doctor": "the fields ok and checks [{name, status, detail, not_checked}]",
    "agents list": (
        "the fields name, title, description, scope, model, origin, path, tools, handoffs, "
        "can_ask, can_tell, can_ask_people, kind, triggers, capabilities, available and "
        "max_sessions"
    ),
    "agents show": (
        "the fields of `ekiden agents list`, and handoff_description, guardrails, memory, "
        "supervisor, runs_on, durability and instructions"
    ),
    "agents validate": (
        "the fields ok, no_model (agents without a model) and problems [{path, line, column, "
        "code, message, severity}]. The fields files, errors, warnings and not_looked_up "
        "(functions that were not imported) are counts"
    ),
    "agents import": (
        "the fields dry_run and files [{source, status, name, path, tools, model, problems}]"
    ),
    "agents ps": (
        "the fields agent, known (whether the team has this agent), router (whether this entry is "
        "the router), running [{session_id, owner}], status (none, internal or user) and waits "
        "[{agent, status, waiting_for, reason, message_id, started_at, session_id}]. The fields "
        "sessions, idle, ready and waiting are numbers of sessions"
    ),
    "agents deadlocks": (
        "the fields id, cycle (agents), message_ids, victim, given_up (ids of the cancelled "
        "queries), policy, found_at, resolved and asks [{from, to, message_id, text, given_up}]. "
        "Each entry of asks is a query; its field given_up tells whether the query was cancelled"
    ),
    "agents match": (
        "the fields agent, score, matched, missing, by (kind of match: name, tag or meaning), "
        "fits [{required, capability, proficiency, by, similarity}], available and load. Each "
        "entry of fits is one matched capability"
    ),
    "session show": "the session with its conversation (items), handoffs and variables",
    "handoff start": (
        "the fields id, session_id, status, source, target, error {code, message}, "
        "rollback_performed, completed_at, agent (current agent), outcome, speaker (agent that "
        "answered), output and standing (state of the session: running, waiting, ready or idle). "
        "A failed run also has the field problem {code, message}"
    ),
    "handoff list": (
        "the fields id, session_id, source, target, status, by {kind, name}, policy, started_at, "
        "settled_at and moves [{status, at, seq}]. The field by is the initiator; each entry of "
        "moves is a status change. Optional fields are reason, code, error, trigger, request (id "
        "of the handoff request), filter, evaluation (of an unmet condition), priority, metadata, "
        "compensated and not_compensated"
    ),
    "handoff show": (
        "the fields of `ekiden handoff list`, and task_id, correlation_id, call_id, words "
        "(message of the handoff), compensations_failed, agent (current agent of the session), "
        "audit (ids of audit records) and view {counts, chars_before, chars_after, rows, new}. "
        "The field view describes what the filters changed"
    ),
    "handoff cancel": (
        "the fields id, status, source, target, error {code, message}, rollback_performed and "
        "completed_at"
    ),
    "handoff answer": "the fields of `ekiden run`",
    "message list": "the same objects as GET /messages on a server",
    "message show": "the same object as GET /messages/{id} on a server",
    "message requeue": "the field requeued (number of messages)",
    "collaboration list": "the same objects as GET /collaborations on a server",
    "inbox list": (
        "the fields id, kind, from_agent, subject, body, options (choices), context, priority "
        "(from 1, low, to 4, urgent), role, assignee, chain (roles to ask next) and status. "
        "Further fields are answer, reason, session_id, task_id, correlation_id, message_id, "
        "tool, tool_version, definition, scope, arguments, notice (true if no answer is needed), "
        "version, default (answer after the deadline) and closed_by. Times are microseconds since "
        "1970: created_at_us, deadline_us, escalate_at_us, snoozed_until_us and closed_at_us"
    ),
    "inbox show": "the item",
    "inbox answer": (
        "the item. With --identical, the fields are answered (ids of the answered items) "
        "and closed (number of items that were closed meanwhile)"
    ),
    "inbox assign": "the item",
    "inbox snooze": "the item",
    "inbox cancel": "the item",
    "inbox watch": (
        "one line per change, with the fields event_id, data and type (inbox.new_item, "
        "inbox.assigned, inbox.snoozed, inbox.back, inbox.escalated, inbox.answered, "
        "inbox.expired or inbox.cancelled)"
    ),
    "worker run": (
        "the fields store, owner (name of this process), concurrency, agents, labels and tenants, "
        "as soon as the worker is ready. At the end, the worker prints the number of finished "
        "sessions in the field finished"
    ),
    "worker list": (
        "the fields workers and unserved [{agent, sessions, needs}]. Each entry of unserved is an "
        "agent that has ready sessions but no worker; needs lists the labels that its worker must "
        "have"
    ),
    "keys create": (
        "the fields id, name, tenant, scopes, status, created_at, expires_at, last_used_at, "
        "revoked_at and key"
    ),
    "keys list": "the fields of `ekiden keys create`, except key",
    "keys revoke": "the fields of `ekiden keys create`, except key",
    "store copy": (
        "the fields source, target, rows, seconds, audit_ok and tenants [{tenant, counts, "
        "digests, audit, leases, later}]. The fields counts and digests describe the copied rows "
        "of each table. The field leases is the number of sessions that were running in the "
        "source. The field later is the change of the source's row counts during the copy"
    ),
    "store backup": (
        "the fields source, target, seconds, ok and tenants (as in `ekiden store verify`). For a "
        "PostgreSQL dump, tenants is empty"
    ),
    "store restore": (
        "the fields source, target, seconds, ok and tenants (as in `ekiden store verify`)"
    ),
    "store verify": (
        "the fields ok and tenants [{tenant, url, ok, faults, checked, not_checked, audit}]"
    ),
    "store info": (
        "the fields tenant, url, engine, version, format, unfinished (source of an incomplete "
        "copy, or null), leases (number of running sessions) and taken (number of messages in "
        "processing). The fields sessions, events, steps, documents, messages, search_spaces and "
        "search_entries are row counts. The field estimated lists the counts that are only "
        "estimates"
    ),
    "store migrate": (
        "for each tenant the fields tenant, url, format (before the migration), pending [{number, "
        "name, works_with}] and migrated (false with --dry-run, or if pending is empty). The field "
        "works_with is the oldest format whose processes can keep running, or null"
    ),
    "audit list": (
        "the fields id, timestamp, session_id, type, move (new status of a handoff), actor {kind, "
        "name}, from, to, handoff_id, task_id, correlation_id, reason, code, error, facts, hash "
        "and previous (hash of the previous record)"
    ),
    "audit show": "the fields of `ekiden audit list`",
    "audit verify": (
        "the fields ok, checked, not_checked, first (first broken link, or null) and links "
        "[{record_id, session_id, fault, message, timestamp}] (at most 1,000 broken links). All "
        "other fields are counts, such as sessions, events, unhashed and broken"
    ),
}
"""The output of `--json`, for commands where it is not obvious."""

_WIDEST: Final = 100
_COLUMN: Final = 26
"""The column where texts begin."""


class HelpPage:
    """Prints the parts of a help page for the command in `words`."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._words = words

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """The first line."""
        text = " ".join(("Usage:", *plain(usage).removeprefix("Usage:").split()))
        _print(console, [*_wrapped(text, indent=len("Usage: ")), ""])

    def render_description(self, console: Console, options: ConsoleOptions, part: Any) -> None:
        """The description of the command, and an example."""
        lines = list(paragraphs(plain(part)))
        example = EXAMPLES.get(" ".join(self._words[:2])) or EXAMPLES.get(" ".join(self._words[:1]))
        if example is not None:
            lines += ["Example:" if "\n" not in example else "Examples:", ""]
            lines += [*(f"    {line}" for line in example.split("\n")), ""]
        _print(console, lines)

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Arguments, options or commands."""
        if not panel.entries:
            return
        lines = [f"{plain(panel.title).replace('Parameters', 'Options')}:"]
        fields = FIELDS.get(" ".join(self._words[:2])) or FIELDS.get(" ".join(self._words[:1]))
        for entry in panel.entries:
            lines += described(shown_name(entry), shown_text(entry, fields))
        _print(console, [*lines, ""])


def described(name: str, text: str) -> list[str]:
    """A name with its text next to it, or below it if the name is long."""
    head = f"  {name}"
    lines = _wrapped(" " * _COLUMN + text, indent=_COLUMN)
    if len(head) <= _COLUMN - 2:
        return [head + lines[0][len(head) :], *lines[1:]]
    return [head, *lines]


def paragraphs(text: str) -> Iterable[str]:
    """A text as filled paragraphs, each with an empty line below; indented parts stay unchanged."""
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        yield from part.split("\n") if part.startswith("    ") else _wrapped(" ".join(part.split()))
        yield ""


def shown_name(entry: HelpEntry) -> str:
    """The name to show; an older one is left out, a short one stays."""
    if entry.positional_label:
        return entry.positional_label
    long = (*entry.positive_names[:1], *entry.negative_names[:1])
    label = ", ".join((*long, *entry.positive_shorts))
    return f"{label} {entry.metavar}" if entry.metavar else label


def shown_text(entry: HelpEntry, fields: str | None = None) -> str:
    """The help text of an option: its effect, its values, and the `fields` that `--json` prints."""
    parts = [" ".join(plain(entry.description).split())]
    if fields is not None and "--json" in entry.positive_names:
        parts = [f"{parts[0].removesuffix('.')}: {fields}."]
    if entry.choices:
        parts.append(f"[choices: {', '.join(entry.choices)}]")
    if entry.env_var:
        parts.append(f"[env var: {', '.join(entry.env_var)}]")
    if entry.default not in (None, "()", "False", '""'):
        parts.append(f"[default: {entry.default}]")
    if entry.required:
        parts.append("[required]")
    return " ".join(parts)


def _wrapped(text: str, *, indent: int = 0) -> list[str]:
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    return textwrap.wrap(
        text,
        max(width, 2 * _COLUMN),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def plain(part: Any) -> str:
    """A part of a help page as text."""
    text = getattr(part, "primary_renderable", part)
    return str(getattr(text, "plain", text) or "").strip("\n")


def _print(console: Console, lines: Iterable[str]) -> None:
    console.print("\n".join(lines), highlight=False, markup=False, emoji=False, soft_wrap=True)
