"""What the target of a handoff sees: filters, summaries, and what they did."""
