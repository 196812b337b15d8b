"""`/keys`: who may call the server. Keys of all tenants are the main tenant's to give."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Request, Response

from ekiden.app.desk import Desk
from ekiden.app.keys import Keys
from ekiden.app.tenants import DEFAULT_TENANT
from ekiden.core.server_errors import Forbidden, IdempotencyConflict, KeyNotFound
from ekiden.server.access import Administers
from ekiden.server.answers import answer, page
from ekiden.server.models.keys import KeyModel, NewKeyBody, NewKeyModel
from ekiden.server.models.texts import cursor_as
from ekiden.server.paging import PAGE, Limit, Page
from ekiden.server.params import word
from ekiden.server.problems import problems

router = APIRouter(prefix="/keys", tags=["keys"])

KeyId: TypeAlias = Annotated[
    str, Path(pattern=r"^[a-z0-9]{8}$", description="The key's public part, as it is listed.")
]


@router.get("", response_model=Page[KeyModel], responses=problems(404))
async def list_keys(
    desk: Administers,
    tenant: Annotated[str | None, word("Only those of this tenant.", most=63)] = None,
    limit: Limit = PAGE,
    cursor: Annotated[str | None, cursor_as(r"^[a-z0-9]{8}$")] = None,
) -> Response:
    """List the keys, also those that are revoked, the oldest first; secrets are not in it."""
    keys = _keys(desk)
    found = list(await keys.list(tenant=tenant))
    if cursor is not None:
        places = [place for place, key in enumerate(found) if key.id == cursor]
        if not places:
            raise KeyNotFound
        found = found[places[0] + 1 :]
    shown = found[:limit]
    more = shown[-1].id if len(found) > limit else None
    return page([await keys.record(key) for key in shown], more)


@router.post("", status_code=201, response_model=NewKeyModel, responses=problems(409, 413))
async def create_key(desk: Administers, request: Request, body: NewKeyBody) -> Response:
    """Make a key. Its text is in this answer, and nowhere else: so there is no `Idempotency-Key`,
    with which the answer would have to be kept.

    With the first key of a server nobody calls it without one any more.
    """
    keys = _keys(desk)
    if "idempotency-key" in request.headers:
        raise IdempotencyConflict(
            "Idempotency-Key: the text of a new key is not kept, so there is none; leave it out"
        )
    made = await keys.create(
        body.name, scopes=body.scopes, tenant=body.tenant, expires_s=body.expires_s
    )
    request.app.state.keyring.forget()
    record = {**await keys.record(made.key), "key": made.text}
    return answer(record, 201, headers={"Cache-Control": "no-store"})


@router.delete("/{key_id}", response_model=KeyModel, responses=problems(404))
async def revoke_key(desk: Administers, request: Request, key_id: KeyId) -> Response:
    """Make a key useless, for ever; other servers know it after a second."""
    keys = _keys(desk)
    revoked = await keys.revoke(key_id)
    request.app.state.keyring.forget()
    return answer(await keys.record(revoked))


def _keys(desk: Desk) -> Keys:
    """`Forbidden` for administrators of other tenants."""
    if desk.tenant != DEFAULT_TENANT:
        raise Forbidden("admin")
    return Keys(desk.store)
