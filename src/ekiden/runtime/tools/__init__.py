"""The tools of a turn: the offer to the model, approvals, calls, and stored results."""
