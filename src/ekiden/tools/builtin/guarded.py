"""Files that no agent reads or writes, by their names and by how they begin."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from ekiden.core.errors import ToolError

_OURS = ".ekiden"
_SETTINGS = "settings.json"
_SECRET = re.compile(
    r"""\.env([._-].*)? | \.envrc(\..*)? | .*\.env      # settings with passwords
    |   .*\.env\.(local|enc|dev.*|test.*|stag.*|prod.*)
    |   id_(rsa|dsa|ecdsa|ed25519)(_sk)?        # keys of ssh
    |   .*\.(pem|key|ppk|p12|pfx|p8|jks|keystore|kdbx|gpg|ovpn|kubeconfig|tfvars|tfstate)
    |   [._](netrc|pgpass|npmrc|pypirc|htpasswd|git-credentials|gitconfig|hgrc|vault-token|token
            |dockercfg|dockerconfigjson|s3cfg|boto|databrickscfg|terraformrc|my\.cnf|mylogin\.cnf
            |yarnrc(\.yml)?|claude\.json)
    |   \.?mcp\.json | claude_desktop_config\.json      # servers with their tokens
    |   token\.json | kubeconfig | service[._-]?account.*\.json""",
    re.VERBOSE,
)
_TELLING = re.compile(
    r"(.*[._-])?((secrets?|credentials?)([._-].*)?"
    r"|(passwords?|passwd|api[._-]?keys?)(\.[^.]+)?)"
)
"""Data of such a name is what the name says; a program or a page is about it."""
_TELLING_FOLDER = re.compile(r"\.?(secrets|credentials)")
_CODE = re.compile(
    r".*\.(pyi?|ipynb|[cm]?[jt]sx?|vue|svelte|html?|css|go|rs|java|kt|scala|swift|rb|php|cs|[ch]"
    r"|cc|cpp|hpp|exs?|erl|hs|lua|pl|r|sh|ps1|sql|proto|graphql|tf|mdx?|rst|adoc|tex)"
)
_SHOWN = re.compile(
    r"(.*[._-])?(example|sample|template|dist)(\.(env|ya?ml|json|toml|ini|cfg|conf|properties))?"
    r"|.*\.pub"
)
"""Meant to be read, though they look like the others."""
_BACKUP = re.compile(r"(?<=.)(~|\.(bak|backup|old|orig|save|swp))+\Z")
"""What editors and people add to the name of a copy."""
_SECRET_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".subversion", "gcloud"}
)
_SECRET_IN = {
    ".git": re.compile(r"config(\.worktree)?"),
    ".hg": re.compile(r"hgrc"),
    "gh": re.compile(r"hosts\.ya?ml"),
    ".m2": re.compile(r"settings.*\.xml"),
    ".claude": re.compile(r"settings.*\.json"),
    ".gemini": re.compile(r"settings.*\.json|oauth.*\.json"),
}
"""Names that are harmless elsewhere, by a folder above them."""
_AGENTS = "agents"
_NOT_WRITTEN = frozenset({".git", ".hg", ".svn", _OURS, ".claude", ".gemini", ".agents"})
"""Folders that say what programs and agents may do."""
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")


def check_reading(parts: Sequence[str]) -> None:
    """`ToolError` for credentials, and for Ekiden's own settings and stores."""
    _check_secret(parts)
    names = [_plain(part) for part in parts]
    if _OURS in names[:-1]:
        inside = names[names.index(_OURS) + 1 :]
        if inside[0] != _AGENTS and not _CODE.fullmatch(inside[-1]):
            raise _of_ekiden(parts[-1])


def check_writing(parts: Sequence[str]) -> None:
    """`ToolError` for credentials, version control, and what Ekiden and its like go by."""
    for part in parts:
        if _plain(part) in _NOT_WRITTEN:
            raise ToolError(
                f"nothing is written in {part!r}: files there control what agents and programs "
                "may do, and a person has to change them"
            )
    _check_secret(parts)


def check_opened(name: str, status: os.stat_result, root: Path) -> None:
    """`ToolError` if the open file is a settings file of Ekiden, whatever it is called here."""
    for folder in (root, _home()):
        try:
            settings = None if folder is None else os.stat(folder / _OURS / _SETTINGS)
        except OSError:
            continue
        if settings is not None and os.path.samestat(status, settings):
            raise _of_ekiden(name)


def check_content(name: str, data: bytes) -> None:
    """`ToolError` for private keys under any name."""
    if _PRIVATE_KEY.search(data[:4096]):
        raise ToolError(f"{name!r} holds a private key, which is not shown to agents")


def _check_secret(parts: Sequence[str]) -> None:
    names = [_plain(part) for part in parts]
    if names and (_SECRET_FOLDERS.intersection(names) or _is_secret(names)):
        raise ToolError(
            f"{parts[-1]!r} is kept from agents, because files of this name hold passwords and keys"
        )


def _is_secret(names: Sequence[str]) -> bool:
    *folders, last = names
    name = _BACKUP.sub("", last)
    if any(name_in.fullmatch(name) for at, name_in in _SECRET_IN.items() if at in folders):
        return True
    if _SHOWN.fullmatch(name):
        return False
    if _SECRET.fullmatch(name):
        return True
    tells = _TELLING.fullmatch(name) or any(map(_TELLING_FOLDER.fullmatch, folders))
    return bool(tells) and not _CODE.fullmatch(name)


def _of_ekiden(name: str) -> ToolError:
    return ToolError(
        f"{name!r} is kept from agents: it is one of Ekiden's own files, with settings, tokens or "
        "conversations"
    )


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _plain(part: str) -> str:
    """The name as a file system may take it: some know no case, or skip what is invisible."""
    folded = unicodedata.normalize("NFKC", part).casefold().rstrip(". ")
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")
