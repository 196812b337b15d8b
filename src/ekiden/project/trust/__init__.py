"""Workspace trust: what in a project's files a person must agree to before it is used."""

from ekiden.project.trust.risks import Risk as Risk
from ekiden.project.trust.workspace import (
    TrustedFolders as TrustedFolders,
    Workspace as Workspace,
    inspect_workspace as inspect_workspace,
    keeping_trust as keeping_trust,
    trust_written as trust_written,
    was_trusted as was_trusted,
)
