"""Where sessions are mirrored to: `mirror` of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexSettings:
    """`mirror.vertex`: an agent engine of Vertex AI."""

    project: str | None = None
    """The project in Google Cloud; `None` mirrors nothing."""
    location: str = "us-central1"
    engine: str | None = None
    """The id of the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """What is mirrored, and where to."""

    include_sensitive_data: bool = True
    """If not, card numbers, telephones, e-mail addresses and keys are covered before anything is
    sent."""
    vertex: VertexSettings = field(default_factory=VertexSettings)
