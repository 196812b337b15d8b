"""Builds the replica of sessions that the settings name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ekiden.core.errors import UserError
from ekiden.core.integrations import integration
from ekiden.sessions.replica.base import ReplicaSettings

if TYPE_CHECKING:
    from ekiden.sessions.replica.base import SessionReplica

_URL = "EKIDEN_VERTEX_URL"
"""Another address of Vertex, such as a private one. It gets this machine's token: so it is taken
from the environment only, and not from a file that came with a project."""


def session_replica(settings: ReplicaSettings) -> SessionReplica:
    """The mirror of the settings; `UserError` if there is none, or the extra ``vertex`` is missing.

    For example::

        await replicate_sessions(store, session_replica(load_settings(folder).settings.mirror))
    """
    vertex = settings.vertex
    if not (vertex.project and vertex.engine):
        raise UserError(
            "no mirror is set up: `ekiden config set mirror.vertex.project PROJECT` and "
            "`ekiden config set mirror.vertex.engine ID` say where sessions are mirrored to"
        )
    mirror: SessionReplica = (
        integration("vertex")
        .load()
        .VertexReplica(
            project=vertex.project,
            location=vertex.location,
            engine=vertex.engine,
            url=os.environ.get(_URL) or None,
        )
    )
    return mirror
