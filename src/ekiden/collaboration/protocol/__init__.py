"""The protocol of collaborations: moves, rules, messages and their signatures."""
