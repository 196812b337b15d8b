"""Where sessions are mirrored to: `mirror` of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9:._-]{0,127}"
"""What Google takes as the name of a project, a location or an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexSettings(Checked):
    """`mirror.vertex`: an agent engine of Vertex AI."""

    project: Annotated[
        str | None,
        Allowed(
            what="a project in Google Cloud",
            form=NAME,
            env="EKIDEN_VERTEX_PROJECT",
            risk="sends sessions there",
        ),
    ] = None
    """The Google Cloud project that `ekiden mirror run` replicates sessions to; null switches it
    off."""
    location: Annotated[
        str, Allowed(what="a location in Google Cloud", form=NAME, env="EKIDEN_VERTEX_LOCATION")
    ] = "us-central1"
    """The location of the engine."""
    engine: Annotated[
        str | None,
        Allowed(
            what="an engine's id",
            form=NAME,
            env="EKIDEN_VERTEX_ENGINE",
            risk="sends sessions there",
        ),
    ] = None
    """The agent engine of Vertex AI that holds the replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings(Checked):
    """What is mirrored, and where to."""

    include_sensitive_data: bool = True
    """If false, card numbers, telephones, e-mail addresses and keys are masked before anything is
    sent."""
    vertex: VertexSettings = field(default_factory=VertexSettings)
