"""Collaborations as they are stored: every format that was ever written can be read."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.collaboration.wire import COLLABORATIONS, read_record
from ekiden.core.errors import StaleDocument, UserError
from ekiden.core.errors.collaboration import CollaborationBusy, CollaborationUnreadable
from ekiden.storage.base import Batch, Document, DocumentWrite, Written
from ekiden.storage.records import EXECUTIONS
from ekiden.storage.timers import Timer, timer_write
from tests.support.cases import each_case
from tests.unit.collaboration.offices import Office, Recorder

FORMAT_1: dict[str, Any] = {
    "format": 1,
    "id": "col_1",
    "pattern": "negotiate",
    "initiator": "ann",
    "participants": ["ann", "bob"],
    "partner": "bob",
    "phase": "agreement",
    "phases": [["discovery", 1_000_000], ["negotiation", 1_000_000], ["agreement", 4_000_000]],
    "messages": [
        {
            "id": "msg_1",
            "move": "propose",
            "type": "negotiate",
            "by": "ann",
            "to": "bob",
            "correlation_id": None,
            "created_at": 1.0,
            "ttl": 60.0,
            "body": {
                "terms": {"price": 9},
                "deadline_us": 61_000_000,
                "opening": {
                    "participants": ["ann", "bob"],
                    "context": {"session_id": "s1"},
                    "max_rounds": 5,
                    "expires_us": 90_000_000,
                },
            },
            "signature": "0" * 64,
        }
    ],
    "context": {"session_id": "s1"},
    "terms": {
        "version": 1,
        "by": "ann",
        "body": {"price": 9},
        "digest": "a" * 64,
        "message_id": "msg_1",
    },
    "accepted_by": ["bob", "ann"],
    "agreed": {
        "terms": {
            "version": 1,
            "by": "ann",
            "body": {"price": 9},
            "digest": "a" * 64,
            "message_id": "msg_1",
        },
        "by": ["bob", "ann"],
        "at_us": 4_000_000,
    },
    "bids": [
        {
            "agent": "bob",
            "score": 0.5,
            "offer": None,
            "state": "late",
            "at_us": 3_000_000,
            "message_id": "msg_2",
        }
    ],
    "declined": ["cy"],
    "rounds": 1,
    "max_rounds": 5,
    "deadline_us": 61_000_000,
    "expires_us": 90_000_000,
    "attempts": 0,
    "created_at": 1.0,
    "completed_at": None,
    "outcome": {"status": "failed", "by": "ekiden", "reason": "", "result": {"a": 1}},
}


def document(body: Any) -> Document:
    return Document(collection=COLLABORATIONS, key="col_1", body=body, version=7, updated_at_us=5)


def test_a_record_of_format_1_is_read_and_written_unchanged() -> None:
    found = read_record(document(FORMAT_1))
    assert found.version == 7
    assert found.due_us == 90_000_000
    assert {"format": 1, **found.to_json()} == FORMAT_1


def test_a_newer_format_is_refused_with_advice() -> None:
    with pytest.raises(CollaborationUnreadable, match="newer version of Ekiden.*upgrade"):
        read_record(document({**FORMAT_1, "format": 2}))


@each_case("body", [None, [], "x", {}, {"format": "1"}, {"format": 1}, {**FORMAT_1, "phases": [1]}])
def test_a_damaged_record_is_an_error(body: Any) -> None:
    with pytest.raises(CollaborationUnreadable, match="col_1.*damaged"):
        read_record(document(body))


async def test_a_damaged_record_does_not_block_other_collaborations() -> None:
    office = Office(executor=Recorder())
    agreed = await office.agreed()
    await office.store.write_documents(
        [
            DocumentWrite(collection=COLLABORATIONS, key="col_0", body={"format": 9}),
            DocumentWrite(collection=EXECUTIONS, key="col_0", body={"owner": "", "until_us": 0}),
            DocumentWrite(collection=EXECUTIONS, key="col_gone", body=["?"]),
            timer_write(Timer(due_us=1, kind="collaboration", id="col_0")),
            timer_write(Timer(due_us=1, kind="collaboration", id="col_gone")),
        ]
    )
    ended = await office.collaborations.resume()
    assert [each.id for each in ended] == [agreed.id]
    assert await office.timers() == []
    left = await office.store.list_documents(EXECUTIONS)
    assert [each.key for each in left] == ["col_0"]
    assert [each.id for each in await office.collaborations.list()] == [agreed.id]
    assert await office.collaborations.cleanup() == 0


async def test_lists_are_read_in_pages(office: Office) -> None:
    ids = [(await office["ann"].propose("bob", number)).id for number in range(5)]
    await office["cy"].propose("bob", "x")
    first = await office["ann"].list(limit=3)
    rest = await office["ann"].list(after=first[-1].id, limit=3)
    assert [each.id for each in (*first, *rest)] == sorted(ids)
    assert len(await office["bob"].list()) == 6
    assert await office.collaborations.list(agent="eve") == []
    with pytest.raises(UserError):
        await office.collaborations.list(limit=0)


async def test_more_collaborations_than_one_page_are_processed(office: Office) -> None:
    for number in range(130):
        await office["ann"].propose("bob" if number % 2 else "cy", number)
    assert len(await office.collaborations.list(agent="cy", limit=200)) == 65
    assert len(await office.collaborations.list(limit=200)) == 130
    office.store.advance(100)
    assert len(await office.collaborations.resume()) == 100
    assert len(await office.collaborations.resume()) == 30
    office.store.advance(100_000)
    assert await office.collaborations.cleanup() == 130


async def test_a_move_that_never_wins_the_race_fails_as_busy(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = await office["ann"].propose("bob", "x")

    async def crowded(batch: Batch) -> Written:
        raise StaleDocument(COLLABORATIONS, offer.id, expected=1, found=2)

    monkeypatch.setattr(office.store, "write", crowded)
    monkeypatch.setattr("ekiden.collaboration.ledger._TRIES", 5)
    with pytest.raises(CollaborationBusy, match="5 times"):
        await office["bob"].accept(offer.id, 1)


async def test_the_json_of_a_collaboration_is_readable(office: Office) -> None:
    shown = (await office.agreed()).to_json()
    assert shown["phase"] == "agreement"
    assert shown["agreed"]["by"] == ["ann", "bob"]
    assert [each["move"] for each in shown["messages"]] == ["request", "acknowledge"]
    assert shown["created_at"] > 1e9
    assert (shown["completed_at"], shown["outcome"]) == (None, None)
