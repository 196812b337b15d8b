"""Waits of agents for each other: in this process, in the store, and in deadlocks."""
