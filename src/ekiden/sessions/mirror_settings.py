"""Where sessions are mirrored to: `mirror` of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from ekiden.core.setting import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexSettings:
    """`mirror.vertex`: an agent engine of Vertex AI."""

    project: Annotated[
        str | None,
        Allowed(
            what="a project in Google Cloud",
            env="EKIDEN_VERTEX_PROJECT",
            risk="sends sessions there",
        ),
    ] = None
    """The project to which `ekiden mirror run` mirrors sessions; null mirrors none."""
    location: Annotated[
        str, Allowed(what="a location in Google Cloud", env="EKIDEN_VERTEX_LOCATION")
    ] = "us-central1"
    """Where the engine is."""
    engine: Annotated[
        str | None,
        Allowed(what="an engine's id", env="EKIDEN_VERTEX_ENGINE", risk="sends sessions there"),
    ] = None
    """The agent engine of Vertex AI whose sessions they become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """What is mirrored, and where to."""

    include_sensitive_data: bool = True
    """If not, card numbers, telephones, e-mail addresses and keys are covered before anything is
    sent."""
    vertex: VertexSettings = field(default_factory=VertexSettings)
