"""What the target of a handoff sees: filters, summaries, and reports about them."""
