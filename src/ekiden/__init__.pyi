"""The public names of Ekiden, with the module that defines each name.

Type checkers read this file, and `ekiden/__init__.py` reads it when a name is first used. `__all__`
lists the names that most programs need. The other names can also be imported from `ekiden`.
"""

from ekiden.agents import AgentFileProblem as AgentFileProblem
from ekiden.audit import AuditQuery as AuditQuery
from ekiden.audit import AuditRecord as AuditRecord
from ekiden.audit import Verification as Verification
from ekiden.audit import audit_records as audit_records
from ekiden.audit import export_audit as export_audit
from ekiden.audit import verify_audit as verify_audit
from ekiden.bus import Bus as Bus
from ekiden.bus import BusClient as BusClient
from ekiden.bus import BusSettings as BusSettings
from ekiden.bus.deadlocks import Deadlock as Deadlock
from ekiden.bus.deadlocks import deadlocks as deadlocks
from ekiden.capabilities import CapabilityMatcher as CapabilityMatcher
from ekiden.capabilities import Fit as Fit
from ekiden.capabilities import Match as Match
from ekiden.capabilities import missing_capabilities as missing_capabilities
from ekiden.client import Ekiden as Ekiden
from ekiden.collaboration import Collaboration as Collaboration
from ekiden.collaboration import Collaborations as Collaborations
from ekiden.collaboration import negotiation_tools as negotiation_tools
from ekiden.conditions import Condition as Condition
from ekiden.conditions import Evaluation as Evaluation
from ekiden.conditions import compile_condition as compile_condition
from ekiden.core.agent import Agent as Agent
from ekiden.core.agent import Team as Team
from ekiden.core.context import AgentHookContext as AgentHookContext
from ekiden.core.context import RunContextWrapper as RunContextWrapper
from ekiden.core.context import ToolContext as ToolContext
from ekiden.core.conversation.messages import AgentMessage as AgentMessage
from ekiden.core.conversation.messages import BlockingContext as BlockingContext
from ekiden.core.conversation.messages import BlockingStatus as BlockingStatus
from ekiden.core.conversation.messages import BusLimits as BusLimits
from ekiden.core.conversation.model import Model as Model
from ekiden.core.conversation.model import ModelDelta as ModelDelta
from ekiden.core.conversation.model import ModelRequest as ModelRequest
from ekiden.core.conversation.model import ModelResponse as ModelResponse
from ekiden.core.conversation.model import ModelSettings as ModelSettings
from ekiden.core.conversation.model import Usage as Usage
from ekiden.core.errors import AgentFilesInvalid as AgentFilesInvalid
from ekiden.core.errors import AnswerUnusable as AnswerUnusable
from ekiden.core.errors import CallChanged as CallChanged
from ekiden.core.errors import CommandForgotten as CommandForgotten
from ekiden.core.errors import CompensationNotFindable as CompensationNotFindable
from ekiden.core.errors import ConditionError as ConditionError
from ekiden.core.errors import EkidenError as EkidenError
from ekiden.core.errors import EngineTooOld as EngineTooOld
from ekiden.core.errors import HandoffError as HandoffError
from ekiden.core.errors import HandoffNotFound as HandoffNotFound
from ekiden.core.errors import HandoffRefused as HandoffRefused
from ekiden.core.errors import LeaseLost as LeaseLost
from ekiden.core.errors import MaxTurnsExceeded as MaxTurnsExceeded
from ekiden.core.errors import McpUnavailable as McpUnavailable
from ekiden.core.errors import ModelBehaviorError as ModelBehaviorError
from ekiden.core.errors import ModelError as ModelError
from ekiden.core.errors import ModelRefused as ModelRefused
from ekiden.core.errors import ModelTimeout as ModelTimeout
from ekiden.core.errors import NoRoute as NoRoute
from ekiden.core.errors import OutOfBudgetError as OutOfBudgetError
from ekiden.core.errors import RequestNotRecorded as RequestNotRecorded
from ekiden.core.errors import RoutingError as RoutingError
from ekiden.core.errors import SessionBusy as SessionBusy
from ekiden.core.errors import SessionError as SessionError
from ekiden.core.errors import SessionExists as SessionExists
from ekiden.core.errors import SessionNotFound as SessionNotFound
from ekiden.core.errors import SettingsInvalid as SettingsInvalid
from ekiden.core.errors import SettingsNotWritten as SettingsNotWritten
from ekiden.core.errors import StoreDamaged as StoreDamaged
from ekiden.core.errors import StoreEmpty as StoreEmpty
from ekiden.core.errors import StoreError as StoreError
from ekiden.core.errors import StoreReadOnly as StoreReadOnly
from ekiden.core.errors import StoreTooNew as StoreTooNew
from ekiden.core.errors import StoreUnavailable as StoreUnavailable
from ekiden.core.errors import ToolError as ToolError
from ekiden.core.errors import ToolResultUnusable as ToolResultUnusable
from ekiden.core.errors import ToolTimeout as ToolTimeout
from ekiden.core.errors import ToolUnusable as ToolUnusable
from ekiden.core.errors import UnknownAgent as UnknownAgent
from ekiden.core.errors import UnknownSetting as UnknownSetting
from ekiden.core.errors import UnknownTool as UnknownTool
from ekiden.core.errors import UserError as UserError
from ekiden.core.errors.collaboration import CollaborationError as CollaborationError
from ekiden.core.errors.collaboration import ProtocolError as ProtocolError
from ekiden.core.errors.integrations import ForeignAgentError as ForeignAgentError
from ekiden.core.errors.integrations import FrameworkMissing as FrameworkMissing
from ekiden.core.errors.integrations import RemoteAgentError as RemoteAgentError
from ekiden.core.errors.integrations import RemoteAgentFailed as RemoteAgentFailed
from ekiden.core.errors.integrations import RemoteAgentInvalid as RemoteAgentInvalid
from ekiden.core.errors.integrations import RemoteAgentUnavailable as RemoteAgentUnavailable
from ekiden.core.errors.memory import MemoryFailed as MemoryFailed
from ekiden.core.errors.memory import NoMemory as NoMemory
from ekiden.core.errors.messages import AgentUnavailableError as AgentUnavailableError
from ekiden.core.errors.messages import BusError as BusError
from ekiden.core.errors.messages import DeadlockError as DeadlockError
from ekiden.core.errors.messages import InboxAnswerInvalid as InboxAnswerInvalid
from ekiden.core.errors.messages import InboxError as InboxError
from ekiden.core.errors.messages import InboxForbidden as InboxForbidden
from ekiden.core.errors.messages import InboxItemClosed as InboxItemClosed
from ekiden.core.errors.messages import InboxItemNotFound as InboxItemNotFound
from ekiden.core.errors.messages import MailboxFull as MailboxFull
from ekiden.core.errors.messages import MessageNotFound as MessageNotFound
from ekiden.core.errors.messages import QueryFailed as QueryFailed
from ekiden.core.errors.messages import QueryTimeout as QueryTimeout
from ekiden.core.errors.messages import SenderForged as SenderForged
from ekiden.core.errors.stored_data import ReplicaFailed as ReplicaFailed
from ekiden.core.errors.stored_data import ReplicaRefused as ReplicaRefused
from ekiden.core.errors.stored_data import ReplicaUnavailable as ReplicaUnavailable
from ekiden.core.errors.stored_data import SessionImportInvalid as SessionImportInvalid
from ekiden.core.errors.stored_data import StaleState as StaleState
from ekiden.core.errors.stored_data import StateRefused as StateRefused
from ekiden.core.events import Event as Event
from ekiden.core.events import VersionReader as VersionReader
from ekiden.core.guardrails import GuardrailError as GuardrailError
from ekiden.core.guardrails import GuardrailFailed as GuardrailFailed
from ekiden.core.guardrails import GuardrailFunctionOutput as GuardrailFunctionOutput
from ekiden.core.guardrails import HandoffGuardrail as HandoffGuardrail
from ekiden.core.guardrails import HandoffGuardrailResult as HandoffGuardrailResult
from ekiden.core.guardrails import (
    HandoffGuardrailTripwireTriggered as HandoffGuardrailTripwireTriggered,
)
from ekiden.core.guardrails import InputGuardrail as InputGuardrail
from ekiden.core.guardrails import InputGuardrailResult as InputGuardrailResult
from ekiden.core.guardrails import (
    InputGuardrailTripwireTriggered as InputGuardrailTripwireTriggered,
)
from ekiden.core.guardrails import OutputGuardrail as OutputGuardrail
from ekiden.core.guardrails import OutputGuardrailResult as OutputGuardrailResult
from ekiden.core.guardrails import (
    OutputGuardrailTripwireTriggered as OutputGuardrailTripwireTriggered,
)
from ekiden.core.guardrails import RefusalText as RefusalText
from ekiden.core.guardrails import (
    ToolInputGuardrailTripwireTriggered as ToolInputGuardrailTripwireTriggered,
)
from ekiden.core.guardrails import (
    ToolOutputGuardrailTripwireTriggered as ToolOutputGuardrailTripwireTriggered,
)
from ekiden.core.guardrails import Violation as Violation
from ekiden.core.guardrails import handoff_guardrail as handoff_guardrail
from ekiden.core.guardrails import input_guardrail as input_guardrail
from ekiden.core.guardrails import output_guardrail as output_guardrail
from ekiden.core.handoffs import Handoff as Handoff
from ekiden.core.handoffs import HandoffInputData as HandoffInputData
from ekiden.core.handoffs import HandoffPolicy as HandoffPolicy
from ekiden.core.handoffs import HandoffTerms as HandoffTerms
from ekiden.core.handoffs import HandoffTrigger as HandoffTrigger
from ekiden.core.handoffs import Actor as Actor
from ekiden.core.handoffs import Decline as Decline
from ekiden.core.handoffs import HandoffContext as HandoffContext
from ekiden.core.handoffs import HandoffFailure as HandoffFailure
from ekiden.core.handoffs import HandoffRequest as HandoffRequest
from ekiden.core.handoffs import HandoffResult as HandoffResult
from ekiden.core.handoffs import HandoffStatus as HandoffStatus
from ekiden.core.runs import AgentHooks as AgentHooks
from ekiden.core.runs import RunHooks as RunHooks
from ekiden.core.integrations.foreign_agents import CheckpointDelta as CheckpointDelta
from ekiden.core.integrations.foreign_agents import ForeignAdapter as ForeignAdapter
from ekiden.core.integrations.foreign_agents import ForeignTurn as ForeignTurn
from ekiden.core.integrations.foreign_agents import PersonAnswer as PersonAnswer
from ekiden.core.integrations.foreign_agents import TurnAnswer as TurnAnswer
from ekiden.core.integrations.foreign_agents import TurnCheckpoint as TurnCheckpoint
from ekiden.core.integrations.foreign_agents import TurnDelta as TurnDelta
from ekiden.core.integrations.foreign_agents import TurnHandoff as TurnHandoff
from ekiden.core.integrations.foreign_agents import TurnQuestion as TurnQuestion
from ekiden.core.integrations.foreign_agents import TurnToolCall as TurnToolCall
from ekiden.core.integrations.foreign_agents import TurnToolResult as TurnToolResult
from ekiden.core.integrations.foreign_agents import TurnUsage as TurnUsage
from ekiden.core.integrations.foreign_agents import current_turn as current_turn
from ekiden.core.plan import AgentResult as AgentResult
from ekiden.core.plan import AgentTask as AgentTask
from ekiden.core.plan import Aggregator as Aggregator
from ekiden.core.plan import Decomposer as Decomposer
from ekiden.core.plan import Member as Member
from ekiden.core.plan import MultiAgentState as MultiAgentState
from ekiden.core.plan import PlanFailed as PlanFailed
from ekiden.core.plan import PlanSettings as PlanSettings
from ekiden.core.plan import TaskDecomposition as TaskDecomposition
from ekiden.core.profile import Budget as Budget
from ekiden.core.profile import Capability as Capability
from ekiden.core.profile import Confirmation as Confirmation
from ekiden.core.profile import KindTraits as KindTraits
from ekiden.core.profile import MemorySettings as MemorySettings
from ekiden.core.profile import Triggers as Triggers
from ekiden.core.questions import Ask as Ask
from ekiden.core.questions import EscalationStep as EscalationStep
from ekiden.core.questions import InboxAnswer as InboxAnswer
from ekiden.core.questions import InboxItem as InboxItem
from ekiden.core.roles import AgentReply as AgentReply
from ekiden.core.roles import AgentRunner as AgentRunner
from ekiden.core.roles import Approval as Approval
from ekiden.core.roles import Approver as Approver
from ekiden.core.roles import ConfirmationRequest as ConfirmationRequest
from ekiden.core.roles import MemoryRecord as MemoryRecord
from ekiden.core.roles import RemoteTask as RemoteTask
from ekiden.core.runs import Done as Done
from ekiden.core.runs import Failed as Failed
from ekiden.core.runs import HandedOff as HandedOff
from ekiden.core.runs import Outcome as Outcome
from ekiden.core.runs import OutOfBudget as OutOfBudget
from ekiden.core.runs import Refused as Refused
from ekiden.core.runs import Waiting as Waiting
from ekiden.core.tools.guardrails import ToolGuardrailFunctionOutput as ToolGuardrailFunctionOutput
from ekiden.core.tools.guardrails import ToolInputGuardrail as ToolInputGuardrail
from ekiden.core.tools.guardrails import ToolInputGuardrailData as ToolInputGuardrailData
from ekiden.core.tools.guardrails import ToolInputGuardrailResult as ToolInputGuardrailResult
from ekiden.core.tools.guardrails import ToolOutputGuardrail as ToolOutputGuardrail
from ekiden.core.tools.guardrails import ToolOutputGuardrailData as ToolOutputGuardrailData
from ekiden.core.tools.guardrails import ToolOutputGuardrailResult as ToolOutputGuardrailResult
from ekiden.core.tools.guardrails import tool_input_guardrail as tool_input_guardrail
from ekiden.core.tools.guardrails import tool_output_guardrail as tool_output_guardrail
from ekiden.core.tools.tool import FunctionTool as FunctionTool
from ekiden.core.versions import agent_version as agent_version
from ekiden.core.versions import tool_version as tool_version
from ekiden.embeddings.base import embedder_for as embedder_for
from ekiden.engine import BusServer as BusServer
from ekiden.engine import Worker as Worker
from ekiden.engine import submit as submit
from ekiden.guardrails import GuardrailUnusable as GuardrailUnusable
from ekiden.guardrails import SchemaUnusable as SchemaUnusable
from ekiden.guardrails import schema_guardrail as schema_guardrail
from ekiden.guardrails import validator_guardrail as validator_guardrail
from ekiden.handoff import compose as compose
from ekiden.handoff import handoff as handoff
from ekiden.handoff import keep_first_and_last as keep_first_and_last
from ekiden.handoff import keep_last as keep_last
from ekiden.handoff import nest_history as nest_history
from ekiden.handoff import person as person
from ekiden.handoff import redact as redact
from ekiden.handoff import remove_all_tools as remove_all_tools
from ekiden.handoff import shorten_tool_outputs as shorten_tool_outputs
from ekiden.handoff import summarise as summarise
from ekiden.handoff import summarise_with as summarise_with
from ekiden.handoff.report import filter_report as filter_report
from ekiden.handoff.query import HandoffPage as HandoffPage
from ekiden.handoff.query import HandoffQuery as HandoffQuery
from ekiden.handoff.query import find_handoffs as find_handoffs
from ekiden.handoff.records import HandoffRecord as HandoffRecord
from ekiden.hub import EventHub as EventHub
from ekiden.hub import HubEvent as HubEvent
from ekiden.hub import Subscription as Subscription
from ekiden.inbox import Inbox as Inbox
from ekiden.inbox import InboxPage as InboxPage
from ekiden.inbox import InboxQuery as InboxQuery
from ekiden.inbox import InboxSettings as InboxSettings
from ekiden.integrations.a2a.agent import a2a_agent as a2a_agent
from ekiden.integrations.a2a.values import RemoteA2A as RemoteA2A
from ekiden.integrations.realtime import RealtimeAgent as RealtimeAgent
from ekiden.integrations.realtime import RealtimeClosed as RealtimeClosed
from ekiden.integrations.realtime import RealtimeDisconnected as RealtimeDisconnected
from ekiden.integrations.realtime import RealtimeModel as RealtimeModel
from ekiden.integrations.realtime import RealtimeModelSettings as RealtimeModelSettings
from ekiden.integrations.realtime import RealtimeRunConfig as RealtimeRunConfig
from ekiden.integrations.realtime import RealtimeRunner as RealtimeRunner
from ekiden.integrations.realtime import RealtimeServerError as RealtimeServerError
from ekiden.integrations.realtime import RealtimeSession as RealtimeSession
from ekiden.integrations.realtime import RealtimeUnavailable as RealtimeUnavailable
from ekiden.integrations.realtime import RealtimeWebSocketModel as RealtimeWebSocketModel
from ekiden.integrations.realtime import realtime_handoff as realtime_handoff
from ekiden.integrations.vertex import VertexReplica as VertexReplica
from ekiden.memory import Memory as Memory
from ekiden.memory import MemoryBackend as MemoryBackend
from ekiden.memory import register_backend as register_backend
from ekiden.project import Project as Project
from ekiden.project import Settings as Settings
from ekiden.project import load_project as load_project
from ekiden.project import load_settings as load_settings
from ekiden.project import load_team as load_team
from ekiden.project import open_store as open_store
from ekiden.routing import RouteDecision as RouteDecision
from ekiden.routing import Router as Router
from ekiden.routing import RoutingSettings as RoutingSettings
from ekiden.runtime import AgentKind as AgentKind
from ekiden.runtime import CodeContext as CodeContext
from ekiden.runtime import HandoffController as HandoffController
from ekiden.runtime import HandoffExecutor as HandoffExecutor
from ekiden.runtime import Limits as Limits
from ekiden.runtime import Price as Price
from ekiden.runtime import Rollback as Rollback
from ekiden.runtime import RunConfig as RunConfig
from ekiden.runtime import Runner as Runner
from ekiden.runtime import RunResult as RunResult
from ekiden.runtime import register_agent_kind as register_agent_kind
from ekiden.runtime import run_code as run_code
from ekiden.runtime.history.deletion import delete_session as delete_session
from ekiden.runtime.history.fork import Rewind as Rewind
from ekiden.runtime.history.fork import fork_session as fork_session
from ekiden.runtime.history.fork import rewind_session as rewind_session
from ekiden.runtime.history.deletion import Pruned as Pruned
from ekiden.runtime.history.deletion import prune_sessions as prune_sessions
from ekiden.runtime.history.requests import RecordedRequest as RecordedRequest
from ekiden.runtime.history.requests import recorded_request as recorded_request
from ekiden.runtime.history.session_document import export_session as export_session
from ekiden.runtime.history.session_document import import_session as import_session
from ekiden.runtime.history.session_state import shared_state as shared_state
from ekiden.runtime.history.session_state import update_shared_state as update_shared_state
from ekiden.runtime.history.session_state import update_state as update_state
from ekiden.runtime.kinds.foreign import foreign_agent as foreign_agent
from ekiden.runtime.plan_steps import plan_state as plan_state
from ekiden.runtime.supervisor import Supervisor as Supervisor
from ekiden.sessions import Session as Session
from ekiden.sessions.conversation import SessionInfo as SessionInfo
from ekiden.sessions.costs import CostReport as CostReport
from ekiden.sessions.costs import cost_report as cost_report
from ekiden.sessions.replica import ReplicaPolicy as ReplicaPolicy
from ekiden.sessions.replica import ReplicaReport as ReplicaReport
from ekiden.sessions.replica import SessionReplica as SessionReplica
from ekiden.sessions.replica_feed import replicate_sessions as replicate_sessions
from ekiden.sessions.session import Retention as Retention
from ekiden.sessions.search import SessionHit as SessionHit
from ekiden.sessions.search import search_sessions as search_sessions
from ekiden.sessions.state import SessionState as SessionState
from ekiden.sessions.state import state_at as state_at
from ekiden.storage.base import Store as Store
from ekiden.storage.memory import MemoryStore as MemoryStore
from ekiden.storage.postgres import PostgresStore as PostgresStore
from ekiden.storage.records import SearchEntry as SearchEntry
from ekiden.storage.records import SearchHit as SearchHit
from ekiden.storage.sqlite import SqliteStore as SqliteStore
from ekiden.supervisor import JoinAggregator as JoinAggregator
from ekiden.supervisor import ModelAggregator as ModelAggregator
from ekiden.supervisor import ModelDecomposer as ModelDecomposer
from ekiden.supervisor import RuleDecomposer as RuleDecomposer
from ekiden.tools import ToolSettings as ToolSettings
from ekiden.tools import builtin_tools as builtin_tools
from ekiden.tools import function_tool as function_tool
from ekiden.tools import register_tool as register_tool
from ekiden.tools.mcp_servers import McpServer as McpServer
from ekiden.tools.mcp_tools import McpTools as McpTools
from ekiden.tools.mcp_servers import parse_mcp_servers as parse_mcp_servers
from ekiden.tracing.builder import spans_of as spans_of
from ekiden.tracing.exports import export_jsonl as export_jsonl
from ekiden.tracing.exports import export_openai as export_openai
from ekiden.tracing.exports import trace_events as trace_events
from ekiden.tracing.logs import setup_logging as setup_logging
from ekiden.tracing.lookup import Trace as Trace
from ekiden.tracing.lookup import read_trace as read_trace
from ekiden.tracing.otel_exporter import add_otel_processor as add_otel_processor
from ekiden.tracing.otel_exporter import export_otlp as export_otlp
from ekiden.tracing.otel_follower import OtelFollower as OtelFollower
from ekiden.tracing.processors import TracingProcessor as TracingProcessor
from ekiden.tracing.processors import add_trace_processor as add_trace_processor
from ekiden.tracing.processors import flush_traces as flush_traces
from ekiden.tracing.processors import set_trace_processors as set_trace_processors
from ekiden.tracing.processors import set_tracing_disabled as set_tracing_disabled
from ekiden.tracing.spans import Span as Span

