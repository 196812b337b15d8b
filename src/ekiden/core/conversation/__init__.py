"""What is said: items, messages between agents, calls of models and what they use."""
