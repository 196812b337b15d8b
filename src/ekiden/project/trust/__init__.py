"""Workspace trust: the lines in a project's files that need a person's approval before use."""

from ekiden.project.trust.risks import Risk as Risk
from ekiden.project.trust.workspace import (
    TrustedFolders as TrustedFolders,
    Workspace as Workspace,
    inspect_workspace as inspect_workspace,
    keeping_trust as keeping_trust,
    trust_written as trust_written,
    was_trusted as was_trusted,
)
