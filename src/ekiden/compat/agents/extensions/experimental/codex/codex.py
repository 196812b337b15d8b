"""The door to Codex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.extensions.experimental.codex.codex_options import (
    CodexOptions,
    coerce_codex_options,
)
from ekiden.compat.agents.extensions.experimental.codex.exec import CodexExec
from ekiden.compat.agents.extensions.experimental.codex.thread import Thread
from ekiden.compat.agents.extensions.experimental.codex.thread_options import (
    ThreadOptions,
    coerce_thread_options,
)


class Codex:
    """Starts and resumes threads of the `codex` command.

    Pass the fields of `CodexOptions` as an object, as a mapping, or as keyword arguments.
    """

    def __init__(
        self, options: CodexOptions | Mapping[str, Any] | None = None, **given: Any
    ) -> None:
        if options is not None and given:
            raise UserError("give Codex its options as one object or as keyword arguments")
        self._options = coerce_codex_options(given or options) or CodexOptions()
        env = self._options.env
        self._exec = CodexExec(
            executable_path=self._options.codex_path_override,
            env=None if env is None else {str(key): str(value) for key, value in env.items()},
            subprocess_stream_limit_bytes=self._options.codex_subprocess_stream_limit_bytes,
        )

    def start_thread(self, options: ThreadOptions | Mapping[str, Any] | None = None) -> Thread:
        """Start a new thread."""
        return self._thread(None, options)

    def resume_thread(
        self, thread_id: str, options: ThreadOptions | Mapping[str, Any] | None = None
    ) -> Thread:
        """Continue an earlier thread."""
        return self._thread(thread_id, options)

    def _thread(
        self, thread_id: str | None, options: ThreadOptions | Mapping[str, Any] | None
    ) -> Thread:
        return Thread(
            exec_client=self._exec,
            options=self._options,
            thread_options=coerce_thread_options(options) or ThreadOptions(),
            thread_id=thread_id,
        )
