"""Which file ``local:…`` means."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ekiden.core.errors import UserError
from ekiden.models.local.cpu import memory_bytes
from ekiden.models.local.gguf import peek_gguf
from ekiden.models.local.packages import KNOWN_PACKAGES, Progress, WeightPackage, ready_file

_LATER_PIECE = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf", re.IGNORECASE)
_DEFAULT = "default"

_default_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model that can be loaded."""

    name: str
    path: Path
    """The GGUF file; of a package whose parts were not joined yet, the one it will become."""
    size: int
    package: WeightPackage | None = None
    """What has to be joined before `path` is there."""

    def ready(self, progress: Progress | None = None) -> Path:
        """The file, joined now if need be; blocks for that long. See `ready_file`."""
        if self.package is None:
            return self.path
        return ready_file(self.package, self.path.parent, progress=progress)


def set_default_local_model(name: str | Path | None) -> None:
    """Let ``local:`` and ``local:default`` mean this file or name; `None` forgets it.

    ``EKIDEN_LOCAL_MODEL`` goes before it. It is for the settings' ``local.model``.
    """
    global _default_model
    _default_model = None if name is None else str(name)


def model_folders() -> list[Path]:
    """Where GGUF files are looked for: ``EKIDEN_LOCAL_MODELS``, then ``~/.ekiden/models``."""
    named = os.environ.get("EKIDEN_LOCAL_MODELS", "").strip()
    folders = [Path(named).expanduser()] if named else []
    try:
        return [*folders, Path.home() / ".ekiden" / "models"]
    except RuntimeError:
        return folders or [Path(".ekiden", "models")]


def found_weights() -> list[Weights]:
    """Every model that ``local:name`` could mean: files first, largest first, then packages.

    A file that is no GGUF model is left out, and a package whose joined file is there is one.
    """
    files = {path.name: path for folder in reversed(model_folders()) for path in _ggufs(folder)}
    found = [
        Weights(name=path.stem, path=path, size=path.stat().st_size) for path in files.values()
    ]
    found.sort(key=lambda weights: (-weights.size, weights.name))
    missing = (package for package in KNOWN_PACKAGES if package.file not in files)
    return found + [_of_package(package) for package in missing if package.is_installed()]


def locate(name: str) -> Weights:
    """The model that ``local:name`` means; nothing is loaded or joined yet.

    Raises `UserError` for a file that is not there, a name that fits none or several, and, when
    none is named, a machine that has none.
    """
    name = name.strip()
    if name in ("", _DEFAULT):
        named = os.environ.get("EKIDEN_LOCAL_MODEL", "").strip() or _default_model or ""
        if named in ("", _DEFAULT):
            return _best()
        name = named
    return _file(name) if _is_path(name) else _named(name)


def _is_path(name: str) -> bool:
    return name.lower().endswith(".gguf") or name[0] in "~./\\" or "/" in name or "\\" in name


def _file(name: str) -> Weights:
    try:
        path = Path(name).expanduser()
        if not path.is_absolute() and not path.is_file() and len(path.parts) == 1:
            inside = (folder / path for folder in model_folders())
            path = next((each for each in inside if each.is_file()), path)
        size = path.stat().st_size
    except (OSError, RuntimeError, ValueError) as exc:
        raise UserError(f"there is no model file {name}; {_advice()}") from exc
    if path.is_dir():
        raise UserError(f"{path} is a folder: name the GGUF file in it")
    return Weights(name=path.stem, path=path.absolute(), size=size)


def _named(name: str) -> Weights:
    found = found_weights()
    wanted = name.lower()
    fitting = [each for each in found if each.name.lower() == wanted]
    fitting = fitting or [each for each in found if each.name.lower().startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        listed = ", ".join(each.name for each in fitting)
        raise UserError(f"local:{name} fits several models: {listed}; write more of the name")
    raise UserError(f"no local model is called {name!r}; {_advice(found)}")


def _best() -> Weights:
    """The largest file that leaves half of the memory free; else what is installed."""
    found = found_weights()
    if not found:
        raise UserError(f"there is no local model; {_advice(found)}")
    memory = memory_bytes()
    fitting = [each for each in found if memory is None or each.size <= memory // 2]
    return fitting[0] if fitting else min(found, key=lambda each: each.size)


def _advice(found: list[Weights] | None = None) -> str:
    known = [each.name for each in (found_weights() if found is None else found)]
    if known:
        return f"there are: {', '.join(known)}"
    return (
        f"put a GGUF file into {model_folders()[0]}, name one as local:/path/to/file.gguf, or "
        f"{KNOWN_PACKAGES[0].install}"
    )


def _of_package(package: WeightPackage) -> Weights:
    if package.parts == 1:
        path = ready_file(package, Path())
        return Weights(name=package.name, path=path, size=package.size)
    path = model_folders()[0] / package.file
    return Weights(name=package.name, path=path, size=package.size, package=package)


def _ggufs(folder: Path) -> list[Path]:
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        return []
    found = []
    for path in inside:
        is_model = path.suffix.lower() == ".gguf" and not path.name.startswith((".", "mmproj"))
        if not is_model or _LATER_PIECE.search(path.name):
            continue
        try:
            peek_gguf(path)
        except UserError:
            continue
        found.append(path)
    return found
