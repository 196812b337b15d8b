"""The in-memory store."""

from ekiden.storage.memory.store import MemoryStore as MemoryStore
