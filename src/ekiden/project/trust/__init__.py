"""Workspace trust: what in a project's files a person must agree to before it is used."""

from ekiden.project.trust.risks import Risk
from ekiden.project.trust.workspace import (
    TrustedFolders,
    Workspace,
    inspect_workspace,
    keeping_trust,
    trust_written,
    was_trusted,
)

__all__ = [
    "Risk",
    "TrustedFolders",
    "Workspace",
    "inspect_workspace",
    "keeping_trust",
    "trust_written",
    "was_trusted",
]
