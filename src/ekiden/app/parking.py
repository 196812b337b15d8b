"""Sessions that are parked: which questions to people they wait for."""

from __future__ import annotations

from ekiden.core.errors import SessionError
from ekiden.core.inbox_item import InboxItem
from ekiden.runtime.questions.inboxes import read_item
from ekiden.runtime.state.cursor import open_questions
from ekiden.storage.base import Store


async def questions_to_people(store: Store, session_id: str) -> list[InboxItem]:
    """The open inbox items that the session waits for, also through agents that it asked.

    Empty if it waits for agents only, or not at all.
    """
    found: dict[str, InboxItem] = {}
    seen: set[str] = set()
    todo = [session_id]
    while todo:
        session = todo.pop(0)
        if session in seen:
            continue
        seen.add(session)
        try:
            row = await store.get(session)
        except SessionError:
            continue
        for question in open_questions(row).values():
            if question.session is not None:
                todo.append(question.session)
            item = await read_item(store, question.id) if question.kind == "inbox" else None
            if item is not None and item.status == "open":
                found[item.id] = item
    return list(found.values())
