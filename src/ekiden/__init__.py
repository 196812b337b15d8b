"""Ekiden: agents hand work to each other, durably.

Every public name can be imported from here; what it needs is loaded when it is first asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ekiden.core.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.agents import Problem as Problem
    from ekiden.app import Project as Project
    from ekiden.app import Settings as Settings
    from ekiden.app import load_project as load_project
    from ekiden.app import load_settings as load_settings
    from ekiden.app import load_team as load_team
    from ekiden.app import open_store as open_store
    from ekiden.audit import AuditQuery as AuditQuery
    from ekiden.audit import AuditRecord as AuditRecord
    from ekiden.audit import Verification as Verification
    from ekiden.audit import audit_records as audit_records
    from ekiden.audit import export_audit as export_audit
    from ekiden.audit import verify_audit as verify_audit
    from ekiden.bus import Bus as Bus
    from ekiden.bus import BusSettings as BusSettings
    from ekiden.bus import Seat as Seat
    from ekiden.bus.deadlocks import Deadlock as Deadlock
    from ekiden.bus.deadlocks import deadlocks as deadlocks
    from ekiden.capabilities import CapabilityMatcher as CapabilityMatcher
    from ekiden.capabilities import Fit as Fit
    from ekiden.capabilities import Match as Match
    from ekiden.capabilities import missing_capabilities as missing_capabilities
    from ekiden.collaboration import Collaboration as Collaboration
    from ekiden.collaboration import Collaborations as Collaborations
    from ekiden.collaboration import negotiation_tools as negotiation_tools
    from ekiden.conditions import Condition as Condition
    from ekiden.conditions import Evaluation as Evaluation
    from ekiden.conditions import compile_condition as compile_condition
    from ekiden.core.agent import Agent as Agent
    from ekiden.core.asking import Ask as Ask
    from ekiden.core.collaboration_errors import CollaborationError as CollaborationError
    from ekiden.core.collaboration_errors import ProtocolError as ProtocolError
    from ekiden.core.context import AgentHookContext as AgentHookContext
    from ekiden.core.context import RunContextWrapper as RunContextWrapper
    from ekiden.core.context import ToolContext as ToolContext
    from ekiden.core.errors import AgentFilesInvalid as AgentFilesInvalid
    from ekiden.core.errors import ConditionError as ConditionError
    from ekiden.core.errors import EkidenError as EkidenError
    from ekiden.core.errors import EngineTooOld as EngineTooOld
    from ekiden.core.errors import GuardrailError as GuardrailError
    from ekiden.core.errors import GuardrailFailed as GuardrailFailed
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
    from ekiden.core.errors import RoutingError as RoutingError
    from ekiden.core.errors import SessionBusy as SessionBusy
    from ekiden.core.errors import SessionError as SessionError
    from ekiden.core.errors import SessionExists as SessionExists
    from ekiden.core.errors import SessionNotFound as SessionNotFound
    from ekiden.core.errors import SettingsInvalid as SettingsInvalid
    from ekiden.core.errors import SettingsNotWritten as SettingsNotWritten
    from ekiden.core.errors import StoreError as StoreError
    from ekiden.core.errors import StoreTooNew as StoreTooNew
    from ekiden.core.errors import StoreUnavailable as StoreUnavailable
    from ekiden.core.errors import ToolError as ToolError
    from ekiden.core.errors import (
        ToolInputGuardrailTripwireTriggered as ToolInputGuardrailTripwireTriggered,
    )
    from ekiden.core.errors import (
        ToolOutputGuardrailTripwireTriggered as ToolOutputGuardrailTripwireTriggered,
    )
    from ekiden.core.errors import ToolTimeout as ToolTimeout
    from ekiden.core.errors import ToolUnusable as ToolUnusable
    from ekiden.core.errors import UnknownAgent as UnknownAgent
    from ekiden.core.errors import UnknownSetting as UnknownSetting
    from ekiden.core.errors import UnknownTool as UnknownTool
    from ekiden.core.errors import UserError as UserError
    from ekiden.core.events import Event as Event
    from ekiden.core.handoff import Handoff as Handoff
    from ekiden.core.handoff import HandoffInputData as HandoffInputData
    from ekiden.core.handoff_record import Actor as Actor
    from ekiden.core.handoff_record import Decline as Decline
    from ekiden.core.handoff_record import HandoffContext as HandoffContext
    from ekiden.core.handoff_record import HandoffFailure as HandoffFailure
    from ekiden.core.handoff_record import HandoffRequest as HandoffRequest
    from ekiden.core.handoff_record import HandoffResult as HandoffResult
    from ekiden.core.handoff_terms import Budget as Budget
    from ekiden.core.handoff_terms import HandoffTerms as HandoffTerms
    from ekiden.core.handoff_terms import HandoffTrigger as HandoffTrigger
    from ekiden.core.hooks import AgentHooks as AgentHooks
    from ekiden.core.hooks import RunHooks as RunHooks
    from ekiden.core.inbox_errors import InboxAnswerInvalid as InboxAnswerInvalid
    from ekiden.core.inbox_errors import InboxError as InboxError
    from ekiden.core.inbox_errors import InboxForbidden as InboxForbidden
    from ekiden.core.inbox_errors import InboxItemClosed as InboxItemClosed
    from ekiden.core.inbox_errors import InboxItemNotFound as InboxItemNotFound
    from ekiden.core.inbox_item import EscalationStep as EscalationStep
    from ekiden.core.inbox_item import InboxAnswer as InboxAnswer
    from ekiden.core.inbox_item import InboxItem as InboxItem
    from ekiden.core.message_errors import AgentUnavailableError as AgentUnavailableError
    from ekiden.core.message_errors import BusError as BusError
    from ekiden.core.message_errors import DeadlockError as DeadlockError
    from ekiden.core.message_errors import MailboxFull as MailboxFull
    from ekiden.core.message_errors import MessageNotFound as MessageNotFound
    from ekiden.core.message_errors import QueryFailed as QueryFailed
    from ekiden.core.message_errors import QueryTimeout as QueryTimeout
    from ekiden.core.message_errors import SenderForged as SenderForged
    from ekiden.core.messages import AgentMessage as AgentMessage
    from ekiden.core.messages import BlockingContext as BlockingContext
    from ekiden.core.model import Model as Model
    from ekiden.core.model import ModelDelta as ModelDelta
    from ekiden.core.model import ModelRequest as ModelRequest
    from ekiden.core.model import ModelResponse as ModelResponse
    from ekiden.core.model import ModelSettings as ModelSettings
    from ekiden.core.outcomes import Done as Done
    from ekiden.core.outcomes import Failed as Failed
    from ekiden.core.outcomes import HandedOff as HandedOff
    from ekiden.core.outcomes import Outcome as Outcome
    from ekiden.core.outcomes import OutOfBudget as OutOfBudget
    from ekiden.core.outcomes import Refused as Refused
    from ekiden.core.outcomes import Waiting as Waiting
    from ekiden.core.profile import Capability as Capability
    from ekiden.core.profile import Confirmation as Confirmation
    from ekiden.core.profile import Triggers as Triggers
    from ekiden.core.remote import AgentReply as AgentReply
    from ekiden.core.remote import AgentRunner as AgentRunner
    from ekiden.core.remote import AgentTask as AgentTask
    from ekiden.core.roles import Approval as Approval
    from ekiden.core.roles import Approver as Approver
    from ekiden.core.roles import ConfirmationRequest as ConfirmationRequest
    from ekiden.core.team import Team as Team
    from ekiden.core.tool import FunctionTool as FunctionTool
    from ekiden.core.tool_guardrails import (
        ToolGuardrailFunctionOutput as ToolGuardrailFunctionOutput,
    )
    from ekiden.core.tool_guardrails import ToolInputGuardrail as ToolInputGuardrail
    from ekiden.core.tool_guardrails import ToolInputGuardrailData as ToolInputGuardrailData
    from ekiden.core.tool_guardrails import ToolInputGuardrailResult as ToolInputGuardrailResult
    from ekiden.core.tool_guardrails import ToolOutputGuardrail as ToolOutputGuardrail
    from ekiden.core.tool_guardrails import ToolOutputGuardrailData as ToolOutputGuardrailData
    from ekiden.core.tool_guardrails import ToolOutputGuardrailResult as ToolOutputGuardrailResult
    from ekiden.core.tool_guardrails import tool_input_guardrail as tool_input_guardrail
    from ekiden.core.tool_guardrails import tool_output_guardrail as tool_output_guardrail
    from ekiden.core.usage import Usage as Usage
    from ekiden.engine import TeamOnBus as TeamOnBus
    from ekiden.engine import Worker as Worker
    from ekiden.engine import submit as submit
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
    from ekiden.handoff.filter_report import filter_report as filter_report
    from ekiden.handoff.history_query import HandoffPage as HandoffPage
    from ekiden.handoff.history_query import HandoffQuery as HandoffQuery
    from ekiden.handoff.history_query import find_handoffs as find_handoffs
    from ekiden.handoff.records import HandoffRecord as HandoffRecord
    from ekiden.hub import EventHub as EventHub
    from ekiden.hub import HubEvent as HubEvent
    from ekiden.hub import Subscription as Subscription
    from ekiden.inbox import Inbox as Inbox
    from ekiden.inbox import InboxPage as InboxPage
    from ekiden.inbox import InboxQuery as InboxQuery
    from ekiden.inbox import InboxSettings as InboxSettings
    from ekiden.realtime import RealtimeAgent as RealtimeAgent
    from ekiden.realtime import RealtimeClosed as RealtimeClosed
    from ekiden.realtime import RealtimeDisconnected as RealtimeDisconnected
    from ekiden.realtime import RealtimeModel as RealtimeModel
    from ekiden.realtime import RealtimeModelSettings as RealtimeModelSettings
    from ekiden.realtime import RealtimeRunConfig as RealtimeRunConfig
    from ekiden.realtime import RealtimeRunner as RealtimeRunner
    from ekiden.realtime import RealtimeServerError as RealtimeServerError
    from ekiden.realtime import RealtimeSession as RealtimeSession
    from ekiden.realtime import RealtimeUnavailable as RealtimeUnavailable
    from ekiden.realtime import RealtimeWebSocketModel as RealtimeWebSocketModel
    from ekiden.realtime import realtime_handoff as realtime_handoff
    from ekiden.routing import RouteDecision as RouteDecision
    from ekiden.routing import Router as Router
    from ekiden.routing import RoutingSettings as RoutingSettings
    from ekiden.runtime import CodeContext as CodeContext
    from ekiden.runtime import HandoffController as HandoffController
    from ekiden.runtime import HandoffExecutor as HandoffExecutor
    from ekiden.runtime import Limits as Limits
    from ekiden.runtime import Price as Price
    from ekiden.runtime import Rollback as Rollback
    from ekiden.runtime import RunConfig as RunConfig
    from ekiden.runtime import Runner as Runner
    from ekiden.runtime import RunResult as RunResult
    from ekiden.runtime.deletion import delete_session as delete_session
    from ekiden.runtime.fork import fork_session as fork_session
    from ekiden.sessions import Session as Session
    from ekiden.storage.base import Store as Store
    from ekiden.storage.memory import MemoryStore as MemoryStore
    from ekiden.storage.postgres import PostgresStore as PostgresStore
    from ekiden.storage.sqlite import SqliteStore as SqliteStore
    from ekiden.tools import ToolSettings as ToolSettings
    from ekiden.tools import builtin_tools as builtin_tools
    from ekiden.tools import function_tool as function_tool
    from ekiden.tools import register_tool as register_tool
    from ekiden.tools.mcp import McpServer as McpServer
    from ekiden.tools.mcp import McpTools as McpTools
    from ekiden.tools.mcp import parse_mcp_servers as parse_mcp_servers

__version__ = "0.1.0"

_MODULE_OF = {
    "Actor": "ekiden.core.handoff_record",
    "Agent": "ekiden.core.agent",
    "AgentFilesInvalid": "ekiden.core.errors",
    "AgentHookContext": "ekiden.core.context",
    "AgentHooks": "ekiden.core.hooks",
    "AgentMessage": "ekiden.core.messages",
    "AgentReply": "ekiden.core.remote",
    "AgentRunner": "ekiden.core.remote",
    "AgentTask": "ekiden.core.remote",
    "AgentUnavailableError": "ekiden.core.message_errors",
    "Approval": "ekiden.core.roles",
    "Approver": "ekiden.core.roles",
    "Ask": "ekiden.core.asking",
    "AuditQuery": "ekiden.audit",
    "AuditRecord": "ekiden.audit",
    "BlockingContext": "ekiden.core.messages",
    "Budget": "ekiden.core.handoff_terms",
    "Bus": "ekiden.bus",
    "BusError": "ekiden.core.message_errors",
    "BusSettings": "ekiden.bus",
    "Capability": "ekiden.core.profile",
    "CapabilityMatcher": "ekiden.capabilities",
    "CodeContext": "ekiden.runtime",
    "Collaboration": "ekiden.collaboration",
    "CollaborationError": "ekiden.core.collaboration_errors",
    "Collaborations": "ekiden.collaboration",
    "Condition": "ekiden.conditions",
    "ConditionError": "ekiden.core.errors",
    "Confirmation": "ekiden.core.profile",
    "ConfirmationRequest": "ekiden.core.roles",
    "Deadlock": "ekiden.bus.deadlocks",
    "DeadlockError": "ekiden.core.message_errors",
    "Decline": "ekiden.core.handoff_record",
    "Done": "ekiden.core.outcomes",
    "EkidenError": "ekiden.core.errors",
    "EngineTooOld": "ekiden.core.errors",
    "EscalationStep": "ekiden.core.inbox_item",
    "Evaluation": "ekiden.conditions",
    "Event": "ekiden.core.events",
    "EventHub": "ekiden.hub",
    "Failed": "ekiden.core.outcomes",
    "Fit": "ekiden.capabilities",
    "FunctionTool": "ekiden.core.tool",
    "GuardrailError": "ekiden.core.errors",
    "GuardrailFailed": "ekiden.core.errors",
    "HandedOff": "ekiden.core.outcomes",
    "Handoff": "ekiden.core.handoff",
    "HandoffContext": "ekiden.core.handoff_record",
    "HandoffController": "ekiden.runtime",
    "HandoffError": "ekiden.core.errors",
    "HandoffExecutor": "ekiden.runtime",
    "HandoffFailure": "ekiden.core.handoff_record",
    "HandoffInputData": "ekiden.core.handoff",
    "HandoffNotFound": "ekiden.core.errors",
    "HandoffPage": "ekiden.handoff.history_query",
    "HandoffQuery": "ekiden.handoff.history_query",
    "HandoffRecord": "ekiden.handoff.records",
    "HandoffRefused": "ekiden.core.errors",
    "HandoffRequest": "ekiden.core.handoff_record",
    "HandoffResult": "ekiden.core.handoff_record",
    "HandoffTerms": "ekiden.core.handoff_terms",
    "HandoffTrigger": "ekiden.core.handoff_terms",
    "HubEvent": "ekiden.hub",
    "Inbox": "ekiden.inbox",
    "InboxAnswer": "ekiden.core.inbox_item",
    "InboxAnswerInvalid": "ekiden.core.inbox_errors",
    "InboxError": "ekiden.core.inbox_errors",
    "InboxForbidden": "ekiden.core.inbox_errors",
    "InboxItem": "ekiden.core.inbox_item",
    "InboxItemClosed": "ekiden.core.inbox_errors",
    "InboxItemNotFound": "ekiden.core.inbox_errors",
    "InboxPage": "ekiden.inbox",
    "InboxQuery": "ekiden.inbox",
    "InboxSettings": "ekiden.inbox",
    "LeaseLost": "ekiden.core.errors",
    "Limits": "ekiden.runtime",
    "MailboxFull": "ekiden.core.message_errors",
    "Match": "ekiden.capabilities",
    "MaxTurnsExceeded": "ekiden.core.errors",
    "McpServer": "ekiden.tools.mcp",
    "McpTools": "ekiden.tools.mcp",
    "McpUnavailable": "ekiden.core.errors",
    "MemoryStore": "ekiden.storage.memory",
    "MessageNotFound": "ekiden.core.message_errors",
    "Model": "ekiden.core.model",
    "ModelBehaviorError": "ekiden.core.errors",
    "ModelDelta": "ekiden.core.model",
    "ModelError": "ekiden.core.errors",
    "ModelRefused": "ekiden.core.errors",
    "ModelRequest": "ekiden.core.model",
    "ModelResponse": "ekiden.core.model",
    "ModelSettings": "ekiden.core.model",
    "ModelTimeout": "ekiden.core.errors",
    "NoRoute": "ekiden.core.errors",
    "OutOfBudget": "ekiden.core.outcomes",
    "OutOfBudgetError": "ekiden.core.errors",
    "Outcome": "ekiden.core.outcomes",
    "PostgresStore": "ekiden.storage.postgres",
    "Price": "ekiden.runtime",
    "Problem": "ekiden.agents",
    "Project": "ekiden.app",
    "ProtocolError": "ekiden.core.collaboration_errors",
    "QueryFailed": "ekiden.core.message_errors",
    "QueryTimeout": "ekiden.core.message_errors",
    "RealtimeAgent": "ekiden.realtime",
    "RealtimeClosed": "ekiden.realtime",
    "RealtimeDisconnected": "ekiden.realtime",
    "RealtimeModel": "ekiden.realtime",
    "RealtimeModelSettings": "ekiden.realtime",
    "RealtimeRunConfig": "ekiden.realtime",
    "RealtimeRunner": "ekiden.realtime",
    "RealtimeServerError": "ekiden.realtime",
    "RealtimeSession": "ekiden.realtime",
    "RealtimeUnavailable": "ekiden.realtime",
    "RealtimeWebSocketModel": "ekiden.realtime",
    "Refused": "ekiden.core.outcomes",
    "Rollback": "ekiden.runtime",
    "RouteDecision": "ekiden.routing",
    "Router": "ekiden.routing",
    "RoutingError": "ekiden.core.errors",
    "RoutingSettings": "ekiden.routing",
    "RunConfig": "ekiden.runtime",
    "RunContextWrapper": "ekiden.core.context",
    "RunHooks": "ekiden.core.hooks",
    "RunResult": "ekiden.runtime",
    "Runner": "ekiden.runtime",
    "Seat": "ekiden.bus",
    "SenderForged": "ekiden.core.message_errors",
    "Session": "ekiden.sessions",
    "SessionBusy": "ekiden.core.errors",
    "SessionError": "ekiden.core.errors",
    "SessionExists": "ekiden.core.errors",
    "SessionNotFound": "ekiden.core.errors",
    "Settings": "ekiden.app",
    "SettingsInvalid": "ekiden.core.errors",
    "SettingsNotWritten": "ekiden.core.errors",
    "SqliteStore": "ekiden.storage.sqlite",
    "Store": "ekiden.storage.base",
    "StoreError": "ekiden.core.errors",
    "StoreTooNew": "ekiden.core.errors",
    "StoreUnavailable": "ekiden.core.errors",
    "Subscription": "ekiden.hub",
    "Team": "ekiden.core.team",
    "TeamOnBus": "ekiden.engine",
    "ToolContext": "ekiden.core.context",
    "ToolError": "ekiden.core.errors",
    "ToolGuardrailFunctionOutput": "ekiden.core.tool_guardrails",
    "ToolInputGuardrail": "ekiden.core.tool_guardrails",
    "ToolInputGuardrailData": "ekiden.core.tool_guardrails",
    "ToolInputGuardrailResult": "ekiden.core.tool_guardrails",
    "ToolInputGuardrailTripwireTriggered": "ekiden.core.errors",
    "ToolOutputGuardrail": "ekiden.core.tool_guardrails",
    "ToolOutputGuardrailData": "ekiden.core.tool_guardrails",
    "ToolOutputGuardrailResult": "ekiden.core.tool_guardrails",
    "ToolOutputGuardrailTripwireTriggered": "ekiden.core.errors",
    "ToolSettings": "ekiden.tools",
    "ToolTimeout": "ekiden.core.errors",
    "ToolUnusable": "ekiden.core.errors",
    "Triggers": "ekiden.core.profile",
    "UnknownAgent": "ekiden.core.errors",
    "UnknownSetting": "ekiden.core.errors",
    "UnknownTool": "ekiden.core.errors",
    "Usage": "ekiden.core.usage",
    "UserError": "ekiden.core.errors",
    "Verification": "ekiden.audit",
    "Waiting": "ekiden.core.outcomes",
    "Worker": "ekiden.engine",
    "audit_records": "ekiden.audit",
    "builtin_tools": "ekiden.tools",
    "compile_condition": "ekiden.conditions",
    "compose": "ekiden.handoff",
    "deadlocks": "ekiden.bus.deadlocks",
    "export_audit": "ekiden.audit",
    "filter_report": "ekiden.handoff.filter_report",
    "find_handoffs": "ekiden.handoff.history_query",
    "delete_session": "ekiden.runtime.deletion",
    "fork_session": "ekiden.runtime.fork",
    "function_tool": "ekiden.tools",
    "handoff": "ekiden.handoff",
    "keep_first_and_last": "ekiden.handoff",
    "keep_last": "ekiden.handoff",
    "load_project": "ekiden.app",
    "load_settings": "ekiden.app",
    "load_team": "ekiden.app",
    "missing_capabilities": "ekiden.capabilities",
    "negotiation_tools": "ekiden.collaboration",
    "nest_history": "ekiden.handoff",
    "open_store": "ekiden.app",
    "parse_mcp_servers": "ekiden.tools.mcp",
    "person": "ekiden.handoff",
    "realtime_handoff": "ekiden.realtime",
    "redact": "ekiden.handoff",
    "register_tool": "ekiden.tools",
    "remove_all_tools": "ekiden.handoff",
    "shorten_tool_outputs": "ekiden.handoff",
    "submit": "ekiden.engine",
    "summarise": "ekiden.handoff",
    "summarise_with": "ekiden.handoff",
    "tool_input_guardrail": "ekiden.core.tool_guardrails",
    "tool_output_guardrail": "ekiden.core.tool_guardrails",
    "verify_audit": "ekiden.audit",
}

__all__ = ["__version__", *_MODULE_OF]


__getattr__ = lazy_names(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps `ekiden.handoff` the function.

    Importing a subpackage binds it in its parent. `ekiden.handoff` is both a subpackage and a
    public function, so that binding is dropped; `from ekiden.handoff import …` does not need it.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
