"""Sessions mirrored to Vertex AI Sessions."""

from ekiden.integrations.vertex.mirror import VertexMirror

__all__ = ["VertexMirror"]
