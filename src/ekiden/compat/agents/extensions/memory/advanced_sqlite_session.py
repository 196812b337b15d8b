"""Sessions in SQLite with branches, and token counts by turn."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw

from ekiden.compat.agents.memory.session_settings import SessionSettings, resolve_session_limit
from ekiden.compat.agents.memory.sqlite_session import SQLiteSession, read_rows

_COUNTS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")


class AdvancedSQLiteSession(SQLiteSession):
    """A conversation with branches: you can return to a turn and continue from there."""

    def __init__(
        self,
        *,
        session_id: str,
        db_path: str | Path = ":memory:",
        create_tables: bool = False,
        logger: logging.Logger | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._has_to_create = create_tables
        self._current_branch_id = "main"
        super().__init__(session_id, db_path, session_settings=session_settings, **kwargs)

    def _schema(self) -> Iterable[str]:
        yield from super()._schema()
        if not self._has_to_create:
            return
        yield f"""CREATE TABLE IF NOT EXISTS message_structure (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL REFERENCES {self.sessions_table}(session_id) ON DELETE CASCADE,
            message_id INTEGER NOT NULL REFERENCES {self.messages_table}(id) ON DELETE CASCADE,
            branch_id TEXT NOT NULL DEFAULT 'main',
            message_type TEXT NOT NULL,
            sequence_number INTEGER NOT NULL,
            user_turn_number INTEGER,
            branch_turn_number INTEGER,
            tool_name TEXT,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"""
        yield f"""CREATE TABLE IF NOT EXISTS turn_usage (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL REFERENCES {self.sessions_table}(session_id) ON DELETE CASCADE,
            branch_id TEXT NOT NULL DEFAULT 'main',
            user_turn_number INTEGER NOT NULL,
            requests INTEGER DEFAULT 0,
            input_tokens INTEGER DEFAULT 0,
            output_tokens INTEGER DEFAULT 0,
            total_tokens INTEGER DEFAULT 0,
            input_tokens_details JSON,
            output_tokens_details JSON,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
            UNIQUE(session_id, branch_id, user_turn_number))"""

    def _branch(self, branch_id: str | None) -> tuple[str, str]:
        return self.session_id, self._current_branch_id if branch_id is None else branch_id

    async def add_items(self, items: list[Any]) -> None:
        def add(db: apsw.Connection) -> None:
            mine = self._branch(None)
            [(sequence,)] = db.execute(
                "SELECT COALESCE(MAX(sequence_number), 0) FROM message_structure "
                "WHERE session_id = ?",
                mine[:1],
            )
            turn = self._turn(db)
            for item, message in zip(items, self._insert(db, items), strict=True):
                turn += isinstance(item, dict) and item.get("role") == "user"
                sequence += 1
                db.execute(
                    "INSERT INTO message_structure (session_id, branch_id, message_id, "
                    "message_type, sequence_number, user_turn_number, branch_turn_number, "
                    "tool_name) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (*mine, message, _kind(item), sequence, turn, turn, _tool_name(item)),
                )

        if items:
            await self.in_transaction(add)

    def _turn(self, db: apsw.Connection) -> int:
        [(turn,)] = db.execute(
            "SELECT COALESCE(MAX(user_turn_number), 0) FROM message_structure "
            "WHERE session_id = ? AND branch_id = ?",
            self._branch(None),
        )
        return int(turn)

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[Any]:
        most = resolve_session_limit(limit, self.session_settings)

        def read(db: apsw.Connection) -> list[Any]:
            rows = db.execute(
                f"SELECT m.message_data FROM message_structure s JOIN {self.messages_table} m "
                "ON m.id = s.message_id WHERE s.session_id = ? AND s.branch_id = ? "
                "ORDER BY s.sequence_number DESC LIMIT ?",
                (*self._branch(branch_id), -1 if most is None else max(most, 0)),
            )
            return read_rows([str(row[0]) for row in rows][::-1])

        return await self.in_transaction(read)

    async def pop_item(self) -> Any:
        def pop(db: apsw.Connection) -> Any:
            for (message,) in db.execute(
                "DELETE FROM message_structure WHERE id = (SELECT id FROM message_structure "
                "WHERE session_id = ? AND branch_id = ? ORDER BY sequence_number DESC LIMIT 1) "
                "RETURNING message_id",
                self._branch(None),
            ):
                [(data,)] = db.execute(
                    f"SELECT message_data FROM {self.messages_table} WHERE id = ?", (message,)
                )
                self._drop_unused(db)
                return read_rows([str(data)])[0]
            return None

        return await self.in_transaction(pop)

    def _drop_unused(self, db: apsw.Connection) -> None:
        db.execute(
            f"DELETE FROM {self.messages_table} WHERE session_id = ? AND id NOT IN "
            "(SELECT message_id FROM message_structure)",
            (self.session_id,),
        )

    async def clear_session(self) -> None:
        def clear(db: apsw.Connection) -> None:
            for table in ("turn_usage", "message_structure"):
                db.execute(f"DELETE FROM {table} WHERE session_id = ?", (self.session_id,))

        await self.in_transaction(clear)
        await super().clear_session()
        self._current_branch_id = "main"

    async def store_run_usage(self, result: Any) -> None:
        """Store the token counts of a run for the current turn."""
        usage = result.context_wrapper.usage
        details = [getattr(usage, name, None) for name in _DETAILS]
        texts = [None if each is None else each.model_dump_json() for each in details]

        def store(db: apsw.Connection) -> None:
            if turn := self._turn(db):
                names = ", ".join((*_COUNTS, *_DETAILS))
                counts = [getattr(usage, name) or 0 for name in _COUNTS]
                db.execute(
                    "INSERT OR REPLACE INTO turn_usage (session_id, branch_id, user_turn_number, "
                    f"{names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*self._branch(None), turn, *counts, *texts),
                )

        await self.in_transaction(store)

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Copy the conversation before a turn into a new branch, and switch to this branch."""
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        name = branch_name or f"branch_from_turn_{turn_number}_{time.time_ns() // 1_000_000}"
        known = {each["branch_id"] for each in await self.list_branches()}
        if name in known:
            raise ValueError(f"Branch '{name}' already exists")
        turns = {each["turn"] for each in await self.get_conversation_turns()}
        if turn_number not in turns:
            raise ValueError(f"Turn {turn_number} does not contain a user message")

        def copy(db: apsw.Connection) -> None:
            db.execute(
                "INSERT INTO message_structure (session_id, message_id, branch_id, message_type, "
                "sequence_number, user_turn_number, branch_turn_number, tool_name) "
                "SELECT session_id, message_id, ?, message_type, sequence_number, "
                "user_turn_number, branch_turn_number, tool_name FROM message_structure "
                "WHERE session_id = ? AND branch_id = ? AND branch_turn_number < ? "
                "ORDER BY sequence_number",
                (name, *self._branch(None), turn_number),
            )

        await self.in_transaction(copy)
        self._current_branch_id = name
        return name

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Create a branch from the first turn whose user message contains the text."""
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Continue in another branch."""
        if branch_id not in {each["branch_id"] for each in await self.list_branches()}:
            raise ValueError(f"Branch '{branch_id}' does not exist")
        self._current_branch_id = branch_id

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Delete a branch. The current branch needs `force`; the main branch cannot be deleted."""
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == "main":
            raise ValueError("Cannot delete the 'main' branch")
        if branch_id == self._current_branch_id and not force:
            raise ValueError(
                f"Cannot delete current branch '{branch_id}'. "
                "Use force=True or switch branches first"
            )
        if branch_id not in {each["branch_id"] for each in await self.list_branches()}:
            raise ValueError(f"Branch '{branch_id}' does not exist")
        if branch_id == self._current_branch_id:
            self._current_branch_id = "main"

        def delete(db: apsw.Connection) -> None:
            for table in ("turn_usage", "message_structure"):
                gone = f"DELETE FROM {table} WHERE session_id = ? AND branch_id = ?"
                db.execute(gone, (self.session_id, branch_id))
            self._drop_unused(db)

        await self.in_transaction(delete)

    async def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self.in_transaction(lambda db: list(db.execute(query, values)))

    async def list_branches(self) -> list[dict[str, Any]]:
        """All branches with their sizes."""
        rows = await self._rows(
            "SELECT branch_id, COUNT(*), SUM(message_type = 'user'), MIN(created_at) "
            "FROM message_structure WHERE session_id = ? GROUP BY branch_id ORDER BY MIN(id)",
            self.session_id,
        )
        keys = ("branch_id", "message_count", "user_turns", "created_at")
        named = [dict(zip(keys, row, strict=True)) for row in rows]
        return [
            {**each, "is_current": each["branch_id"] == self._current_branch_id} for each in named
        ]

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """The messages of the user, by turn."""
        rows = await self._rows(
            f"SELECT s.branch_turn_number, m.message_data, s.created_at FROM message_structure s "
            f"JOIN {self.messages_table} m ON m.id = s.message_id WHERE s.session_id = ? "
            "AND s.branch_id = ? AND s.message_type = 'user' ORDER BY s.branch_turn_number",
            *self._branch(branch_id),
        )
        turns = []
        for turn, data, created in rows:
            content = json.loads(data).get("content", "")
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            turns.append(
                {
                    "turn": turn,
                    "content": text if len(text) <= 100 else text[:100] + "...",
                    "full_content": content,
                    "timestamp": created,
                    "can_branch": True,
                }
            )
        return turns

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """The turns whose user message contains the text."""
        words = search_term.lower()
        turns = await self.get_conversation_turns(branch_id)
        return [each for each in turns if words in str(each["full_content"]).lower()]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """The types of the items of each turn."""
        turns: dict[int, list[dict[str, str | None]]] = {}
        for turn, kind, tool in await self._rows(
            "SELECT user_turn_number, message_type, tool_name FROM message_structure "
            "WHERE session_id = ? AND branch_id = ? ORDER BY sequence_number",
            *self._branch(branch_id),
        ):
            turns.setdefault(turn, []).append({"type": kind, "tool_name": tool})
        return turns

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """The tool calls: the name of the tool, the number of calls, and the turn."""
        found = await self._rows(
            "SELECT tool_name, COUNT(*), user_turn_number FROM message_structure "
            "WHERE session_id = ? AND branch_id = ? AND tool_name IS NOT NULL "
            "AND message_type LIKE '%call' GROUP BY tool_name, user_turn_number "
            "ORDER BY user_turn_number",
            *self._branch(branch_id),
        )
        return [(str(name), int(count), int(turn)) for name, count, turn in found]

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Token counts of the session, or of one branch."""
        sums = ", ".join(f"SUM({name})" for name in _COUNTS)
        query = f"SELECT COUNT(*), {sums} FROM turn_usage WHERE session_id = ?"
        values = [self.session_id]
        if branch_id is not None:
            query, values = f"{query} AND branch_id = ?", [*values, branch_id]
        [(turns, *counts)] = await self._rows(query, *values)
        if not turns:
            return None
        counted = dict(zip(_COUNTS, (each or 0 for each in counts), strict=True))
        return {**counted, "total_turns": turns}

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Token counts of one turn, or of all turns."""
        names = ("user_turn_number", *_COUNTS, *_DETAILS)
        rows = await self._rows(
            f"SELECT {', '.join(names)} FROM turn_usage WHERE session_id = ? AND branch_id = ? "
            "ORDER BY user_turn_number",
            *self._branch(branch_id),
        )
        turns = [dict(zip(names, row, strict=True)) for row in rows]
        for each in turns:
            for name in _DETAILS:
                each[name] = json.loads(each[name]) if each[name] else None
        if user_turn_number is None:
            return turns
        for each in turns:
            if each.pop("user_turn_number") == user_turn_number:
                return each
        return {}


def _kind(item: Any) -> str:
    if not isinstance(item, dict):
        return "other"
    return str(item.get("role") or item.get("type") or "other")


def _tool_name(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    kind, name, label = item.get("type") or "", item.get("name"), item.get("server_label")
    if label and kind.startswith("mcp_"):
        return f"{label}.{name}" if name else str(label)
    if name and "call" in kind:
        return str(name)
    return kind.removesuffix("_call") if kind.endswith("_call") else None
