"""A folder in which files are made until they are whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ekiden.core.errors import StoreUnavailable
from ekiden.project.defaults import DEFAULT_STORE


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A folder beside the target in which it is made; `StoreUnavailable`, also for what the file
    system refuses within. Only for the default store the folder around it is made."""
    try:
        if target == Path(DEFAULT_STORE).absolute():
            target.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            yield Path(folder)
    except OSError as exc:
        why = f"{exc.strerror or exc}: check the folder, its rights and the disk"
        raise StoreUnavailable(f"cannot write {target}: {why}") from exc
