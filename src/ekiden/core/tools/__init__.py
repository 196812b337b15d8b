"""Tools of agents, and the checks around them."""
