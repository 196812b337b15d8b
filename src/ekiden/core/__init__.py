"""The words that every floor speaks: ids, errors, items, agents, events, outcomes."""
