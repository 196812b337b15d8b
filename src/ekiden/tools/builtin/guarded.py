"""Files that no agent reads or writes, by their names and by how they begin."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ekiden.core.errors import ToolError

_SECRET = re.compile(
    r"""\.env(rc)?(\..*)?                       # settings with passwords
    |   id_(rsa|dsa|ecdsa|ed25519)(_sk)?        # keys of ssh
    |   .*\.(pem|key|ppk|p12|pfx|jks|keystore|kdbx|gpg)
    |   [._](netrc|pgpass|npmrc|pypirc|htpasswd|git-credentials|vault-token)
    |   credentials(\.json)?""",
    re.VERBOSE,
)
_SHOWN = re.compile(r"\.env(rc)?\.(example|sample|template|dist)|.*\.pub")
"""Meant to be read, though they look like the others."""
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube"})
_STORE = re.compile(r".*\.db(-\w+)?")
_OURS = ".ekiden"
_NOT_WRITTEN = frozenset({".git", ".hg", ".svn", _OURS, ".claude", ".gemini", ".agents"})
"""Folders that say what programs and agents may do."""
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")


def check_reading(parts: Sequence[str]) -> None:
    """`ToolError` for credentials and for Ekiden's own stores."""
    _check_secret(parts)
    names = [_plain(part) for part in parts]
    if _OURS in names[:-1] and _STORE.fullmatch(names[-1]):
        raise ToolError(f"{parts[-1]!r} is a store of Ekiden, which agents do not read")


def check_writing(parts: Sequence[str]) -> None:
    """`ToolError` for credentials, version control, and what Ekiden and its like go by."""
    _check_secret(parts)
    for part in parts:
        if _plain(part) in _NOT_WRITTEN:
            raise ToolError(
                f"nothing is written in {part!r}: what is there says what agents and programs may "
                "do, and a person has to change it"
            )


def check_content(name: str, data: bytes) -> None:
    """`ToolError` for private keys under any name."""
    if _PRIVATE_KEY.search(data[:4096]):
        raise ToolError(f"{name!r} holds a private key, which is not shown to agents")


def _check_secret(parts: Sequence[str]) -> None:
    names = [_plain(part) for part in parts]
    if _SECRET_FOLDERS.intersection(names) or (
        names and _SECRET.fullmatch(names[-1]) and not _SHOWN.fullmatch(names[-1])
    ):
        raise ToolError(
            f"{parts[-1]!r} is kept from agents, because files of this name hold passwords and keys"
        )


def _plain(part: str) -> str:
    """The name as a file system may take it: some know no case, or skip what is invisible."""
    folded = unicodedata.normalize("NFKC", part).casefold().rstrip(". ")
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")
