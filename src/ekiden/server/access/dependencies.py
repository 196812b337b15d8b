"""Parameters of routes: the tenant's service for a scope, and the caller."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends

from ekiden.project.service import TenantService
from ekiden.server.access.access import Caller, caller_of, needs

Reads: TypeAlias = Annotated[TenantService, Depends(needs("read"))]
Starts: TypeAlias = Annotated[TenantService, Depends(needs("run"))]
Administers: TypeAlias = Annotated[TenantService, Depends(needs("admin"))]
TheCaller: TypeAlias = Annotated[Caller, Depends(caller_of)]
"""In addition to one of the above, for the caller's name."""
