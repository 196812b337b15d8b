"""Whole schemas: read as they were at one moment, filled, and saved with PostgreSQL's programs."""
