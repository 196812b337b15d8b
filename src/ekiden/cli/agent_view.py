"""Agents as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ekiden.core.handoff_terms import DEFAULT_TERMS
from ekiden.core.jsonio import dumps

_SHOWN = 300
"""Characters of a schema."""
_CHECKED = (
    ("answers", "custom_validator"),
    ("what it is given", "input_validator"),
    ("handoffs", "handoff_validator"),
    ("calls of tools", "tool_input_validator"),
    ("outputs of tools", "tool_output_validator"),
)


def detail_pairs(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What `agent_details` tells, as labels with texts; what is empty is left out."""
    triggers = record["triggers"]
    pairs = [
        ("agent", record["name"]),
        ("title", record["title"]),
        ("description", record["description"]),
        ("kind", f"{record['kind']}, scope {record['scope']}"),
        ("model", record["model"]),
        ("from", record["path"] or record["origin"]),
        ("takes", _takes(record)),
        ("runs on", ", ".join(record["runs_on"])),
        ("tools", "\n".join(map(_tool_line, record["tools"]))),
        ("hands to", "\n".join(map(_handoff_line, record["handoffs"]))),
        ("gives tasks to", _supervises(record["supervisor"])),
        ("asks", ", ".join(record["can_ask"])),
        ("tells", ", ".join(record["can_tell"])),
        ("asks people", ", ".join(record["can_ask_people"])),
        ("keywords", ", ".join(triggers["keywords"])),
        ("patterns", "\n".join(triggers["patterns"])),
        ("priority", str(triggers["priority"])),
        ("examples", "\n".join(triggers["examples"])),
        ("can", "\n".join(map(_capability_line, record["capabilities"]))),
        ("checks", "\n".join(_checks(record["guardrails"]))),
        ("remembers", _remembers(record["memory"])),
        ("instructions", record["instructions"]),
    ]
    return [(label, text) for label, text in pairs if text]


def _tool_line(tool: dict[str, Any]) -> str:
    asks = " (asks first)" if tool.get("asks_first") else ""
    described = tool.get("description") or "of an MCP server"
    return f"{tool['name']}{asks}: {' '.join(described.split())}"


def _checks(guardrails: dict[str, Any] | None) -> Iterator[str]:
    """What its guardrails look at, and with what."""
    if guardrails is None:
        return
    if guardrails["output_schema"] is not None:
        schema = dumps(guardrails["output_schema"])
        yield f"answers: the schema {schema if len(schema) <= _SHOWN else schema[:_SHOWN] + '…'}"
    for what, key in _CHECKED:
        if guardrails[key] is not None:
            yield f"{what}: {guardrails[key]}"
    yield f"what does not pass: {guardrails['on_failure']}"


def _remembers(memory: dict[str, Any] | None) -> str:
    """What it finds again, and how."""
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


def _takes(record: dict[str, Any]) -> str:
    """Whether it takes handoffs, where that is not always so."""
    if record["available"] is False:
        return "no handoffs: it is not available"
    most = record["max_sessions"]
    limit = "" if most is None else f" with fewer than {most} sessions at work"
    if record["available"] is None:
        return f"handoffs when it says so{limit and ', and'}{limit}"
    return f"handoffs{limit}" if limit else ""


def _supervises(plan: dict[str, Any] | None) -> str:
    """Whom a supervisor gives tasks to, and how."""
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


def _handoff_line(handoff: dict[str, Any]) -> str:
    facts = [*_occasion(handoff), *_terms(handoff)]
    line = f"{handoff['to']} ({', '.join(facts)})"
    return f"{line}: {handoff['description']}" if handoff["description"] else line


def _occasion(handoff: dict[str, Any]) -> Iterator[str]:
    """What makes it, and if what holds."""
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


def _terms(handoff: dict[str, Any]) -> Iterator[str]:
    """What else is not as it is for most handoffs."""
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


def _trigger(trigger: dict[str, Any]) -> str:
    said = next((each for name, each in trigger.items() if name not in ("type", "priority")), "")
    said = ", ".join(said) if isinstance(said, list) else str(said)
    line = f"{trigger['type']}({said})" if said else str(trigger["type"])
    return f"{line} of priority {trigger['priority']}" if trigger["priority"] else line


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def _capability_line(capability: dict[str, Any]) -> str:
    line = f"{capability['name']} ({capability['proficiency']:g})"
    return f"{line}: {capability['description']}" if capability["description"] else line
