"""The words that every layer speaks: ids, errors, items, agents, events, outcomes."""
