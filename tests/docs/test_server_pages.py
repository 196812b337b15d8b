"""The pages about traces, standards and security have what the code has."""

from __future__ import annotations

import re
from typing import get_args

from ekiden.core.privacy.redaction import SENSITIVE_KINDS
from ekiden.integrations.mcp_server.tools import OFFERS
from ekiden.integrations.openai_api.bodies import CHAT_REFUSED, RESPONSE_REFUSED
from ekiden.project.keys import SCOPES
from ekiden.server.access import OPEN
from ekiden.server.metrics import Metrics
from ekiden.tracing import SpanKind
from tests.docs.pages import page

TRACING = page("tracing.md").text
SECURITY = page("security.md").text
_FAMILY = re.compile(r"^# TYPE (ekiden_\w+) ", re.MULTILINE)


async def test_the_documented_metrics_equal_those_of_the_server() -> None:
    shown = (await Metrics().collect([])).decode()
    listed = re.findall(r"^\| `(ekiden_\w+)` \|", TRACING, re.MULTILINE)
    assert sorted(listed) == sorted(_FAMILY.findall(shown))


def test_every_span_kind_has_a_row() -> None:
    assert not [kind for kind in get_args(SpanKind) if f"\n| `{kind}` |" not in TRACING]


def test_every_tool_of_the_mcp_server_is_documented_with_its_scope() -> None:
    table = re.findall(r"^\| (`\w+`.*?) \| `(\w+)` \|", page("mcp-server.md").text, re.MULTILINE)
    for offer in OFFERS:
        assert [scope for names, scope in table if f"`{offer.name}`" in names] == [offer.scope]


def test_every_refused_openai_option_is_documented() -> None:
    table = (
        page("openai-api.md")
        .text.partition("## Refused and ignored parameters")[2]
        .partition("\n## ")[0]
    )
    for name in {*CHAT_REFUSED, *RESPONSE_REFUSED}:
        assert re.search(rf"^\|.*`{name}\b.*\|", table, re.MULTILINE), name


def test_every_scope_has_a_row() -> None:
    assert not [scope for scope in SCOPES if f"\n| `{scope}` |" not in SECURITY]


def test_every_open_path_is_documented() -> None:
    assert not [path for path in OPEN if f"`{path}`" not in SECURITY]


def test_every_redacted_kind_is_documented() -> None:
    assert not [kind for kind in SENSITIVE_KINDS if f"`{kind}`" not in SECURITY]
