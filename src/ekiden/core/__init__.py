"""The vocabulary of every layer: ids, errors, items, agents, events, outcomes."""
