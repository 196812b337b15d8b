"""Long-term memory of agents, across sessions."""

from ekiden.memory.base import (
    BackendOptions,
    MemoryBackend,
    RemoteEntry,
    RemoteHit,
    backend,
    close_backends,
    known_backends,
    register_backend,
    remote_backend,
)
from ekiden.memory.entries import space_of
from ekiden.memory.memory import Memory
from ekiden.memory.outbox import DeliveryReport, deliver, used_backends

__all__ = [
    "BackendOptions",
    "DeliveryReport",
    "Memory",
    "MemoryBackend",
    "RemoteEntry",
    "RemoteHit",
    "backend",
    "close_backends",
    "deliver",
    "known_backends",
    "register_backend",
    "remote_backend",
    "space_of",
    "used_backends",
]
