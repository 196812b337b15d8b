"""Logins of the console: a browser has a token of its own instead of the key.

A login belongs to the key that it was begun with, and is good as long as that key is, until it is
ended or a month has passed. Of the token only a digest is stored: whoever reads the store cannot
log in with it. Logins stand in the main store, so that all servers of it know them.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from ekiden.storage.base import DocumentWrite, Store

LOGINS: Final = "console_logins"
MAX_AGE_S: Final = 30 * 24 * 3600
_TOKEN_BYTES: Final = 32
_PAGE: Final = 500


def login_id(token: str) -> str:
    """What a login is stored under; the token cannot be made of it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Logins:
    """The logins in the main store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, key_id: str) -> str:
        """Make a login of the key; gives its token, which is stored nowhere."""
        token = secrets.token_hex(_TOKEN_BYTES)
        expires_at_us = await self._store.now_us() + MAX_AGE_S * 1_000_000
        body = {"v": 1, "key_id": key_id, "expires_at_us": expires_at_us}
        write = DocumentWrite(collection=LOGINS, key=login_id(token), body=body)
        await self._store.write_documents([write])
        return token

    async def key_of(self, id: str) -> str | None:
        """The id of the login's key; `None` if the login was ended, is over, or never was."""
        document = await self._store.get_document(LOGINS, id)
        if document is None or document.body["expires_at_us"] <= await self._store.now_us():
            return None
        return str(document.body["key_id"])

    async def end(self, id: str) -> None:
        """Make the login useless."""
        await self._store.write_documents([DocumentWrite(collection=LOGINS, key=id, body=None)])

    async def prune(self) -> None:
        """Remove those whose time is over."""
        now_us, after = await self._store.now_us(), ""
        while page := await self._store.list_documents(LOGINS, after=after, limit=_PAGE):
            after = page[-1].key
            for each in page:
                if each.body["expires_at_us"] <= now_us:
                    await self.end(each.key)
