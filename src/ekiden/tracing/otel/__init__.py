"""OpenTelemetry: spans in its conventions, sent with its exporter."""
