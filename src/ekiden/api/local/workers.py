"""Workers of a store."""

from __future__ import annotations

from ekiden.api import administration as api
from ekiden.api.local.place import Here
from ekiden.engine.registry import list_workers, unserved
from ekiden.project.stores import DEFAULT_TENANT


class LocalWorkers(api.Workers):
    """See `Workers`."""

    def __init__(self, here: Here) -> None:
        self._store = here.store
        self._tenant = here.tenant

    async def list(self) -> api.WorkerOverview:
        workers = await list_workers(self._store)
        if self._tenant != DEFAULT_TENANT:
            # Its store may be a copy of another one, with the list of workers in it.
            workers = [each for each in workers if each.tenant in ("", self._tenant)]
        return api.WorkerOverview(workers=workers, unserved=await unserved(self._store, workers))
