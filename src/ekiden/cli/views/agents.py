"""Agents, their work and their waits, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ekiden.api.agents import AgentDetails, AgentPresence, AgentSummary
from ekiden.bus.deadlocks import Deadlock
from ekiden.capabilities import Fit, Match, missing_capabilities
from ekiden.cli.output import Cell, Extra, Id, Table, TimeCell, Whole, moment, print_table, say
from ekiden.core.handoffs import DEFAULT_TERMS
from ekiden.core.profile import Capability
from ekiden.core.text.wording import suggestion
from ekiden.core.values import dumps
from ekiden.routing.decision import ROUTER_NAME

_SHOWN = 300
"""Characters of a schema."""
_LISTED = 20
"""How many capabilities are named when no agent has the required ones."""
_LONGEST = 200
"""Longest shown requirement, in characters."""
_CHECKED = (
    ("answers", "custom_validator"),
    ("what it is given", "input_validator"),
    ("handoffs", "handoff_validator"),
    ("calls of tools", "tool_input_validator"),
    ("outputs of tools", "tool_output_validator"),
)


def agent_table(found: Sequence[AgentSummary]) -> Table:
    """Agents, one on each line."""
    names = ("model", Extra("tools"), "hands to", Extra("from"))
    return ("agent", "description", Extra("scope"), *names), [
        (
            Whole(each.name),
            each.title or each.description or "",
            each.scope,
            each.model or "",
            ", ".join(each.tools),
            # Every agent may give up, which is a handoff to the router: not listed.
            ", ".join(name for name in each.handoffs if name != ROUTER_NAME),
            _short(each.path) if each.path else each.origin,
        )
        for each in found
    ]


def presence_table(found: Sequence[AgentPresence]) -> Table:
    """Each agent's sessions, and the processes that run them."""
    return ("agent", "idle", "ready", "waiting", "run by"), [
        (
            _with_standing(each),
            str(each.idle),
            str(each.ready),
            str(each.waiting),
            ", ".join(f"{run.owner} ({run.session_id})" for run in each.running),
        )
        for each in found
    ]


def print_busy(found: Sequence[AgentPresence], *, wide: bool) -> None:
    """All agents that work or wait, if there are any."""
    busy = [row for each in found for row in _busy_rows(each)]
    if busy:
        say()
        print_table(("agent", "status", "waits for", "why", "since", "session"), busy, wide=wide)


def deadlock_table(found: Sequence[Deadlock]) -> Table:
    """The waiting agents of each deadlock, and the victim."""
    headers = ("found", "cycle", "state", "victim", Extra("policy"), Extra("given up"))
    return headers, [
        (
            TimeCell(each.found_at),
            " → ".join(each.cycle),
            "resolved" if each.resolved else "present",
            each.victim or "",
            each.policy or "",
            ", ".join(each.given_up),
        )
        for each in found
    ]


def match_table(found: Sequence[Match]) -> Table:
    """Each agent's score for the requirements."""
    return ("agent", "score", "matched", "missing", "how"), [
        (
            Whole(match.agent),
            f"{match.score:.2f}",
            ", ".join(match.matched),
            ", ".join(match.missing),
            ", ".join(filter(None, map(_how, match.fits))) or ("name" if match.fits else ""),
        )
        for match in found
    ]


def no_match(
    found: Sequence[Match], team: Sequence[AgentSummary], min_score: float, *, is_remote: bool
) -> str:
    """The message when no agent is good enough."""
    if not found:
        return "no agent is left: --exclude names all of them"
    best = found[0]
    start = f"no agent has a score of {min_score:g} or more for {_requirements(best)}"
    if best.fits:
        lacks = f", which lacks {', '.join(best.missing)}" if best.missing else ""
        return f"{start}; the closest is {best.agent} with {best.score:.2f}{lacks}"
    asked = {each.agent for each in found}
    known = sorted({own.name for each in team if each.name in asked for own in each.capabilities})
    if not known:
        return f"{start}: none lists its `capabilities` in its file"
    meant = next(filter(None, (suggestion(name, known) for name in best.missing)), "")
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    there = f"{', '.join(known[:_LISTED])}{more}{meant}"
    return f"{start}; there are {there}{'' if is_remote else _not_compared(team, best.missing)}"


