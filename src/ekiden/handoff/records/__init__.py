"""Handoff records: their lifecycle, requests and queries."""
