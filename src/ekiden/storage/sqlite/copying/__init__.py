"""Whole SQLite files: snapshots, copies, and moves."""
