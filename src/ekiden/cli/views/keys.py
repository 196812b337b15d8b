"""Keys, for people."""

from __future__ import annotations

from collections.abc import Sequence

from ekiden.api.administration import ApiKey
from ekiden.cli.tables import Cell, Extra, Id, Table, moment


def key_table(keys: Sequence[ApiKey]) -> Table:
    """The keys, without their secrets."""
    headers = ("id", "name", Extra("tenant"), "scopes", "status", "expires", "last used")
    return headers, [_key_row(each) for each in keys]


def _key_row(key: ApiKey) -> tuple[Cell, ...]:
    scopes = " ".join(key.scopes)
    expires, used = moment(key.expires_at), moment(key.last_used_at)
    return (Id(key.id), key.name, key.tenant, scopes, key.status, expires, used)
