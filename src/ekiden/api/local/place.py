"""What the local implementations work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ekiden.api.moments import read_moment
from ekiden.api.texts import Moment
from ekiden.core.errors import UserError
from ekiden.core.errors.server import Forbidden, RequestInvalid
from ekiden.project.settings import LoadedSettings, SettingOrigin, Settings
from ekiden.project.tenants import DEFAULT_TENANT, tenant_app

if TYPE_CHECKING:
    from ekiden.core.team import Team
    from ekiden.hub.retry import OnOutage
    from ekiden.project.project import Project
    from ekiden.project.runs.runs import Runs
    from ekiden.runtime import RunConfig
    from ekiden.storage.base import SessionRow, Store


def _nothing() -> None:
    pass


def _at_once(what: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """One tenant's store, and what belongs to it."""

    store: Store
    settings: Settings
    origins: Mapping[str, SettingOrigin] = field(default_factory=dict, repr=False)
    """Where settings come from that somebody set, by name."""
    tenant: str = DEFAULT_TENANT
    app: str | None = None
    """Another app than that of the settings."""
    project: Project | None = None
    """Who works here, and with what; `None`: only what is stored can be used."""
    model: str | None = None
    """A model that is asked instead of the agents' own."""
    runs: Runs | None = None
    """The runs of this process; `None`: others run the sessions."""
    caller: str = ""
    """Who calls: the name of the key at a server; empty: each call names the person with `by`."""
    may_name_others: bool = True
    """Whether the caller may act in the name of somebody else."""
    may_write_history: bool = True
    """Whether the caller may store items of a conversation in the name of others."""
    is_person: bool = False
    """Whether a person asks for handoffs, and not a program."""
    via: str = "program"
    """From where answers of people come."""
    busy_timeout_s: float = 30.0
    """How long to wait for a session that somebody else runs."""
    run_config: RunConfig | None = None
    """With what sessions are run; `None`: as the settings say."""
    busy: Callable[[SessionRow], None] | None = field(default=None, repr=False)
    """Called before whoever runs a session is asked to hand it over."""
    keys_changed: Callable[[], None] = field(default=_nothing, repr=False)
    """Called when a key was made or revoked."""
    one_at_a_time: Callable[[str], AbstractContextManager[None]] = field(
        default=_at_once, repr=False
    )
    """Goes around long work of this kind; `TooManyRequests` while the same is done already."""
    has_deadlines: bool = False
    """Whether the `wait_s` and `timeout_s` of a call count; a command waits as long as it takes."""
    on_outage: OnOutage | None = field(default=None, repr=False)
    """Called when the store cannot be reached while somebody looks on, and when it can again."""
    progress: Callable[[Any], None] | None = field(default=None, repr=False)
    """Called again and again with what is done so far, while the audit is verified, and with the
    id of each session that is pruned."""

    @property
    def team(self) -> Team | None:
        """Who works here."""
        return None if self.project is None else self.project.team

    def needed_project(self) -> Project:
        """Who works here; `UserError` if nobody does."""
        if self.project is None:
            raise UserError("there is no team here: name one")
        return self.project

    @property
    def app_name(self) -> str:
        """The app, as people call it."""
        return self.settings.app if self.app is None else self.app

    @property
    def loaded(self) -> LoadedSettings:
        """The settings, with where each comes from."""
        return LoadedSettings(settings=self.settings, origins=self.origins)

    @property
    def stored_app(self) -> str:
        """The app, as the store calls it: whose memory and `app:` state this is."""
        return tenant_app(self.settings, self.tenant) if self.app is None else self.app

    def person(self, by: str | None) -> str:
        """Who decides: the caller, or the person `by`; `Forbidden` if the caller may not name
        others."""
        if by is None or by == self.caller:
            return self.caller
        if not self.may_name_others:
            raise Forbidden("admin")
        return by


def moment_of(given: Moment | None, *, what: str) -> datetime | None:
    """The time that is meant; `RequestInvalid` for a text that means none."""
    if given is None or isinstance(given, datetime):
        return given
    try:
        return read_moment(given, zone=UTC)
    except (ValueError, OverflowError) as exc:
        raise RequestInvalid(
            f"{what}: {given[:40]!r} is no time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30:00Z, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc
