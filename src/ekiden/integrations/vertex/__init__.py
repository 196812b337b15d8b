"""Sessions mirrored to Vertex AI Sessions."""

from ekiden.integrations.vertex.replica import VertexReplica

__all__ = ["VertexReplica"]
