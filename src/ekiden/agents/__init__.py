"""Reads, checks and watches agent files: Markdown with YAML front matter."""

from typing import TYPE_CHECKING

from ekiden.agents.definition import (
    AgentDefinition,
    AgentFileProblem,
    GuardrailDefinition,
    HandoffDefinition,
    MemoryDefinition,
    Origin,
    Peer,
)
from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.agents.agent_file import AgentFile, origin_of, read_agent_file, read_agent_text
    from ekiden.agents.discovery import agent_folders
    from ekiden.agents.keys.table import agent_file_schema
    from ekiden.agents.load import AgentWatcher, LoadedAgents, load_agent_files
    from ekiden.agents.team_checks import check_team

__all__ = [
    "AgentDefinition",
    "AgentFile",
    "AgentFileProblem",
    "AgentWatcher",
    "GuardrailDefinition",
    "HandoffDefinition",
    "LoadedAgents",
    "MemoryDefinition",
    "Origin",
    "Peer",
    "agent_file_schema",
    "agent_folders",
    "check_team",
    "load_agent_files",
    "origin_of",
    "read_agent_file",
    "read_agent_text",
]

__getattr__ = lazy_names(__name__)
