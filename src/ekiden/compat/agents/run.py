"""Running agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ekiden.runtime import (
    AgentRunner,
    CallModelData,
    ModelInputData,
    set_default_agent_runner,
)
from ekiden.runtime import RunConfig as _RunConfig
from ekiden.runtime import Runner as _Runner

__all__ = [
    "AgentRunner",
    "CallModelData",
    "ModelInputData",
    "RunConfig",
    "Runner",
    "set_default_agent_runner",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(_RunConfig):
    """Ekiden's, but for handoffs that lead back: programs of that SDK take them for granted."""

    returns: Literal["declared", "always"] = "always"


class Runner(_Runner):
    """Ekiden's, with the configuration of this module for runs that are given none."""

    default_config: ClassVar[_RunConfig | None] = RunConfig()
