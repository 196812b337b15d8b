"""How a local model is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from ekiden.core.checks.fields import Checked, Count
from ekiden.core.checks.kinds import Allowed
from ekiden.core.errors import UserError

DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(Checked):
    """How a local model is run; two models of one file that differ here are loaded twice."""

    n_ctx: Annotated[int, Allowed(low=256)] = DEFAULT_CONTEXT
    """The longest conversation with its answer, in tokens; more takes more memory."""
    threads: Count | None = None
    """`None` takes one for every physical core that is free when the model is loaded."""
    max_waiting: Count = 32
    """How many requests may wait for their turn; the next one is refused."""
    max_tokens: Count = 1024
    """The longest answer where the request does not say."""
    temperature: Annotated[float, Allowed(high=2)] = 0.2
    """Where the request does not say."""

    @classmethod
    def from_environment(cls) -> LocalSettings:
        """With ``EKIDEN_LOCAL_CTX`` and ``EKIDEN_LOCAL_THREADS`` where they are set."""
        n_ctx, threads = _number("EKIDEN_LOCAL_CTX"), _number("EKIDEN_LOCAL_THREADS")
        return cls(n_ctx=DEFAULT_CONTEXT if n_ctx is None else n_ctx, threads=threads)


_default: LocalSettings | None = None


def set_default_local_settings(settings: LocalSettings | None) -> None:
    """Run the models that ``local:…`` names like this; `None` goes back to the environment's."""
    global _default
    _default = settings


def default_local_settings() -> LocalSettings:
    """What was set, or else what the environment says."""
    return _default or LocalSettings.from_environment()


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError as exc:
        raise UserError(f"{variable} is {text!r}, not a whole number") from exc
