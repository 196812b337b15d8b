"""What the local implementations work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ekiden.api.methods.values import Moment, read_moment
from ekiden.core.errors import UserError
from ekiden.core.errors.server import Forbidden, RequestInvalid
from ekiden.project.settings import LoadedSettings, SettingOrigin, Settings
from ekiden.project.stores import DEFAULT_TENANT, tenant_app

if TYPE_CHECKING:
    from ekiden.core.agent import Team
    from ekiden.hub.reader import OnOutage
    from ekiden.project.project import Project
    from ekiden.project.runs.runs import RunStarter
    from ekiden.runtime import RunConfig
    from ekiden.storage.base import SessionRow, Store


def _nothing() -> None:
    pass


def _at_once(what: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """One tenant's store, and its context."""

    store: Store
    settings: Settings
    origins: Mapping[str, SettingOrigin] = field(default_factory=dict, repr=False)
    """The source of each changed setting, by name."""
    tenant: str = DEFAULT_TENANT
    app: str | None = None
    """Overrides the app of the settings."""
    project: Project | None = None
    """The team and its configuration; `None`: only stored data can be used."""
    model: str | None = None
    """Replaces the agents' own models."""
    runs: RunStarter | None = None
    """The runs of this process; `None`: other processes run the sessions."""
    caller: str = ""
    """The caller: the name of the key at a server; empty: each call names the person with `by`."""
    may_name_others: bool = True
    """Whether the caller may act for another person."""
    may_write_history: bool = True
    """Whether the caller may store conversation items of other roles."""
    is_person: bool = False
    """Whether handoffs are requested by a person, not a program."""
    via: str = "program"
    """The channel of people's answers."""
    busy_timeout_s: float = 30.0
    """How long to wait for a session that another process runs."""
    run_config: RunConfig | None = None
    """The configuration of runs; `None`: as in the settings."""
    busy: Callable[[SessionRow], None] | None = field(default=None, repr=False)
    """Called before the process that runs a session is asked to hand it over."""
    keys_changed: Callable[[], None] = field(default=_nothing, repr=False)
    """Called when a key was created or revoked."""
    one_at_a_time: Callable[[str], AbstractContextManager[None]] = field(
        default=_at_once, repr=False
    )
    """Wraps long work of this kind; `TooManyRequests` while the same work is already running."""
    has_deadlines: bool = False
    """Whether `wait_s` and `timeout_s` of a call apply; a command waits as long as needed."""
    on_outage: OnOutage | None = field(default=None, repr=False)
    """Called when the store becomes unreachable while events are watched, and when it is back."""
    progress: Callable[[Any], None] | None = field(default=None, repr=False)
    """Called with the progress of an audit verification, and with the id of each pruned session."""

    @property
    def team(self) -> Team | None:
        """The local team."""
        return None if self.project is None else self.project.team

    def needed_project(self) -> Project:
        """The project; `UserError` if there is none."""
        if self.project is None:
            raise UserError("there is no team here: name one")
        return self.project

    @property
    def app_name(self) -> str:
        """The app's name."""
        return self.settings.app if self.app is None else self.app

    @property
    def loaded(self) -> LoadedSettings:
        """The settings, with the source of each."""
        return LoadedSettings(settings=self.settings, origins=self.origins)

    @property
    def stored_app(self) -> str:
        """The app's name in the store: the owner of its memory and `app:` state."""
        return tenant_app(self.settings.app, self.tenant) if self.app is None else self.app

    def person(self, by: str | None) -> str:
        """The person who decides: the caller, or `by`; `Forbidden` if the caller may not name
        others."""
        if by is None or by == self.caller:
            return self.caller
        if not self.may_name_others:
            raise Forbidden("admin")
        return by


def moment_of(given: Moment | None, *, what: str) -> datetime | None:
    """The time in a text; `RequestInvalid` for an invalid one."""
    if given is None or isinstance(given, datetime):
        return given
    try:
        return read_moment(given, zone=UTC)
    except (ValueError, OverflowError) as exc:
        raise RequestInvalid(
            f"{what}: {given[:40]!r} is not a time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30:00Z, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc
