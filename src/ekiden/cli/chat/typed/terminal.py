"""The terminal's settings while answers are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_keys(descriptor: int | None = None) -> Iterator[None]:
    """Keys are not echoed but kept for the next prompt; Ctrl-C and Ctrl-Z still work.

    Does nothing where there is no terminal.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    try:
        number = sys.stdin.fileno() if descriptor is None else descriptor
        before = termios.tcgetattr(number)
    except (termios.error, OSError, ValueError):
        yield
        return
    changed = list(before)
    changed[0] &= ~termios.ICRNL
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(number, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        _restore(number, before)


def _restore(number: int, settings: list[object]) -> None:
    import termios

    try:
        termios.tcsetattr(number, termios.TCSADRAIN, settings)  # type: ignore[arg-type]
    except termios.error:  # the terminal is gone
        return
