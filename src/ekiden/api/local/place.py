"""What the local implementations work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ekiden.api.texts import Moment
from ekiden.app.moments import read_moment
from ekiden.app.running import tenant_app
from ekiden.app.runs import Runs
from ekiden.app.settings import LoadedSettings, SettingOrigin, Settings
from ekiden.app.tenants import DEFAULT_TENANT
from ekiden.audit import Verification
from ekiden.core.server_errors import Forbidden, RequestInvalid
from ekiden.core.team import Team
from ekiden.storage.base import Store


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
    team: Team | None = None
    """Who works here; `None`: only what is stored can be used."""
    runs: Runs | None = None
    """The runs of this process; `None`: others run the sessions."""
    caller: str = ""
    """Who calls: the name of the key at a server; empty: each call names the person with `by`."""
    may_name_others: bool = True
    """Whether the caller may act in the name of somebody else."""
    via: str = "program"
    """From where answers of people come."""
    busy_timeout_s: float = 30.0
    """How long to wait for a session that somebody else runs."""
    keys_changed: Callable[[], None] = field(default=_nothing, repr=False)
    """Called when a key was made or revoked."""
    one_at_a_time: Callable[[str], AbstractContextManager[None]] = field(
        default=_at_once, repr=False
    )
    """Goes around long work of this kind; `TooManyRequests` while the same is done already."""
    has_deadlines: bool = False
    """Whether the `timeout_s` of a call counts: at a server, whose callers wait for an answer."""
    progress: Callable[[Verification], None] | None = field(default=None, repr=False)
    """Called again and again while the audit is verified."""

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
