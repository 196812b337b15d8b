"""Local settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from ekiden.api import administration as api
from ekiden.api.local.place import Here
from ekiden.api.values import Page, Pages
from ekiden.core.errors.server import NotServed
from ekiden.project.settings import LoadedSettings, SettingEntry, redacted
from ekiden.project.stores import DEFAULT_TENANT


class LocalSettings(api.Settings):
    """See `Settings`; `NotServed` for other tenants than the main one."""

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        tenant: str = DEFAULT_TENANT,
        shows_secrets: bool = False,
    ) -> None:
        self._loaded = loaded
        self._tenant = tenant
        self._shows_secrets = shows_secrets

    @classmethod
    def of(cls, here: Here) -> Self:
        """The settings of a context, without secrets."""
        return cls(here.loaded, tenant=here.tenant)

    def list(self) -> Pages[SettingEntry]:
        async def fetch(limit: int, cursor: str | None) -> Page[SettingEntry]:
            return Page(items=self._entries())

        return Pages(fetch)

    async def get(self, key: str) -> SettingEntry:
        for entry in self._entries():
            if entry.key == key:
                return entry
        raise NotServed(f"no setting is called {key[:80]!r}; the list of settings has all")

    def _entries(self) -> tuple[SettingEntry, ...]:
        if self._tenant != DEFAULT_TENANT:
            raise NotServed("there are no settings here: only the operator of the server sees them")
        found = self._loaded.entries()
        if self._shows_secrets:
            return tuple(found)
        return tuple(replace(each, value=redacted(each.key, each.value)) for each in found)
