"""What Codex may do in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.compat.agents.extensions.experimental.codex.codex_options import coerced

ApprovalMode: TypeAlias = Literal["never", "on-request", "on-failure", "untrusted"]
SandboxMode: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]
ModelReasoningEffort: TypeAlias = Literal["minimal", "low", "medium", "high", "xhigh"]
WebSearchMode: TypeAlias = Literal["disabled", "cached", "live"]


@dataclass(frozen=True)
class ThreadOptions:
    """Options of a thread; `None` uses the default of Codex."""

    model: str | None = None
    sandbox_mode: SandboxMode | None = None
    working_directory: str | None = None
    skip_git_repo_check: bool | None = None
    model_reasoning_effort: ModelReasoningEffort | None = None
    network_access_enabled: bool | None = None
    """Whether commands in the sandbox ``workspace-write`` have network access."""
    web_search_mode: WebSearchMode | None = None
    web_search_enabled: bool | None = None
    """Sets `web_search_mode`: `True` means ``live``, `False` means ``disabled``."""
    approval_policy: ApprovalMode | None = None
    additional_directories: Sequence[str] | None = None


def coerce_thread_options(
    options: ThreadOptions | Mapping[str, Any] | None,
) -> ThreadOptions | None:
    """The options as an object."""
    return coerced(ThreadOptions, options)
