"""Changes a setting in a file and keeps every other byte."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import SettingsInvalid, SettingsNotWritten, UnknownSetting
from ekiden.project.settings.files import (
    SettingsFiles,
    SettingsProblem,
    Unreadable,
    Where,
    locked,
    read_content,
    read_text,
    replace_file,
    settings_files,
    sync_folder,
)
from ekiden.project.settings.jsonc import (
    JsoncDocument,
    JsoncError,
    JsoncMember,
    JsoncNode,
    ObjectNode,
    parse,
)
from ekiden.project.settings.keys import Group, ServerEntry, Setting, key_path, place_of
from ekiden.project.settings.model import Settings
from ekiden.project.settings.sources import (
    DEFAULT_AGENT,
    FALLBACK,
    from_text,
    lacks_default_agent,
    merged_with,
    refused_set,
    refused_unset,
    unknown_model,
)

_PATIENCE_S = 10.0

_Check: TypeAlias = Callable[[str, str], None]
"""Raises an exception if the first text must not be replaced by the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """The change of a setting in a file."""

    name: str
    """The name of the setting."""
    path: Path
    """The path of the settings file."""
    is_changed: bool
    """Whether the content of the file has changed."""
    value: Any = None
    """The new value."""


def set_setting(
    key: str,
    value: object,
    *,
    where: Where = "project",
    root: Path | None = None,
    home: Path | None = None,
    check: Callable[[Settings], None] | None = None,
) -> SettingChange:
    """Set `key` in the project's or the user's file. A missing file is created.

    A text is parsed as on the command line: it may be ``true``, ``80``, ``null``, JSON for a list
    or an object, or a plain text with or without quotes (``rule``, ``"rule"``). The change is
    atomic, and it is on disk when this function returns. Concurrent writers take turns. `check`
    gets the resulting settings, and raises an exception to refuse them. An unknown name raises
    `UnknownSetting`. An invalid value, a contradiction or a faulty file raises `SettingsInvalid`. A
    file that cannot be written raises `SettingsNotWritten`. After an error nothing is changed::

        set_setting("agents.routing.strategy", "rule")
    """
    place = place_of(key)
    if isinstance(place, Group):
        raise UnknownSetting(key, known=[each.name for each in place.settings()])
    wanted = _checked(place, value)

    def changed(text: str) -> str:
        return with_value(text, key_path(place), wanted)

    def check_change(_: str, new_text: str) -> None:
        loaded = merged_with(files, where, new_text)
        if place.name in (FALLBACK, DEFAULT_AGENT) and lacks_default_agent(loaded.settings):
            raise SettingsInvalid([refused_set(place.name, loaded)])
        unknown = unknown_model(place.name, wanted, loaded.settings)
        if unknown is not None:
            raise SettingsInvalid([unknown])
        if check is not None:
            check(loaded.settings)

    files = settings_files(root, home)
    path = _file(files, where)
    is_changed = _rewrite(path, changed, check=check_change, must_be_valid=True)
    return SettingChange(name=place.name, path=path, is_changed=is_changed, value=wanted)


def unset_setting(
    key: str, *, where: Where = "project", root: Path | None = None, home: Path | None = None
) -> SettingChange:
    """Remove `key`, a setting or a whole group, from the project's or the user's file.

    Comments are kept. An unknown name can be removed if it is in the file. Otherwise an unknown
    name raises `UnknownSetting`. Other errors are the same as in `set_setting`.
    """
    files = settings_files(root, home)
    path = _file(files, where)

    def check_change(text: str, new_text: str) -> None:
        loaded = merged_with(files, where, new_text)
        if lacks_default_agent(loaded.settings) and not lacks_default_agent(
            merged_with(files, where, text).settings
        ):
            raise SettingsInvalid([refused_unset(place.name, loaded)])

    try:
        place = place_of(key)
    except UnknownSetting:
        literal: KeyPath = [(part,) for part in key.split(".")]
        if not _rewrite(path, lambda text: without(text, literal)):
            raise
        return SettingChange(name=key, path=path, is_changed=True)
    is_changed = _rewrite(path, lambda text: without(text, key_path(place)), check=check_change)
    return SettingChange(name=place.name, path=path, is_changed=is_changed)


def _checked(place: Setting | ServerEntry, value: object) -> Any:
    wanted = from_text(place.kind, value.strip()) if isinstance(value, str) else value
    try:
        place.kind.read(wanted)
    except ValueError as exc:
        problem = SettingsProblem(code="settings.wrong_value", message=f"{place.name} {exc}")
        raise SettingsInvalid([problem]) from exc
    return _jsonable(wanted)


