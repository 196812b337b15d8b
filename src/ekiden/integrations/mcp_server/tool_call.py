"""One call of a tool: its caller, its tenant and how it reports progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from ekiden.core.errors.server import Forbidden
from ekiden.project.service import Service, TenantService
from ekiden.server.access.access import Caller, Scope

TellProgress: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Says how far the call is, as a number that grows, and in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Whoever uses the server."""

    caller: Caller
    may_answer: bool
    """Whether this one may decide what people are asked: not for an agent that calls us."""

    def may(self, scope: Scope) -> bool:
        """Whether a tool that needs the scope is offered."""
        return self.may_answer if scope == "answer" else self.caller.may(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One call of one tool."""

    visitor: Visitor
    service: Service
    desk: TenantService
    tell: TellProgress

    @property
    def name(self) -> str:
        """Who calls, for people."""
        return self.visitor.caller.name

    def check(self, scope: Scope) -> None:
        """`Forbidden` without the scope."""
        if not self.visitor.may(scope):
            raise Forbidden(scope)
