"""Replicas of sessions in other systems, fed from the store."""
