"""Everything that there is, here or behind a server, with the same methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.api.audit import Audit
from ekiden.api.costs import Costs
from ekiden.api.inbox import Inbox
from ekiden.api.keys import Keys
from ekiden.api.memory import Memory
from ekiden.api.messages import Messages
from ekiden.api.replicas import Replicas
from ekiden.api.settings import Settings
from ekiden.api.state import State
from ekiden.api.workers import Workers

if TYPE_CHECKING:
    from ekiden.api.local.place import Here
    from ekiden.client.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Ekiden:
    """The resources, by name."""

    audit: Audit
    costs: Costs
    inbox: Inbox
    keys: Keys
    mirror: Replicas
    settings: Settings
    memory: Memory
    state: State
    messages: Messages
    workers: Workers


def at_server(wire: Wire) -> Ekiden:
    """What a server has."""
    from ekiden.client.remote import remote

    return Ekiden(
        audit=remote(Audit, wire),
        costs=remote(Costs, wire),
        keys=remote(Keys, wire),
        mirror=remote(Replicas, wire),
        settings=remote(Settings, wire),
        memory=remote(Memory, wire),
        inbox=remote(Inbox, wire),
        state=remote(State, wire),
        messages=remote(Messages, wire),
        workers=remote(Workers, wire),
    )


def at_store(here: Here) -> Ekiden:
    """What a store of this process has."""
    from ekiden.api.arguments import checked
    from ekiden.api.local.audit import LocalAudit
    from ekiden.api.local.costs import LocalCosts
    from ekiden.api.local.inbox import LocalInbox
    from ekiden.api.local.keys import LocalKeys
    from ekiden.api.local.memory import LocalMemory
    from ekiden.api.local.messages import LocalMessages
    from ekiden.api.local.replicas import LocalReplicas
    from ekiden.api.local.settings import LocalSettings
    from ekiden.api.local.state import LocalState
    from ekiden.api.local.workers import LocalWorkers

    return Ekiden(
        audit=checked(Audit, LocalAudit(here)),
        costs=checked(Costs, LocalCosts(here)),
        inbox=checked(Inbox, LocalInbox(here)),
        keys=checked(Keys, LocalKeys(here)),
        mirror=checked(Replicas, LocalReplicas(here)),
        settings=checked(Settings, LocalSettings(here.loaded, tenant=here.tenant)),
        memory=checked(Memory, LocalMemory(here)),
        state=checked(State, LocalState(here)),
        messages=checked(Messages, LocalMessages(here)),
        workers=checked(Workers, LocalWorkers(here)),
    )
