"""Agents in processes of their own, over stdio or HTTP: for any language, and for frameworks whose
requirements contradict those of the team."""

from ekiden.integrations.process.agents import HttpAgent as HttpAgent, ProcessAgent as ProcessAgent