def detail_pairs(agent: AgentDetails) -> list[tuple[str, str]]:
    """Everything about an agent, as labels with texts; empty ones are left out."""
    triggers = agent.triggers
    pairs = [
        ("agent", agent.name),
        ("title", agent.title),
        ("description", agent.description),
        ("kind", f"{agent.kind}, scope {agent.scope}"),
        ("model", agent.model),
        ("from", agent.path or agent.origin),
        ("takes", _takes(agent)),
        ("runs on", ", ".join(agent.runs_on)),
        ("durable per", agent.durability),
        ("tools", "\n".join(map(_tool_line, agent.tools))),
        ("hands to", "\n".join(map(_handoff_line, agent.handoffs))),
        ("assigns tasks to", _supervises(agent.supervisor)),
        ("asks", ", ".join(agent.can_ask)),
        ("tells", ", ".join(agent.can_tell)),
        ("asks people", ", ".join(agent.can_ask_people)),
        ("keywords", ", ".join(triggers.keywords)),
        ("patterns", "\n".join(triggers.patterns)),
        ("priority", str(triggers.priority)),
        ("examples", "\n".join(triggers.examples)),
        ("can", "\n".join(map(_capability_line, agent.capabilities))),
        ("checks", "\n".join(_checks(agent.guardrails))),
        ("remembers", _remembers(agent.memory)),
        ("instructions", agent.instructions),
    ]
    return [(label, text) for label, text in pairs if text]


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _busy_rows(presence: AgentPresence) -> Iterator[tuple[Cell, ...]]:
    """One row for each wait, and for each running session that waits for nothing."""
    held = {wait.session_id for wait in presence.waits}
    for run in presence.running:
        if run.session_id not in held:
            yield presence.agent, "none", "", "at work", "", Id(run.session_id)
    for wait in presence.waits:
        whom, since = ", ".join(wait.waiting_for), moment(wait.started_at)
        yield wait.agent, wait.status, whom, wait.reason, since, Id(wait.session_id or "")


def _with_standing(presence: AgentPresence) -> str:
    if presence.router:
        return f"{presence.agent} (the router)"
    return presence.agent if presence.known else f"{presence.agent} (not in the team)"


def _requirements(match: Match) -> str:
    text = ", ".join((*match.matched, *match.missing))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _how(fit: Fit) -> str:
    match fit.by:
        case "name":
            return ""
        case "tag":
            return f"tag of {fit.capability}"
        case "meaning":
            return f"like {fit.capability} ({fit.similarity:.2f})"


def _not_compared(team: Sequence[AgentSummary], names: Sequence[str]) -> str:
    """A hint that comparison by meaning could find more, if the team does not use one of the
    names."""
    from ekiden.embeddings.local import MISSING, local_embedder

    held = [own for agent in team for own in agent.capabilities]
    if local_embedder() is not None or not missing_capabilities(names, held):
        return ""
    return f"; meanings were not compared: {MISSING}"


def _tool_line(tool: Mapping[str, Any]) -> str:
    asks = " (asks first)" if tool.get("asks_first") else ""
    described = tool.get("description") or "of an MCP server"
    return f"{tool['name']}{asks}: {' '.join(described.split())}"


def _checks(guardrails: Mapping[str, Any] | None) -> Iterator[str]:
    """The guardrails of an agent: what they check, and how."""
    if guardrails is None:
        return
    if guardrails["output_schema"] is not None:
        schema = dumps(guardrails["output_schema"])
        yield f"answers: the schema {schema if len(schema) <= _SHOWN else schema[:_SHOWN] + '…'}"
    for what, key in _CHECKED:
        if guardrails[key] is not None:
            yield f"{what}: {guardrails[key]}"
    yield f"on failure: {guardrails['on_failure']}"


