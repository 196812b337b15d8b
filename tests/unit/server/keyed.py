"""Keys for tests of the server."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from ekiden.project.keys import KeyStore, NewKey


async def keys_of(app: FastAPI) -> KeyStore:
    """The keys that the application looks at."""
    return KeyStore((await app.state.service.tenant_service()).store)


async def make_key(
    app: FastAPI,
    *scopes: str,
    tenant: str = "default",
    name: str = "ada",
    expires_s: float | None = None,
) -> NewKey:
    """A key that the application knows at once."""
    keys = await keys_of(app)
    made = await keys.create(name, scopes=scopes or ("admin",), tenant=tenant, expires_s=expires_s)
    app.state.keyring.forget()
    return made


def bearer(key: NewKey | str, **headers: str) -> dict[str, str]:
    """Headers with the key."""
    text = key if isinstance(key, str) else key.text
    return {"Authorization": f"Bearer {text}", **headers}


def is_problem(response: Any, status: int, code: str) -> bool:
    """Whether it is this problem, told as problems are."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code, response.text
    return True
