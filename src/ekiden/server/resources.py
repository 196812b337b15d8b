"""The resources of the interface whose routes are derived from it."""

from __future__ import annotations

from fastapi import APIRouter

from ekiden.api.administration import Keys, Replicas, Settings, Workers
from ekiden.api.agents import Agents
from ekiden.api.audit import Audit
from ekiden.api.collaborations import Collaborations
from ekiden.api.handoffs import Handoffs
from ekiden.api.inbox import Inbox
from ekiden.api.local.administration import LocalKeys, LocalReplicas, LocalSettings, LocalWorkers
from ekiden.api.local.agents import LocalAgents
from ekiden.api.local.audit import LocalAudit
from ekiden.api.local.collaborations import LocalCollaborations
from ekiden.api.local.handoffs import LocalHandoffs
from ekiden.api.local.inbox import LocalInbox
from ekiden.api.local.memory import LocalMemory
from ekiden.api.local.messages import LocalMessages
from ekiden.api.local.plans import LocalPlans
from ekiden.api.local.runs import LocalRuns
from ekiden.api.local.sessions import LocalSessions
from ekiden.api.local.state import LocalState
from ekiden.api.local.traces import LocalCosts, LocalTraces
from ekiden.api.memory import Memory
from ekiden.api.messages import Messages
from ekiden.api.plans import Plans
from ekiden.api.runs import Runs
from ekiden.api.sessions import Sessions
from ekiden.api.state import State
from ekiden.api.traces import Costs, Traces
from ekiden.server.derived import router_of
from ekiden.server.routes import runs

ROUTERS: tuple[APIRouter, ...] = (
    router_of(Agents, LocalAgents, tag="agents"),
    router_of(Handoffs, LocalHandoffs, tag="handoffs"),
    router_of(Plans, LocalPlans, tag="plans"),
    router_of(Collaborations, LocalCollaborations, tag="collaborations"),
    router_of(Runs, LocalRuns, tag="runs", by_hand=runs.BY_HAND),
    router_of(Sessions, LocalSessions, tag="sessions"),
    router_of(Traces, LocalTraces, tag="traces"),
    router_of(Audit, LocalAudit, tag="audit"),
    router_of(Settings, LocalSettings.of, tag="settings"),
    router_of(Replicas, LocalReplicas, tag="mirror"),
    router_of(Inbox, LocalInbox, tag="inbox"),
    router_of(Messages, LocalMessages, tag="messages"),
    router_of(Costs, LocalCosts, tag="costs"),
    router_of(Memory, LocalMemory, tag="memory"),
    router_of(State, LocalState, tag="state"),
    router_of(Workers, LocalWorkers, tag="workers"),
    router_of(Keys, LocalKeys, tag="keys"),
)
