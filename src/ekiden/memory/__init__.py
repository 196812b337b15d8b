"""Long-term memory of agents, across sessions."""

from ekiden.memory.base import (
    BackendOptions as BackendOptions,
    MemoryBackend as MemoryBackend,
    RemoteEntry as RemoteEntry,
    RemoteHit as RemoteHit,
    backend as backend,
    close_backends as close_backends,
    known_backends as known_backends,
    register_backend as register_backend,
    remote_backend as remote_backend,
)
from ekiden.memory.memory import Memory as Memory
from ekiden.memory.outbox import (
    DeliveryReport as DeliveryReport,
    deliver as deliver,
    used_backends as used_backends,
)
from ekiden.memory.search import space_of as space_of
