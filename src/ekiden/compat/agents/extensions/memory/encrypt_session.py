"""Sessions whose items are encrypted, and expire."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Literal

from typing_extensions import TypedDict

from ekiden.compat.agents.memory.session import SessionABC
from ekiden.compat.agents.memory.session_settings import resolve_session_limit

EncryptedEnvelope = TypedDict(
    "EncryptedEnvelope", {"__enc__": Literal[1], "v": int, "kid": str, "payload": str}
)
"""What is stored instead of an item."""

_KIND = {"__enc__": 1, "v": 1, "kid": "hkdf-v1"}


class EncryptedSession(SessionABC):
    """Wraps another session, and encrypts its items. Items older than `ttl` seconds are not
    returned.

    Needs the package `cryptography`.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: SessionABC,
        encryption_key: str,
        ttl: int = 600,
        max_scan_items: int | None = None,
    ) -> None:
        if max_scan_items is not None and max_scan_items <= 0:
            raise ValueError("max_scan_items must be positive or None")
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.ttl = ttl
        self.max_scan_items = max_scan_items
        # Other sessions of this package do not need it.
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(
            algorithm=hashes.SHA256(),
            length=32,
            salt=session_id.encode(),
            info=b"agents.session-store.hkdf.v1",
        ).derive(_key_bytes(encryption_key))
        self.cipher = Fernet(base64.urlsafe_b64encode(derived))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.underlying_session, name)

    def _wrapped(self, item: Any) -> Any:
        text = json.dumps(item, ensure_ascii=False, separators=(",", ":"), default=str)
        return {**_KIND, "payload": self.cipher.encrypt(text.encode()).decode()}

    def _unwrapped(self, item: Any) -> Any:
        """The item; `None` for what is no envelope, forged or too old."""
        if not isinstance(item, dict) or item.get("__enc__") != 1 or "payload" not in item:
            return None
        from cryptography.fernet import InvalidToken

        try:
            return json.loads(self.cipher.decrypt(str(item["payload"]).encode(), ttl=self.ttl))
        except (InvalidToken, ValueError):
            return None

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        most = resolve_session_limit(
            limit, getattr(self.underlying_session, "session_settings", None)
        )
        if most is not None and most <= 0:
            return []
        window = most
        while True:
            if self.max_scan_items is not None:
                window = min(window or self.max_scan_items, self.max_scan_items)
            stored = await self.underlying_session.get_items(window)
            items = [each for each in map(self._unwrapped, stored) if each is not None]
            if most is not None and len(items) >= most:
                return items[-most:]
            if window is None or len(stored) < window:
                return items
            if self.max_scan_items is not None and window >= self.max_scan_items:
                raise RuntimeError(f"more than max_scan_items={self.max_scan_items} would be read")
            window *= 2

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        await self.underlying_session.add_items([self._wrapped(each) for each in items])

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        while True:
            stored = await self.underlying_session.pop_item()
            if stored is None:
                return None
            item = self._unwrapped(stored)
            if item is not None:
                return item

    async def clear_session(self, *, wrapper: Any = None) -> None:
        await self.underlying_session.clear_session()


def _key_bytes(key: str) -> bytes:
    if not key:
        raise ValueError("encryption_key not set; required for EncryptedSession.")
    try:
        decoded = base64.urlsafe_b64decode(key)
    except (binascii.Error, ValueError):
        return key.encode()
    return decoded if len(decoded) == 32 else key.encode()
