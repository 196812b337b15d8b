"""The replica of a store's sessions that the settings name."""

from __future__ import annotations

from ekiden.api import administration as api
from ekiden.api.local.place import Here
from ekiden.core.errors import UserError
from ekiden.core.errors.server import NotServed
from ekiden.project.run_options import session_replica
from ekiden.sessions.replica.progress import ReplicaStatus, replica_status


class LocalReplicas(api.Replicas):
    """See `Replicas`; `NotServed` if the settings name none."""

    def __init__(self, here: Here) -> None:
        self._here = here

    async def status(self) -> ReplicaStatus:
        try:
            name = session_replica(self._here.settings.mirror).name
        except UserError as exc:
            raise NotServed(str(exc)) from exc
        return await replica_status(self._here.store, name)
