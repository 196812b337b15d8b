"""The kinds of agents and their turns: a model, code, a router, people, remote agents."""
