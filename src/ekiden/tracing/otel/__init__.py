"""Converts spans to OpenTelemetry's conventions, and sends them with OpenTelemetry's exporter."""
