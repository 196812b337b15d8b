"""What `import ekiden` offers, and what it costs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import ekiden

ROOT = Path(__file__).parents[2]
HEAVY = (
    "ahocorasick_rs", "apsw", "asyncpg", "cyclopts", "mcp", "numpy", "openai", "prompt_toolkit",
    "pydantic", "pydantic_ai", "re2", "rich", "ruamel", "xllamacpp",
)  # fmt: skip
NAMES = """
    Actor Agent AgentFilesInvalid AgentHookContext AgentHooks AgentMessage AgentReply
    AgentResult AgentRunner AgentTask AgentUnavailableError Aggregator Approval Approver Ask
    AuditQuery AuditRecord BlockingContext Budget Bus BusError BusSettings CallChanged Capability
    CapabilityMatcher CodeContext Collaboration CollaborationError Collaborations Condition
    ConditionError Confirmation ConfirmationRequest CostReport Deadlock DeadlockError Decline
    Decomposer Done EkidenError EngineTooOld EscalationStep Evaluation Event EventHub Failed
    Fit FunctionTool GuardrailError GuardrailFailed GuardrailFunctionOutput GuardrailUnusable
    HandedOff Handoff HandoffContext HandoffController HandoffError HandoffExecutor
    HandoffFailure HandoffGuardrail HandoffGuardrailResult HandoffGuardrailTripwireTriggered
    HandoffInputData HandoffNotFound HandoffPage HandoffQuery HandoffRecord HandoffRefused
    HandoffRequest HandoffResult HandoffTerms HandoffTrigger HubEvent Inbox InboxAnswer
    InboxAnswerInvalid InboxError InboxForbidden InboxItem InboxItemClosed InboxItemNotFound
    InboxPage InboxQuery InboxSettings InputGuardrail InputGuardrailResult
    InputGuardrailTripwireTriggered JoinAggregator LeaseLost Limits MailboxFull Match
    MaxTurnsExceeded McpServer McpTools McpUnavailable Member Memory MemoryBackend MemoryFailed
    MemorySettings MemoryStore MessageNotFound MirrorFailed MirrorPolicy MirrorRefused
    MirrorReport MirrorUnavailable Model ModelAggregator ModelBehaviorError ModelDecomposer
    ModelDelta ModelError ModelRefused ModelRequest ModelResponse ModelSettings ModelTimeout
    MultiAgentState NoMemory NoRoute OtelFollower OutOfBudget OutOfBudgetError Outcome
    OutputGuardrail OutputGuardrailResult OutputGuardrailTripwireTriggered PlanFailed
    PlanSettings PostgresStore Price Problem Project ProtocolError Pruned QueryFailed
    QueryTimeout RealtimeAgent RealtimeClosed RealtimeDisconnected RealtimeModel
    RealtimeModelSettings RealtimeRunConfig RealtimeRunner RealtimeServerError RealtimeSession
    RealtimeUnavailable RealtimeWebSocketModel Recollection RefusalText Refused RemoteA2A
    RemoteAgentError RemoteAgentFailed RemoteAgentInvalid RemoteAgentUnavailable RemoteTask
    Retention Rewind Rollback RouteDecision Router RoutingError RoutingSettings RuleDecomposer
    RunConfig RunContextWrapper RunHooks RunResult Runner SchemaUnusable SearchEntry SearchHit
    Seat SenderForged Session SessionBusy SessionError SessionExists SessionHit
    SessionImportInvalid SessionInfo SessionMirror SessionNotFound SessionState Settings
    SettingsInvalid SettingsNotWritten Span SqliteStore StaleState StateRefused Store
    StoreDamaged StoreEmpty StoreError StoreReadOnly StoreTooNew StoreUnavailable Subscription
    Supervisor TaskDecomposition Team TeamOnBus ToolContext ToolError ToolGuardrailFunctionOutput
    ToolInputGuardrail ToolInputGuardrailData ToolInputGuardrailResult
    ToolInputGuardrailTripwireTriggered ToolOutputGuardrail ToolOutputGuardrailData
    ToolOutputGuardrailResult ToolOutputGuardrailTripwireTriggered ToolSettings ToolTimeout
    ToolUnusable Trace TracingProcessor Triggers UnknownAgent UnknownSetting UnknownTool Usage
    UserError
    Verification VertexMirror Violation Waiting Worker __version__ a2a_agent add_otel_processor
    add_trace_processor audit_records builtin_tools compile_condition compose cost_report
    deadlocks delete_session embedder_for export_audit export_jsonl export_openai export_otlp
    export_session filter_report find_handoffs flush_traces fork_session function_tool handoff
    handoff_guardrail import_session input_guardrail keep_first_and_last keep_last load_project
    load_settings load_team mirror_sessions missing_capabilities negotiation_tools nest_history
    open_store output_guardrail parse_mcp_servers person plan_state prune_sessions read_trace
    realtime_handoff redact register_backend register_tool remove_all_tools rewind_session
    schema_guardrail search_sessions set_trace_processors set_tracing_disabled setup_logging
    shared_state shorten_tool_outputs spans_of state_at submit summarise summarise_with
    tool_input_guardrail tool_output_guardrail trace_events update_shared_state update_state
    validator_guardrail verify_audit
""".split()


def test_the_public_names_are_these() -> None:
    assert sorted(ekiden.__all__) == sorted(NAMES)
    assert dir(ekiden) == sorted(NAMES)


def test_every_public_name_can_be_imported() -> None:
    assert not [name for name in NAMES if isinstance(getattr(ekiden, name), ModuleType)]


def test_type_checkers_are_told_the_same_names_as_programs() -> None:
    tree = ast.parse(inspect.getsource(ekiden))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.asname: f"{node.module}"
        for node in ast.walk(guarded)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == ekiden._MODULE_OF


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        ekiden.Agnet  # noqa: B018


def test_handoff_stays_the_function_when_its_package_is_loaded() -> None:
    code = (
        "from ekiden import Runner; import ekiden, ekiden.handoff.filters; "
        "from ekiden import handoff; "
        "assert callable(handoff) and ekiden.handoff is handoff, handoff"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "code",
    [
        "import ekiden",
        "from ekiden import Agent, Runner, Team",
        "from ekiden import Agent, Runner, Session, MemoryStore, function_tool, handoff",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    check = f"{code}\nimport sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_the_one_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ekiden.__version__ == project["version"]
