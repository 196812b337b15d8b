"""How things are printed: one file for each resource."""
