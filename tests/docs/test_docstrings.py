"""What `help()` shows of the public names."""

from __future__ import annotations

import ast
import inspect
import re
from textwrap import dedent
from typing import Any

import ekiden

DOCUMENTED = [
    name
    for name in dir(ekiden)
    if name not in {"__version__", "Outcome"}  # a text and a union: they cannot have one
]
SHOWN_ELSEWHERE = {
    **dict.fromkeys(
        ["Done", "Failed", "HandedOff", "OutOfBudget", "Refused", "Waiting"], "RunResult"
    ),
    **dict.fromkeys(["ModelDelta", "ModelRequest", "ModelResponse", "Usage"], "Model"),
    "AgentHookContext": "RunHooks",
    **dict.fromkeys(["Approval", "ConfirmationRequest"], "Approver"),
    **dict.fromkeys(["McpServer", "parse_mcp_servers"], "McpTools"),
    "Settings": "load_settings",
    "ToolSettings": "builtin_tools",
    "load_project": "Project",
    **dict.fromkeys(["AgentReply", "RemoteTask"], "AgentRunner"),
    **dict.fromkeys(["AuditRecord"], "audit_records"),
    **dict.fromkeys(["Condition", "Evaluation"], "compile_condition"),
    **dict.fromkeys(["Actor", "HandoffFailure", "HandoffResult"], "HandoffController"),
    **dict.fromkeys(["HandoffPage", "HandoffRecord"], "find_handoffs"),
    "HandoffRequest": "Decline",
    "HandoffTerms": "handoff",
    **dict.fromkeys(["AgentResult", "MultiAgentState"], "plan_state"),
    "Member": "Decomposer",
    "PlanSettings": "Supervisor",
    "CostReport": "cost_report",
    "ReplicaReport": "replicate_sessions",
    "Pruned": "prune_sessions",
    "Rewind": "rewind_session",
    "SearchHit": "SearchEntry",
    "SessionHit": "search_sessions",
    **dict.fromkeys(
        ["GuardrailFunctionOutput", "InputGuardrail", "InputGuardrailResult"], "input_guardrail"
    ),
    **dict.fromkeys(["OutputGuardrail", "OutputGuardrailResult"], "output_guardrail"),
    **dict.fromkeys(["HandoffGuardrail", "HandoffGuardrailResult"], "handoff_guardrail"),
    **dict.fromkeys(["BlockingContext", "BusSettings"], "Bus"),
    "Deadlock": "deadlocks",
    "HubEvent": "EventHub",
    **dict.fromkeys(
        ["InboxAnswer", "InboxItem", "InboxPage", "InboxQuery", "InboxSettings"], "Inbox"
    ),
    "Rollback": "RunContextWrapper",
    "Verification": "verify_audit",
    **dict.fromkeys(
        [
            "ToolGuardrailFunctionOutput",
            "ToolInputGuardrail",
            "ToolInputGuardrailData",
            "ToolInputGuardrailResult",
        ],
        "tool_input_guardrail",
    ),
    **dict.fromkeys(
        ["ToolOutputGuardrail", "ToolOutputGuardrailData", "ToolOutputGuardrailResult"],
        "tool_output_guardrail",
    ),
}
"""Values that are used together with others: where the example is."""

_EXAMPLE = re.compile(r"::\n\n((?:[ ]{4}.*\n?|\n)+)")


def own_docstring(name: str) -> str:
    """The docstring that stands at the name itself, not one that it inherits."""
    value: Any = getattr(ekiden, name)
    text = value.__doc__ if inspect.isfunction(value) else vars(value).get("__doc__")
    return inspect.cleandoc(text or "")


def test_every_public_name_has_a_docstring() -> None:
    texts = {name: own_docstring(name) for name in DOCUMENTED}
    assert not [name for name, text in texts.items() if not text]
    # A dataclass without a docstring is given its signature instead.
    assert not [name for name, text in texts.items() if text.startswith(f"{name}(")]


def takes_an_example(name: str) -> bool:
    """Errors are raised, not written; all else is used, and shows how."""
    value = getattr(ekiden, name)
    is_error = isinstance(value, type) and issubclass(value, Exception)
    return not is_error and name not in SHOWN_ELSEWHERE


def test_every_used_name_has_a_valid_python_example() -> None:
    for name in filter(takes_an_example, DOCUMENTED):
        found = _EXAMPLE.search(own_docstring(name) + "\n")
        assert found, f"{name}: end a sentence with :: and show it, indented"
        compile(dedent(found[1]), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
