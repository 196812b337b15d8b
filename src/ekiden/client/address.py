"""The server's address, and the API key."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from ekiden.client.errors import ClientMisconfigured

SERVER_VARIABLE = "EKIDEN_SERVER"
KEY_VARIABLE = "EKIDEN_API_KEY"
KEY_FILE_VARIABLE = "EKIDEN_API_KEY_FILE"
API = "/api/v1"


def server_address(url: str | None) -> str:
    """`url`, or that of the environment, without a trailing slash; `ClientMisconfigured`."""
    found = (os.environ.get(SERVER_VARIABLE) if url is None else url) or ""
    if not found:
        raise ClientMisconfigured(
            f"no server is named: give its address, or set {SERVER_VARIABLE}, for example to "
            "http://127.0.0.1:8321"
        )
    try:
        parts = urlsplit(found)
        parts.port  # noqa: B018 (raises for what is no port)
    except ValueError as exc:
        raise ClientMisconfigured(f"the server's address cannot be read: {exc}") from exc
    if parts.username is not None or parts.password is not None:
        raise ClientMisconfigured(
            f"the server's address must not have a name or password; set {KEY_VARIABLE} instead"
        )
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not found.isascii()
        or not found.isprintable()
        or " " in found
    ):
        raise ClientMisconfigured(
            f"{found[:80]!r} is not the address of a server; write it as http://127.0.0.1:8321"
        )
    return found.rstrip("/").removesuffix(API)


def api_key_of(given: str | None) -> str | None:
    """`given`, or the key of the environment, or of the file that it names."""
    key = given
    if key is None:
        key = os.environ.get(KEY_VARIABLE)
    if key is None and (path := os.environ.get(KEY_FILE_VARIABLE)):
        try:
            key = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as exc:
            raise ClientMisconfigured(
                f"the file that {KEY_FILE_VARIABLE} names cannot be read: {type(exc).__name__}"
            ) from None
    key = (key or "").strip()
    if not key.isascii() or not key.isprintable() or " " in key or len(key) > 1000:
        raise ClientMisconfigured("the API key has invalid characters; copy it again")
    return key or None