def _jsonable(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    return value


def _file(files: SettingsFiles, where: Where) -> Path:
    path = files.path(where)
    if path is None:
        raise SettingsNotWritten("the home folder is unknown; set HOME")
    return path


def _rewrite(
    path: Path,
    edit: Callable[[str], str],
    *,
    check: _Check = lambda text, new_text: None,
    must_be_valid: bool = False,
) -> bool:
    """Replace the text of the file by the result of `edit`; returns whether the text changed."""
    target = Path(os.path.realpath(path))
    try:
        if not target.exists():
            if not must_be_valid:
                return False
            # Check before the folder is created, so that a refused change leaves none behind.
            check("", _edited(path, "", edit, must_be_valid=True))
        _make_folder(target.parent)
        with locked(target, timeout_s=_PATIENCE_S):
            text = read_text(target)
            new_text = _edited(path, text or "", edit, must_be_valid=must_be_valid)
            check(text or "", new_text)
            if new_text == text:
                return False
            if text is not None and not os.access(target, os.W_OK):
                raise SettingsNotWritten(f"{path} is write-protected; it is unchanged")
            replace_file(target, new_text.encode())
            return True
    except Unreadable as exc:
        raise SettingsInvalid([exc.problem]) from exc
    except TimeoutError as exc:
        raise SettingsNotWritten(
            f"another process has been changing {path} for {_PATIENCE_S:g} s; try again"
        ) from exc
    except OSError as exc:
        raise SettingsNotWritten(
            f"cannot write {path}: {exc.strerror or exc}; it is unchanged"
        ) from exc


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def _edited(path: Path, text: str, edit: Callable[[str], str], *, must_be_valid: bool) -> str:
    try:
        new_text = edit(text)
    except JsoncError as exc:
        problems = read_content(text, where=str(path)).problems
        raise SettingsInvalid(problems) from exc
    problems = read_content(new_text, where=str(path)).problems if must_be_valid else []
    if problems:
        raise SettingsInvalid(problems)
    return new_text


KeyPath: TypeAlias = Sequence[tuple[str, ...]]
Edit: TypeAlias = tuple[int, int, str]
"""The start and end of the replaced text, and its replacement."""

# Pure functions from text to text. A path is a list of keys from the root. Each key has all its
# spellings; the first one is written.
_EOL = re.compile(r"\r\n|\r|\n")
_MAX_LIST_LINE = 80


def with_value(text: str, path: KeyPath, value: Any) -> str:
    """Return `text` with `value` at `path`. Missing objects on the path are added.

    A new member is added at the end of its object, in the style of the file: indentation, line ends
    and trailing comma. Raises `JsoncError` if the text is not JSON, or if a value on the path is
    not an object.
    """
    document = parse(text)
    layout = _Layout.of(document)
    if document.root is None:
        return _new_document(text, path, value, layout)
    node = _object(document.root)
    for depth, spellings in enumerate(path):
        member = _member(node, spellings)
        rest = path[depth + 1 :]
        if member is None:
            edits = _insertion(document, node, spellings[0], _nested(rest, value), layout)
            return _applied(text, edits)
        if rest:
            node = _object(member.node)
            continue
        if _same(member.node.value, value):
            return text
        one_line = not layout.is_multi_line
        rendered = _rendered(value, layout, _indent_at(text, member.start), one_line=one_line)
        return _applied(text, [(member.node.start, member.node.end, rendered)])
    raise AssertionError("a path has at least one key")


def without(text: str, path: KeyPath) -> str:
    """Return `text` without the value at `path`. If there is no such value, the text is unchanged.

    Comments and the objects around the value stay. Raises `JsoncError` for text that is not JSON.
    """
    while True:
        # One round for each member with this key: the file may repeat it.
        found = _found(parse(text), path)
        if found is None:
            return text
        text = _applied(text, _removal(text, *found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The style of a file."""

    eol: str
    unit: str
    """One step of indentation."""
    is_multi_line: bool

    @classmethod
    def of(cls, document: JsoncDocument) -> _Layout:
        text, root = document.text, document.root
        eol = _EOL.search(text)
        unit = None
        is_multi_line = True
        if isinstance(root, ObjectNode):
            unit = next((_own_indent(text, member) for member in root.members), None)
            is_multi_line = not root.members or bool(_EOL.search(text, root.start, root.end))
        return cls(eol=eol.group() if eol else "\n", unit=unit or "  ", is_multi_line=is_multi_line)


def _object(node: JsoncNode) -> ObjectNode:
    if not isinstance(node, ObjectNode):
        raise JsoncError("an object is needed here", node.start)
    return node


def _member(node: ObjectNode, spellings: tuple[str, ...]) -> JsoncMember | None:
    """The member with this key. If there are several, the last one counts."""
    return next((each for each in reversed(node.members) if each.key in spellings), None)


def _found(document: JsoncDocument, path: KeyPath) -> tuple[ObjectNode, JsoncMember] | None:
    node = document.root
    for depth, spellings in enumerate(path):
        if not isinstance(node, ObjectNode):
            return None
        member = _member(node, spellings)
        if member is None:
            return None
        if depth == len(path) - 1:
            return node, member
        node = member.node
    return None


def _new_document(text: str, path: KeyPath, value: Any, layout: _Layout) -> str:
    gap = layout.eol if text.strip("\ufeff \t") and not text.endswith(("\n", "\r")) else ""
    return f"{text}{gap}{_rendered(_nested(path, value), layout, '', one_line=False)}{layout.eol}"


def _nested(path: KeyPath, value: Any) -> Any:
    for spellings in reversed(path):
        value = {spellings[0]: value}
    return value


def _insertion(
    document: JsoncDocument, node: ObjectNode, key: str, value: Any, layout: _Layout
) -> list[Edit]:
    text = document.text
    close = node.end - 1
    last = node.members[-1] if node.members else None
    has_last_comma = last is not None and last.comma is not None
    edits: list[Edit] = []
    if last is not None and not has_last_comma:
        edits.append((last.end, last.end, ","))
    one_line = not _EOL.search(text, node.start, node.end) and (
        last is not None or not layout.is_multi_line
    )
    indent = _indent_of_members(text, node, layout)
    shown = f"{_quoted(key)}: {_rendered(value, layout, indent, one_line=one_line)}"
    shown += "," if has_last_comma else ""
    if one_line:
        is_first = node.inside_end == node.start + 1
        edits.append((node.inside_end, node.inside_end, shown if is_first else f" {shown}"))
        return edits
    shown = f"{layout.eol}{indent}{shown}"
    if _EOL.search(text, node.inside_end, close):
        edits.append((node.inside_end, node.inside_end, shown))
    else:
        closing = f"{layout.eol}{_indent_at(text, node.start)}"
        edits.append((node.inside_end, close, f"{shown}{closing}"))
    return edits


def _removal(text: str, node: ObjectNode, member: JsoncMember) -> list[Edit]:
    start, end = member.start, member.end
    edits: list[Edit] = []
    index = node.members.index(member)
    before = node.members[index - 1].comma if index else None
    if member.comma is not None and not text[end : member.comma].strip():
        end = member.comma + 1
    elif member.comma is not None:
        edits.append((member.comma, member.comma + 1, ""))
    elif before is not None and not text[before + 1 : start].strip(" \t"):
        start = before
    elif before is not None:
        edits.append((before, before + 1, ""))
    inside = text[node.start + 1 : start] + text[end : node.end - 1]
    if len(node.members) == 1 and not inside.strip():
        return [(node.start + 1, node.end - 1, "")]
    return sorted([*edits, (*_with_space(text, start, end), "")])


def _with_space(text: str, start: int, end: int) -> tuple[int, int]:
    """The span, extended to whole lines if it is alone on them, otherwise by the spaces after
    it."""
    line_start = _line_start(text, start)
    line_end = _EOL.search(text, end)
    is_first = not text[line_start:start].strip()
    if is_first and line_end and not text[end : line_end.start()].strip():
        return line_start, line_end.end()
    if text[start : start + 1] != ",":
        while text[end : end + 1] in (" ", "\t"):
            end += 1
    return start, end


def _applied(text: str, edits: Sequence[Edit]) -> str:
    """The text after the edits, which are in the order of their positions."""
    pieces = []
    at = 0
    for start, end, instead in edits:
        pieces += [text[at:start], instead]
        at = end
    return "".join([*pieces, text[at:]])


def _same(found: object, wanted: object) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and true differ."""
    return json.dumps(found) == json.dumps(wanted)


def _indent_of_members(text: str, node: ObjectNode, layout: _Layout) -> str:
    for member in reversed(node.members):
        own = _own_indent(text, member)
        if own is not None:
            return own
    return _indent_at(text, node.start) + layout.unit


def _own_indent(text: str, member: JsoncMember) -> str | None:
    """The indentation of a member that is the first on its line, otherwise `None`."""
    before = text[_line_start(text, member.start) : member.start]
    is_on_first_line = _line_start(text, member.start) == 0
    return None if before.strip() or is_on_first_line else before


def _indent_at(text: str, offset: int) -> str:
    """The indentation of the line with the offset."""
    line = text[_line_start(text, offset) : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _rendered(value: Any, layout: _Layout, indent: str, *, one_line: bool) -> str:
    """A value as text. Objects and long lists are spread over several lines."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    is_short = isinstance(value, list) and len(line) <= _MAX_LIST_LINE
    if one_line or not value or not isinstance(value, dict | list) or is_short:
        return line
    inner = indent + layout.unit
    if isinstance(value, dict):
        rows = [
            f"{_quoted(key)}: {_rendered(each, layout, inner, one_line=False)}"
            for key, each in value.items()
        ]
        marks = "{}"
    else:
        rows = [_rendered(each, layout, inner, one_line=False) for each in value]
        marks = "[]"
    body = f",{layout.eol}".join(f"{inner}{row}" for row in rows)
    return f"{marks[0]}{layout.eol}{body}{layout.eol}{indent}{marks[1]}"
