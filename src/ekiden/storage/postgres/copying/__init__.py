"""Whole schemas: snapshots, targets of copies, and dumps with PostgreSQL's programs."""
