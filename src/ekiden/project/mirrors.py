"""From the settings to a mirror of sessions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ekiden.core.errors import UserError
from ekiden.core.integrations import integration
from ekiden.sessions.mirror.settings import MirrorSettings

if TYPE_CHECKING:
    from ekiden.sessions.mirror.base import SessionMirror

_URL = "EKIDEN_VERTEX_URL"
"""Another address of Vertex, such as a private one. It gets this machine's token: so it is taken
from the environment only, and not from a file that came with a project."""


def session_mirror(settings: MirrorSettings) -> SessionMirror:
    """The mirror of the settings; `UserError` if there is none, or the extra ``vertex`` is missing.

    For example::

        await mirror_sessions(store, session_mirror(load_settings(folder).settings.mirror))
    """
    vertex = settings.vertex
    if not (vertex.project and vertex.engine):
        raise UserError(
            "no mirror is set up: `ekiden config set mirror.vertex.project PROJECT` and "
            "`ekiden config set mirror.vertex.engine ID` say where sessions are mirrored to"
        )
    mirror: SessionMirror = (
        integration("vertex")
        .load()
        .VertexMirror(
            project=vertex.project,
            location=vertex.location,
            engine=vertex.engine,
            url=os.environ.get(_URL) or None,
        )
    )
    return mirror
