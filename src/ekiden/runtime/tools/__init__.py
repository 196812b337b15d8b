"""The tools of a turn: what is offered, approved, called and remembered."""
