"""Reads the text of a settings file into checked values, with every fault found."""

from __future__ import annotations

from dataclasses import dataclass, field

from ekiden.core.checks.kinds import Kind, shown_type
from ekiden.core.text import did_you_mean
from ekiden.project.settings.files import ProblemCode, SettingsProblem
from ekiden.project.settings.jsonc import (
    JsoncDocument,
    JsoncError,
    JsoncMember,
    JsoncNode,
    ObjectNode,
    parse,
)
from ekiden.project.settings.keys import SETTINGS, Setting
from ekiden.project.settings.model import SERVERS
from ekiden.project.settings.places import ROOT, Group, ServerEntry
from ekiden.project.settings.values import server_name_problem

MAX_PROBLEMS = 100
"""That are told of one file; whoever wrote more has another kind of file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A value in a file."""

    value: object
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file says."""

    values: dict[str, FoundValue]
    """By the setting's name; each MCP server has a name of its own."""
    problems: list[SettingsProblem]
    """The first `MAX_PROBLEMS`."""


def read_content(text: str, *, where: str) -> Content:
    """What `text`, the file `where`, says; all that is wrong with it is in `problems`."""
    try:
        document = parse(text)
    except JsoncError as exc:
        line, column = _position(text, exc.offset)
        problem = SettingsProblem(
            where=where, line=line, column=column, code="settings.syntax", message=str(exc)
        )
        return Content(values={}, problems=[problem])
    reader = _Reader(document=document, where=where)
    reader.read()
    return Content(values=reader.values, problems=sorted(reader.problems, key=_by_place))


@dataclass(slots=True, kw_only=True)
class _Reader:
    document: JsoncDocument
    where: str
    values: dict[str, FoundValue] = field(default_factory=dict)
    problems: list[SettingsProblem] = field(default_factory=list)

    def read(self) -> None:
        for member in self.document.duplicates[:MAX_PROBLEMS]:
            self._complain(member.start, "settings.duplicate_key", _twice(member.key))
        if self.document.root is not None:
            self._group(ROOT, self.document.root)

    def _group(self, group: Group, node: JsoncNode) -> None:
        if not isinstance(node, ObjectNode):
            name = group.name or "a settings file"
            message = f"{name} must be an object, not {shown_type(node.value)}"
            self._complain(node.start, "settings.wrong_value", message)
            return
        spelled: dict[str, str] = {}
        for member in node.members:
            if len(self.problems) >= MAX_PROBLEMS:
                return
            if group is ROOT and member.key == "$schema":
                continue  # For editors.
            child = group.child(member.key)
            if child is None:
                self._complain(member.start, "settings.unknown_key", _unknown(group, member.key))
                continue
            if spelled.setdefault(child.name, member.key) != member.key:
                self._complain(
                    member.start,
                    "settings.duplicate_key",
                    f"{member.key!r} and {spelled[child.name]!r} are the same setting; remove one",
                )
            if isinstance(child, Group):
                self._group(child, member.node)
            elif child.name == SERVERS:
                self._servers(child, member.node)
            else:
                self._value(child.name, child.kind, member)

    def _servers(self, setting: Setting, node: JsoncNode) -> None:
        if not isinstance(node, ObjectNode):
            message = f"{SERVERS} must be an object of servers, not {shown_type(node.value)}"
            self._complain(node.start, "settings.wrong_value", message)
            return
        for member in node.members:
            if len(self.problems) >= MAX_PROBLEMS:
                return
            fault = server_name_problem(member.key)
            if fault is not None:
                self._complain(member.start, "settings.wrong_value", fault)
                continue
            entry = ServerEntry(setting=setting, server=member.key)
            self._value(entry.name, entry.kind, member)

    def _value(self, name: str, kind: Kind, member: JsoncMember) -> None:
        try:
            value = kind.read(member.node.value)
        except ValueError as exc:
            self._complain(member.node.start, "settings.wrong_value", f"{name} {exc}")
            return
        line, column = self.document.position(member.start)
        self.values[name] = FoundValue(value=value, line=line, column=column)

    def _complain(self, offset: int, code: ProblemCode, message: str) -> None:
        line, column = self.document.position(offset)
        self.problems.append(
            SettingsProblem(where=self.where, line=line, column=column, code=code, message=message)
        )


def _twice(key: str) -> str:
    return f"the key {key!r} appears earlier in this object; remove one"


def _unknown(group: Group, key: str) -> str:
    """What to say of a key that means nothing here: where it belongs, or what it may be."""
    place = f"{group.name} has" if group.name else "there is"
    near = did_you_mean(key, group.children)
    if near is not None:
        return f"{place} no setting {key!r}; did you mean {near!r}?"
    elsewhere = _elsewhere(key)
    if elsewhere is not None:
        return f"{place} no setting {key!r} here; it is {elsewhere}, in nested objects"
    return f"{place} no setting {key!r}; known here: {', '.join(group.children)}"


def _elsewhere(key: str) -> str | None:
    names = [setting.name for setting in SETTINGS]
    groups = [name.rpartition(".")[0] for name in names]
    return next((name for name in (*names, *groups) if f".{name}".endswith(f".{key}")), None)


def _position(text: str, offset: int) -> tuple[int, int]:
    return JsoncDocument(text=text, root=None, duplicates=()).position(offset)


def _by_place(problem: SettingsProblem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0
