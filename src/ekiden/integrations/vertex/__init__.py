"""Sessions mirrored to Vertex AI Sessions."""

from ekiden.integrations.vertex.replica import VertexReplica as VertexReplica
