"""OpenTelemetry: spans in its words, sent with its own exporter."""
