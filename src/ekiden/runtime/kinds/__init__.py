"""The kinds of agents (models, code, routers, people and remote agents) and their turns."""
