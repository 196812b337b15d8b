"""The store that lives and dies with its process."""

from ekiden.storage.memory.store import MemoryStore as MemoryStore
