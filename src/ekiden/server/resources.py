"""The resources of the interface whose routes are derived from it."""

from __future__ import annotations

from fastapi import APIRouter

from ekiden.api.audit import Audit
from ekiden.api.costs import Costs
from ekiden.api.inbox import Inbox
from ekiden.api.keys import Keys
from ekiden.api.local.audit import LocalAudit
from ekiden.api.local.costs import LocalCosts
from ekiden.api.local.inbox import LocalInbox
from ekiden.api.local.keys import LocalKeys
from ekiden.api.local.memory import LocalMemory
from ekiden.api.local.messages import LocalMessages
from ekiden.api.local.place import Here
from ekiden.api.local.replicas import LocalReplicas
from ekiden.api.local.settings import LocalSettings
from ekiden.api.local.state import LocalState
from ekiden.api.local.workers import LocalWorkers
from ekiden.api.memory import Memory
from ekiden.api.messages import Messages
from ekiden.api.replicas import Replicas
from ekiden.api.settings import Settings
from ekiden.api.state import State
from ekiden.api.workers import Workers
from ekiden.server.derived import router_of


def _settings(here: Here) -> LocalSettings:
    return LocalSettings(here.loaded, tenant=here.tenant)


ROUTERS: tuple[APIRouter, ...] = (
    router_of(Audit, LocalAudit, tag="audit"),
    router_of(Settings, _settings, tag="settings"),
    router_of(Replicas, LocalReplicas, tag="mirror"),
    router_of(Inbox, LocalInbox, tag="inbox"),
    router_of(Messages, LocalMessages, tag="messages"),
    router_of(Costs, LocalCosts, tag="costs"),
    router_of(Memory, LocalMemory, tag="memory"),
    router_of(State, LocalState, tag="state"),
    router_of(Workers, LocalWorkers, tag="workers"),
    router_of(Keys, LocalKeys, tag="keys"),
)
