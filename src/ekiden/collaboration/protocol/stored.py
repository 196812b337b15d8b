"""Collaborations as documents: written with the format's number, read with suspicion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ekiden.collaboration.protocol.record import (
    AgreedTerms,
    Bid,
    Collaboration,
    CollaborationOutcome,
    ProtocolMessage,
    Terms,
)
from ekiden.core.errors.collaboration import CollaborationUnreadable
from ekiden.storage.base import Document, DocumentWrite

COLLABORATIONS: Final = "collaborations"
FORMAT: Final = 1


def record_write(record: Collaboration) -> DocumentWrite:
    """Store it as what follows on the version that it was read with (0: it is new)."""
    body = {"format": FORMAT, **record.to_json()}
    return DocumentWrite(
        collection=COLLABORATIONS, key=record.id, body=body, expected_version=record.version
    )


def read_record(document: Document) -> Collaboration:
    """The collaboration in a document; `CollaborationUnreadable`."""
    body = document.body
    if isinstance(body, Mapping) and isinstance(body.get("format"), int):
        if body["format"] > FORMAT:
            raise CollaborationUnreadable(
                f"collaboration {document.key} was written by a newer version of Ekiden (format "
                f"{body['format']}, this one reads {FORMAT}): upgrade this program"
            )
        try:
            return _read(document.key, body, document.version)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise CollaborationUnreadable(
                f"collaboration {document.key} is damaged in the store: {exc!r:.200}"
            ) from exc
    raise CollaborationUnreadable(f"collaboration {document.key} is damaged: it has no format")


def _read(key: str, body: Mapping[str, Any], version: int) -> Collaboration:
    agreed, outcome = body["agreed"], body["outcome"]
    return Collaboration(
        id=key,
        pattern=body["pattern"],
        initiator=body["initiator"],
        participants=tuple(body["participants"]),
        partner=body["partner"],
        phase=body["phase"],
        phases=tuple((phase, at_us) for phase, at_us in body["phases"]),
        messages=tuple(
            ProtocolMessage(collaboration=key, **message) for message in body["messages"]
        ),
        context=body["context"],
        terms=None if body["terms"] is None else Terms(**body["terms"]),
        accepted_by=tuple(body["accepted_by"]),
        agreed=None if agreed is None else _agreed(agreed),
        bids=tuple(Bid(**bid) for bid in body["bids"]),
        declined=tuple(body["declined"]),
        rounds=body["rounds"],
        max_rounds=body["max_rounds"],
        deadline_us=body["deadline_us"],
        expires_us=body["expires_us"],
        attempts=body["attempts"],
        outcome=None if outcome is None else CollaborationOutcome(**outcome),
        version=version,
    )


def _agreed(data: Mapping[str, Any]) -> AgreedTerms:
    return AgreedTerms(terms=Terms(**data["terms"]), by=tuple(data["by"]), at_us=data["at_us"])
