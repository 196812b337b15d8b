"""The basic types that all parts of Ekiden use: ids, errors, conversation items, agents, events and
outcomes of runs."""
