"""Workers of a store."""

from __future__ import annotations

from ekiden.api import workers as api
from ekiden.api.local.place import Here
from ekiden.engine.registry import list_workers, unserved


class LocalWorkers(api.Workers):
    """See `Workers`."""

    def __init__(self, here: Here) -> None:
        self._store = here.store

    async def list(self) -> api.WorkerOverview:
        workers = await list_workers(self._store)
        return api.WorkerOverview(workers=workers, unserved=await unserved(self._store, workers))
