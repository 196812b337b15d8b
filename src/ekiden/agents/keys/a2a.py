"""Every key of `a2a`, and what it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ekiden.agents.checks import Report
from ekiden.agents.definition import RemoteDefinition
from ekiden.agents.keys.objects import SECONDS, Entry, Field, Object, Placed
from ekiden.agents.yaml import nodes
from ekiden.core.checks.addresses import address_fault, variable_fault
from ekiden.core.checks.kinds import Text

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}", re.ASCII)
_NOT_WITH = (
    "model",
    "tools",
    "tool_confirmation",
    "supervisor",
    "memory",
    "can_ask",
    "can_tell",
    "can_ask_people",
)
_A2A_DEFAULT = RemoteDefinition(card="")


def _header_fault(text: str) -> str | None:
    return None if _HEADER.fullmatch(text) else "write the name of a header, such as X-API-Key"


_CARD = Text(
    what="the address of an agent card, as a text",
    max_length=2_000,
    check=address_fault,
    code="bad_address",
    in_schema={"pattern": r"^\s*https?://[^\s/]"},
)

A2A = Entry(
    inside=Object(
        Field(
            name="card",
            kind=_CARD,
            text="The address of its agent card; a host alone stands for its well-known one.",
            required=True,
            example="https://partner.example",
        ),
        Field(
            name="token_env",
            kind=Text(
                what="the name of an environment variable, as a text",
                check=variable_fault,
                code="bad_variable",
                in_schema={"pattern": r"^\s*[A-Za-z_][A-Za-z0-9_]{0,199}\s*$"},
            ),
            text="The environment variable that has its token, which is read when it is needed and "
            "never stored.",
            example="PARTNER_TOKEN",
        ),
        Field(
            name="header",
            kind=Text(
                what="the name of a header, as a text",
                check=_header_fault,
                code="bad_header",
                in_schema={"pattern": r"^\s*[A-Za-z][A-Za-z0-9-]{0,99}\s*$"},
            ),
            text="The header that the token is sent in; without it, Authorization: Bearer.",
            example="X-API-Key",
        ),
        Field(
            name="timeout",
            kind=SECONDS,
            text="The timeout of a task there, in seconds; waiting for people does not count.",
            default=_A2A_DEFAULT.timeout_s,
        ),
        wanted="a mapping with card, token_env, header, timeout",
    ),
    short="card",
    kind=_CARD,
)


def remote_definition(placed: Placed | None) -> RemoteDefinition | None:
    """What `a2a` says; `None` if the agent is here."""
    if placed is None or "card" not in placed.value:
        return None
    values = dict(placed.value)
    if "timeout" in values:
        values["timeout_s"] = values.pop("timeout")
    return RemoteDefinition(**values, line=placed.line, column=placed.column)


def check_remote(root: nodes.Mapping, values: Mapping[str, Any], body: str, report: Report) -> None:
    """Report what an agent that is elsewhere cannot have here."""
    if "a2a" not in values:
        return
    for key, _ in root.entries:
        name = re.sub("[A-Z]", lambda found: f"_{found.group().lower()}", key.text)
        if name in _NOT_WITH:
            report.error(
                key,
                "not_with_a2a",
                f"`{key.text}` is for local agents, and this one is remote (`a2a`); leave one "
                "of them out",
            )
    if body.strip():
        report.warning(
            None,
            "unused_instructions",
            "the instructions of a remote agent have no reader; leave them out, or write them "
            "into `description`",
        )
