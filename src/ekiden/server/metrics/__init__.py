"""Metrics in the format of Prometheus."""
