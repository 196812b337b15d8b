"""The A2A protocol: calls remote agents, and serves the team as A2A agents. Needs `ekiden[a2a]`."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.integrations.a2a.agent import a2a_agent as a2a_agent
from ekiden.integrations.a2a.values import RemoteA2A as RemoteA2A

if TYPE_CHECKING:
    from ekiden.integrations.a2a.routes import install as install

__getattr__ = lazy_names(__name__)
