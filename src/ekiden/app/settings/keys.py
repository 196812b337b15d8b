"""The table of settings, which follows from the fields of `Settings`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from functools import reduce
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ekiden.app.settings.budgets import Budgets
from ekiden.app.settings.faults import FAULTS, Fault
from ekiden.app.settings.model import SERVERS, Settings
from ekiden.app.settings.prices import Prices
from ekiden.app.settings.servers import Servers
from ekiden.app.settings.steps import Steps
from ekiden.core.ids import is_tenant
from ekiden.core.kinds import Allowed, Choice, Flag, Kind, Number, Text, Texts

_OF_THEIR_OWN: dict[str, Kind] = {
    "prices": Prices(),
    "limits.agents": Budgets(whose="agents"),
    "limits.tenants": Budgets(whose="tenants", takes=lambda name: name == "*" or is_tenant(name)),
    SERVERS: Servers(),
    "inbox.escalation": Steps(),
}
_PLAIN = Allowed()
_MAX_TEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Something that can be set."""

    name: str
    """Dotted, as it is nested in the file."""
    kind: Kind
    env: str
    """The environment variable that sets it too."""
    owner: type
    """The class that has it as a field."""
    risk: str | None = None
    """What a value other than the default does, if the project's folder must be trusted first."""

    @property
    def default(self) -> object:
        """What holds when nobody sets it."""
        return reduce(getattr, self.attributes, _DEFAULTS)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Where `Settings` has it."""
        return tuple("mcp_servers" if part == SERVERS else part for part in self.name.split("."))

    @property
    def meaning(self) -> str:
        """What it decides, as it is said at the field."""
        from ekiden.core.documents import field_texts

        text = field_texts(self.owner)[self.attributes[-1]]
        return " ".join(text.replace("``", "`").split())


def _settings(owner: type, above: str = "") -> Iterator[Setting]:
    for attribute, hint in get_type_hints(owner, include_extras=True).items():
        name = above + (SERVERS if attribute == "mcp_servers" else attribute)
        if is_dataclass(hint):
            yield from _settings(hint, f"{name}.")  # type: ignore[arg-type]
            continue
        allowed = next((each for each in getattr(hint, "__metadata__", ())), _PLAIN)
        kind = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        yield Setting(
            name=name,
            kind=_OF_THEIR_OWN.get(name) or _kind_of(kind, allowed, FAULTS.get(name)),
            env=allowed.env or _variable(name),
            owner=owner,
            risk=allowed.risk,
        )


def _variable(name: str) -> str:
    short = name.removeprefix("agents.") if name.startswith("agents.routing.") else name
    return f"EKIDEN_{short.upper().replace('.', '_')}"


def _kind_of(hint: Any, allowed: Allowed, fault: Fault | None) -> Kind:
    """How values of a type are checked and read."""
    if get_origin(hint) is Literal:
        return Choice(words=get_args(hint))
    kinds = [each for each in get_args(hint) if each is not NoneType]
    optional = NoneType in get_args(hint)
    if optional:
        [hint] = kinds
    if hint is bool:
        return Flag()
    if hint in (int, float):
        whole = hint is int
        return Number(low=allowed.low, high=allowed.high, whole=whole, optional=optional)
    form = None if allowed.form is None else re.compile(allowed.form)
    text = Text(
        what=allowed.what,
        max_length=_MAX_TEXT,
        is_line=True,
        form=form,
        check=fault,
        optional=optional,
    )
    return Texts(item=text) if get_origin(hint) is tuple else text


_DEFAULTS: object = Settings()

SETTINGS: tuple[Setting, ...] = tuple(_settings(Settings))
"""Every setting, in the order of the documentation."""