def _remembers(memory: Mapping[str, Any] | None) -> str:
    """The memory of an agent: what it recalls, and how."""
    if memory is None or not memory["enabled"]:
        return ""
    facts = [
        f"for each {memory['scope']}" if memory["scope"] == "user" else "for the whole app",
        "by words" if memory["type"] == "key_value" else "by meaning and words",
        f"at most {memory['top_k']}",
    ]
    if memory["threshold"] is not None:
        facts.append(f"from {_number(memory['threshold'])} on")
    if memory["backend"] is not None:
        facts.append(f"with {memory['backend']}")
    return ", ".join(facts)


def _takes(agent: AgentDetails) -> str:
    """When an agent accepts handoffs; empty if always."""
    if agent.available is False:
        return "no handoffs: it is not available"
    most = agent.max_sessions
    limit = "" if most is None else f" with fewer than {most} sessions at work"
    if agent.available is None:
        return f"handoffs when it says so{limit and ', and'}{limit}"
    return f"handoffs{limit}" if limit else ""


def _supervises(plan: Mapping[str, Any] | None) -> str:
    """The agents that a supervisor assigns tasks to, and how."""
    if plan is None:
        return ""
    facts = [
        f"at most {plan['concurrency']} at a time",
        f"{_number(plan['timeout'])} s each",
        f"{plan['retries']} retries" if plan["retries"] != 1 else "1 retry",
    ]
    if plan["budget"]:
        facts += [f"{_number(most)} {name}" for name, most in plan["budget"].items() if most]
    return f"{', '.join(plan['agents'])}\nthe rest to {plan['fallback']}\n{', '.join(facts)}"


def _handoff_line(handoff: Mapping[str, Any]) -> str:
    facts = [*_occasion(handoff), *_terms(handoff)]
    line = f"{handoff['to']} ({', '.join(facts)})"
    return f"{line}: {handoff['description']}" if handoff["description"] else line


def _occasion(handoff: Mapping[str, Any]) -> Iterator[str]:
    """The handoff's trigger, and its condition."""
    if handoff["tool"]:
        yield handoff["tool"]
    if handoff["trigger"]:
        yield f"trigger {_trigger(handoff['trigger'])}"
    if handoff["when"] == "conditional":
        yield f"while {handoff['condition']}"
    if handoff["policy"] == "conditional":
        yield f"if {handoff['condition']}"
    elif handoff["policy"] != DEFAULT_TERMS.policy:
        yield handoff["policy"]


def _terms(handoff: Mapping[str, Any]) -> Iterator[str]:
    """The handoff's other settings that differ from the default."""
    if handoff["allow_return"]:
        yield "may always come back" if handoff["allow_return"] == "always" else "may come back"
    if handoff["capabilities"]:
        yield f"needs {' and '.join(handoff['capabilities'])}"
    if handoff["confirm"]:
        yield "asks a person"
    if handoff["timeout"] != DEFAULT_TERMS.timeout_s:
        yield f"within {_number(handoff['timeout'])} s"
    if handoff["restrict_tools"]:
        yield "only tools of both"
    if handoff["budget"]:
        spent = [f"{_number(most)} {name}" for name, most in handoff["budget"].items() if most]
        yield f"at most {' and '.join(spent)}"
    if handoff["completes"] != DEFAULT_TERMS.completes:
        yield "until its result"


def _trigger(trigger: Mapping[str, Any]) -> str:
    said = next((each for name, each in trigger.items() if name not in ("type", "priority")), "")
    said = ", ".join(said) if isinstance(said, list) else str(said)
    line = f"{trigger['type']}({said})" if said else str(trigger["type"])
    return f"{line} of priority {trigger['priority']}" if trigger["priority"] else line


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def _capability_line(capability: Capability) -> str:
    line = f"{capability.name} ({capability.proficiency:g})"
    return f"{line}: {capability.description}" if capability.description else line
