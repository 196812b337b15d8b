"""Where a run's conversation comes from and goes to: a session of the SDK's, or one of Ekiden's."""

from __future__ import annotations

import inspect
import json
import os
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ekiden.compat.agents._relay.relay import Relay
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.items import ItemHelpers, ToolApprovalItem, plain_output
from ekiden.compat.agents.run_state import RunState
from ekiden.core.conversation.model import Item
from ekiden.core.errors import SessionNotFound
from ekiden.project.stores import open_store
from ekiden.runtime.state.calls import settled
from ekiden.sessions import Session
from ekiden.sessions.session import has_open_run
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore


@cache
def _store_at(url: str) -> Store:
    return open_store(url)


def run_store(session: Any) -> Store:
    """Where runs are kept: ``EKIDEN_STORE``, else beside the session's file, else in memory."""
    url = os.environ.get("EKIDEN_STORE")
    file = getattr(session, "db_path", None)
    if not url and isinstance(file, str | Path) and str(file) != ":memory:":
        url = f"{Path(file).absolute()}.ekiden"
    return _store_at(url) if url else MemoryStore()


class History:
    """The session of a run.

    A session object that has `ekiden_session` (a `Session`) is used as it is: its conversation,
    its unfinished runs and its approvals are in the store. Any other session object is asked for
    its items before the run; the run itself works in a session of its own. If that is stored, its
    id is made of the session's and of what the run begins with, so that the same message after a
    crash resumes the run, and the outer session is given the items when the run is over. If it is
    in memory only, the outer session is given them turn by turn.
    """

    def __init__(self, given: Any, state: RunState[Any] | None = None) -> None:
        own = getattr(given, "ekiden_session", None)
        self._outer = None if own is not None else given
        if state is not None and state.session_id:
            store = state.store
            if store is None:
                store = own.store if own is not None else run_store(given)
            self.session = Session(state.session_id, store=store)
        else:
            self.session = own if own is not None else Session(store=run_store(given))
        self._is_lasting = own is not None
        self._saved = 0
        self._new_input: list[Item] | None = None

    async def open(self, relay: Relay, state: RunState[Any] | None) -> bool:
        """Whether there is an unfinished run to resume.

        A run of the same input that was killed is resumed: whoever starts the program again gets
        the rest of it.
        """
        store = self.session.store
        await store.open()
        if state is not None:
            self.has_all(relay)
            if state.snapshot is not None and not await self._exists():
                from ekiden.runtime.history.session_document import import_session

                for document in (state.snapshot, *state.nested):
                    await import_session(store, document)
            try:
                row = await store.get(self.session.session_id)
            except SessionNotFound:
                return False
            return has_open_run(row)
        if self._outer is not None and self.session.store.shared:
            await self._name_run(relay)
        if not self._is_lasting or not await self._exists():
            return False
        row = await store.get(self.session.session_id)
        if not has_open_run(row) or row.outcome in ("failed", "refused"):
            return False
        if self._outer is not None:
            self._new_input = ItemHelpers.input_to_new_input_list(relay.input)
            await self._read_back(relay)
            return True
        given = ItemHelpers.input_to_new_input_list(relay.input)
        if await self._begun_with() != given:
            return False
        await self._read_back(relay)
        return True

    async def _name_run(self, relay: Relay) -> None:
        """Find the session of a run that began with the same, or a name for a new one."""
        past = await self._call(relay, "get_items")
        begun = [*past, *ItemHelpers.input_to_new_input_list(relay.input)]
        text = json.dumps(
            [str(getattr(self._outer, "session_id", "")), plain_output(begun)], default=str
        )
        digest = blake2b(text.encode(), digest_size=12).hexdigest()
        self.session = Session(f"run.{digest}", store=self.session.store)
        if await self._exists():
            row = await self.session.store.get(self.session.session_id)
            if not has_open_run(row):
                self.session = Session(store=self.session.store)
        self._is_lasting = True

    async def _read_back(self, relay: Relay) -> None:
        """Tell the result what the run did before it was interrupted."""
        for event in await self.session.store.events(self.session.session_id, with_items=True):
            relay.take(event)

    async def _exists(self) -> bool:
        try:
            await self.session.store.get(self.session.session_id)
        except SessionNotFound:
            return False
        return True

    async def _begun_with(self) -> list[Item]:
        """The message that the session's last run began with."""
        events = await self.session.store.events(self.session.session_id, with_items=True)
        said = [event for event in events if event.type == "message" and event.items]
        users = [event for event in said if event.items[0].get("role") == "user"]
        return list(users[-1].items) if users else []

    async def input(self, relay: Relay) -> list[Item]:
        """What the loop is given: the items of the outer session, and the new ones."""
        new = ItemHelpers.input_to_new_input_list(relay.input)
        self._new_input = new
        if self._outer is None or relay.has_server_state:
            return plain_output(new)
        settings = relay.config.session_settings or getattr(self._outer, "session_settings", None)
        limit = getattr(settings, "limit", None)
        past = await self._call(relay, "get_items", *([] if limit is None else [limit]))
        combine = relay.config.session_input_callback
        if combine is None:
            return plain_output([*past, *new])
        if not callable(combine):
            raise UserError("session_input_callback must be callable")
        combined = await settled(combine(list(past), list(new)))
        if not isinstance(combined, list):
            raise UserError("session_input_callback must return a list of input items")
        known = [id(each) for each in past]
        self._new_input = [each for each in combined if id(each) not in known]
        return plain_output(combined)

    def has_all(self, relay: Relay) -> None:
        """The outer session was given all items so far when the run was interrupted."""
        self._saved = len(relay.new_items)

    async def save(self, relay: Relay, *, is_over: bool = False) -> None:
        """Give the outer session what was said in turns that are over."""
        if self._outer is None or (self._is_lasting and not is_over):
            return
        if self._new_input:
            await self._call(relay, "add_items", self._new_input)
            self._new_input = None
        items = relay.new_items if is_over else self._whole_turns(relay.new_items)
        fresh = [
            each.to_input_item()
            for each in items[self._saved :]
            if not isinstance(each, ToolApprovalItem)
        ]
        self._saved = max(self._saved, len(items))
        if fresh:
            await self._call(relay, "add_items", fresh)

    async def compact(self, relay: Relay) -> None:
        """Let the outer session shorten what it keeps, once a run has an answer."""
        if not hasattr(self._outer, "run_compaction") or relay.interruptions:
            return
        last = relay.raw_responses[-1] if relay.raw_responses else None
        if last is None or last.response_id is None:
            return
        settings = relay.current.model_settings.resolve(relay.config.model_settings)
        args: dict[str, Any] = {"response_id": last.response_id}
        if settings.store is not None:
            args["store"] = settings.store
        await self._call(relay, "run_compaction", args)

    @staticmethod
    def _whole_turns(items: list[Any]) -> list[Any]:
        """All but the last answer, whose calls have no outputs yet."""
        end = len(items)
        while (
            end
            and not hasattr(items[end - 1], "output")
            and items[end - 1].type not in ("handoff_output_item",)
        ):
            end -= 1
        return items[:end]

    async def _call(self, relay: Relay, name: str, *given: Any) -> Any:
        method = getattr(self._outer, name)
        more = {}
        try:
            if "wrapper" in inspect.signature(method).parameters:
                more["wrapper"] = relay.context
        except (TypeError, ValueError):
            pass
        return await method(*given, **more)
