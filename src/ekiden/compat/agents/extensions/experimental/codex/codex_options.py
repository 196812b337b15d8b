"""How the `codex` command is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from ekiden.compat.agents.exceptions import UserError

_T = TypeVar("_T")


def coerced(kind: type[_T], options: _T | Mapping[str, Any] | None) -> _T | None:
    """Options as an object of `kind`; `UserError` for other types and for unknown names."""
    if options is None or isinstance(options, kind):
        return options
    if not isinstance(options, Mapping):
        raise UserError(
            f"{kind.__name__} must be an object or a mapping, not {type(options).__name__}"
        )
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise UserError(f"{kind.__name__} has no {unknown}; known: {', '.join(known)}")
    return kind(**options)


@dataclass(frozen=True)
class CodexOptions:
    """Options of the command; `None` uses the default of Codex."""

    codex_path_override: str | None = None
    """The executable. `None`: the variable ``CODEX_PATH``, or ``codex`` on the ``PATH``."""
    base_url: str | None = None
    api_key: str | None = None
    env: Mapping[str, str] | None = None
    """The whole environment of the process. `None`: the environment of this process."""
    codex_subprocess_stream_limit_bytes: int | None = None
    """The maximum length of a line of output, from 64 KiB to 64 MiB; 8 MiB by default."""


def coerce_codex_options(options: CodexOptions | Mapping[str, Any] | None) -> CodexOptions | None:
    """The options as an object."""
    return coerced(CodexOptions, options)
