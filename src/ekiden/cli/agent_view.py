"""Agents as people read them."""

from __future__ import annotations

from typing import Any


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
        ("tools", "\n".join(map(_tool_line, record["tools"]))),
        ("hands to", "\n".join(map(_handoff_line, record["handoffs"]))),
        ("keywords", ", ".join(triggers["keywords"])),
        ("patterns", "\n".join(triggers["patterns"])),
        ("priority", str(triggers["priority"])),
        ("examples", "\n".join(triggers["examples"])),
        ("can", "\n".join(map(_capability_line, record["capabilities"]))),
        ("instructions", record["instructions"]),
    ]
    return [(label, text) for label, text in pairs if text]


def _tool_line(tool: dict[str, Any]) -> str:
    asks = " (asks first)" if tool.get("asks_first") else ""
    described = tool.get("description") or "of an MCP server"
    return f"{tool['name']}{asks}: {' '.join(described.split())}"


def _handoff_line(handoff: dict[str, Any]) -> str:
    facts = [handoff["tool"] or f"only {handoff['when']}"]
    if handoff.get("allow_return"):
        facts.append("may come back")
    line = f"{handoff['to']} ({', '.join(facts)})"
    return f"{line}: {handoff['description']}" if handoff.get("description") else line


def _capability_line(capability: dict[str, Any]) -> str:
    line = f"{capability['name']} ({capability['proficiency']:g})"
    return f"{line}: {capability['description']}" if capability["description"] else line
