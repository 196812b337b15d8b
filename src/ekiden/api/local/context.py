"""The context of the local implementations: a tenant's store, the settings and the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ekiden.api.methods.values import Moment, read_moment
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.errors.server import Forbidden, RequestInvalid
from ekiden.project.settings import LoadedSettings, SettingOrigin, Settings
from ekiden.project.stores import DEFAULT_TENANT, tenant_app

if TYPE_CHECKING:
    from ekiden.core.agent import Team
    from ekiden.hub.reader import OnOutage
    from ekiden.project.project import Project
    from ekiden.project.runs import RunStarter
    from ekiden.runtime import RunConfig
    from ekiden.storage.base import SessionRow, Store


def _nothing() -> None:
    pass


def _no_lock(name: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalContext:
    """The store of a tenant, with everything that the local implementations need."""

    store: Store
    settings: Settings
    origins: Mapping[str, SettingOrigin] = field(default_factory=dict, repr=False)
    """The source of each changed setting, by name."""
    tenant: str = DEFAULT_TENANT
    app: str | None = None
    """The name of the app. If `None`, the setting `app` is the name."""
    project: Project | None = None
    """The team and its configuration. If `None`, only stored data is available."""
    model: str | None = None
    """If set, the model for plan previews instead of the supervisor's own model."""
    runs: RunStarter | None = None
    """Starts runs in this process. If `None`, other processes run the sessions."""
    caller: str = ""
    """The name of the caller's API key. If empty, each call names the person in the argument
    `by`."""
    may_name_others: bool = True
    """Whether the caller may act for another person."""
    may_write_history: bool = True
    """Whether the caller may store conversation items of roles other than `user`."""
    is_person: bool = False
    """Whether handoffs through this context are requested by a person. If false, a program requests
    them."""
    via: str = "program"
    """The channel that is recorded with people's answers."""
    busy_timeout_s: float = 30.0
    """Seconds to wait for a session that another process runs."""
    run_config: RunConfig | None = None
    """The configuration of runs. If `None`, it is derived from the settings."""
    busy: Callable[[SessionRow], None] | None = field(default=None, repr=False)
    """A function that is called when another process runs the session, before Ekiden sends that
    process a handoff request."""
    keys_changed: Callable[[], None] = field(default=_nothing, repr=False)
    """A function that is called when a key was created or revoked."""
    one_at_a_time: Callable[[str], AbstractContextManager[None]] = field(
        default=_no_lock, repr=False
    )
    """Returns a context manager that allows one long operation of each name at a time. Raises
    `TooManyRequests` while an operation with the same name is running."""
    has_deadlines: bool = False
    """Whether the arguments `wait_s` and `timeout_s` apply. If false, calls wait without a time
    limit."""
    on_outage: OnOutage | None = field(default=None, repr=False)
    """A function that is called when the store becomes unreachable during a subscription, and when
    the store is reachable again."""
    progress: Callable[[Any], None] | None = field(default=None, repr=False)
    """A function that is called with the progress of an audit verification, and with the id of each
    pruned session."""

    @property
    def team(self) -> Team | None:
        """The team of the project; `None` if there is no project."""
        return None if self.project is None else self.project.team

    def needed_project(self) -> Project:
        """The project. Raises `UserError` if there is no project."""
        if self.project is None:
            raise UserError("there is no team here: name one")
        return self.project

    @property
    def app_name(self) -> str:
        """The name of the app."""
        return self.settings.app if self.app is None else self.app

    @property
    def loaded(self) -> LoadedSettings:
        """The settings, with the source of each."""
        return LoadedSettings(settings=self.settings, origins=self.origins)

    @property
    def stored_app(self) -> str:
        """The name under which the store keeps the app's memory and its `app:` variables."""
        return tenant_app(self.settings.app, self.tenant) if self.app is None else self.app

    def person(self, by: str | None) -> str:
        """Return the person who acts: the caller, or `by` if it is given. Raises `Forbidden` if the
        caller may not act for other people."""
        if by is None or by == self.caller:
            return self.caller
        if not self.may_name_others:
            raise Forbidden("admin")
        return by


class LocalPart:
    """Base class of the local implementations of interfaces."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context
        self._store = context.store


def moment_of(given: Moment | None, *, what: str) -> datetime | None:
    """Return the time in the parameter `what`. Raises `RequestInvalid` for an invalid text."""
    if given is None or isinstance(given, datetime):
        return given
    try:
        return read_moment(given, zone=UTC)
    except (ValueError, OverflowError) as exc:
        raise RequestInvalid(
            f"{what}: {given[:40]!r} is not a time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30:00Z, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc
