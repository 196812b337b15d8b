"""Fetching another project's tests: downloaded once, checked, and unpacked without its code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

PROJECT = "openai-agents"
VERSION = "0.24.0"
SHA256 = "4b4b285f4fed81fdf1b4ac426a9101658d9cd29b4fb1aaeee18f639b77e704e3"
_BESIDE = ("inline-snapshot>=0.20.7,<1", "asttokens>=3,<4", "executing>=2,<3")
_ROOT = f"openai_agents-{VERSION}"
_FILE = f"{_ROOT}.tar.gz"


def cache_dir() -> Path:
    """Where downloads stay: ``EKIDEN_CONFORMANCE_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("EKIDEN_CONFORMANCE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ekiden" / "conformance"


def fetch() -> Path:
    """The verified archive; from the cache if it is there, so that a second run needs no network.

    Raises `SystemExit` with what to do when it cannot be had.
    """
    archive = cache_dir() / _FILE
    if archive.is_file() and _digest(archive) == SHA256:
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        downloaded = _download(Path(folder))
        if _digest(downloaded) != SHA256:
            raise SystemExit(f"{downloaded.name} is not the file that was expected; stopped")
        downloaded.replace(archive)
    return archive


def unpack_tests(archive: Path, target: Path) -> Path:
    """Unpack all tests with their data, without a `conftest.py`; gives their folder.

    Some of them import examples, which are unpacked beside them.
    """
    shutil.rmtree(target / "tests", ignore_errors=True)
    inside = tuple(PurePosixPath(_ROOT, each) for each in ("tests", "examples"))
    with tarfile.open(archive) as source:
        for member in source:
            path = PurePosixPath(member.name)
            is_wanted = any(path.is_relative_to(each) for each in inside)
            if member.isfile() and is_wanted and path.name != "conftest.py":
                member.name = str(path.relative_to(_ROOT))
                source.extract(member, target, filter="data")
    return target / "tests"


def beside() -> Path:
    """A folder with what the tests import and Ekiden's own do not; filled once."""
    folder = cache_dir() / "beside"
    if not (folder / ".complete").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--target", str(folder), "--upgrade", *_BESIDE]
        subprocess.run(command, check=True)
        (folder / ".complete").touch()
    return folder


def _download(folder: Path) -> Path:
    """Let pip, with whatever index it is configured for, fetch the archive and check its hash.

    pip also reads the archive's metadata; with the build back end at hand that needs nothing else.
    """
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{PROJECT}=={VERSION} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", PROJECT, "--require-hashes", "-r", str(pinned), "-d", str(folder)]
    if importlib.util.find_spec("hatchling"):
        command.append("--no-build-isolation")
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(
            f"{PROJECT} {VERSION} cannot be downloaded: check the network or pip's settings, or "
            f"put {_FILE} into {cache_dir()}\n{finished.stderr}"
        )
    return folder / _FILE


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