__version__: str
from ekiden.integrations.process import HttpAgent as HttpAgent
from ekiden.integrations.process import ProcessAgent as ProcessAgent

__all__ = [
    "Agent",
    "AgentHooks",
    "Approval",
    "Budget",
    "Bus",
    "CodeContext",
    "Collaborations",
    "Done",
    "Ekiden",
    "EkidenError",
    "Event",
    "EventHub",
    "Failed",
    "FunctionTool",
    "GuardrailFunctionOutput",
    "Handoff",
    "HandoffController",
    "HandoffError",
    "HandoffInputData",
    "HandoffRefused",
    "HandoffRequest",
    "HandoffTerms",
    "HandoffTrigger",
    "Inbox",
    "InputGuardrail",
    "Limits",
    "McpServer",
    "McpTools",
    "Memory",
    "MemoryStore",
    "Model",
    "ModelResponse",
    "ModelSettings",
    "OutOfBudget",
    "OutputGuardrail",
    "PostgresStore",
    "Price",
    "Refused",
    "Rollback",
    "Router",
    "RunConfig",
    "RunContextWrapper",
    "RunHooks",
    "RunResult",
    "Runner",
    "Session",
    "SessionBusy",
    "SessionNotFound",
    "SqliteStore",
    "Store",
    "Supervisor",
    "Team",
    "ToolContext",
    "Usage",
    "UserError",
    "Waiting",
    "Worker",
    "__version__",
    "a2a_agent",
    "audit_records",
    "builtin_tools",
    "cost_report",
    "find_handoffs",
    "fork_session",
    "function_tool",
    "handoff",
    "handoff_guardrail",
    "input_guardrail",
    "load_project",
    "load_team",
    "open_store",
    "output_guardrail",
    "person",
    "read_trace",
    "rewind_session",
    "schema_guardrail",
    "setup_logging",
    "submit",
    "summarise",
    "verify_audit",
]
