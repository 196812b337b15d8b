"""Agents in other processes, over stdio or HTTP. Use them for other languages, and for frameworks
whose requirements conflict with the team's requirements."""

from ekiden.integrations.process.agents import HttpAgent as HttpAgent, ProcessAgent as ProcessAgent
