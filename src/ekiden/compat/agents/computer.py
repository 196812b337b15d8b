"""A computer that a model operates: you implement one of the two classes."""

from __future__ import annotations

import abc
from typing import Literal, TypeAlias

Environment: TypeAlias = Literal["mac", "windows", "ubuntu", "browser"]
Button: TypeAlias = Literal["left", "right", "wheel", "back", "forward"]


class _Screen:
    @property
    def environment(self) -> Environment | None:
        """What kind of computer it is; only the preview tool needs it."""
        return None

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """Width and height in pixels; only the preview tool needs them."""
        return None


class Computer(_Screen, abc.ABC):
    """A computer with blocking actions."""

    @abc.abstractmethod
    def screenshot(self) -> str:
        """The screen as a PNG in base64."""

    @abc.abstractmethod
    def click(self, x: int, y: int, button: Button) -> None:
        """Click a button at a position."""

    @abc.abstractmethod
    def double_click(self, x: int, y: int) -> None:
        """Double-click the left button at a position."""

    @abc.abstractmethod
    def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        """Scroll by a number of pixels at a position."""

    @abc.abstractmethod
    def type(self, text: str) -> None:
        """Type a text."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Wait until the screen has changed."""

    @abc.abstractmethod
    def move(self, x: int, y: int) -> None:
        """Move the pointer to a position."""

    @abc.abstractmethod
    def keypress(self, keys: list[str]) -> None:
        """Press keys at the same time."""

    @abc.abstractmethod
    def drag(self, path: list[tuple[int, int]]) -> None:
        """Drag the pointer along a path."""


class AsyncComputer(_Screen, abc.ABC):
    """A computer with async actions; `Computer` describes the actions."""

    @abc.abstractmethod
    async def screenshot(self) -> str:
        """The screen as a PNG in base64."""

    @abc.abstractmethod
    async def click(self, x: int, y: int, button: Button) -> None:
        """Click a button at a position."""

    @abc.abstractmethod
    async def double_click(self, x: int, y: int) -> None:
        """Double-click the left button at a position."""

    @abc.abstractmethod
    async def scroll(self, x: int, y: int, scroll_x: int, scroll_y: int) -> None:
        """Scroll by a number of pixels at a position."""

    @abc.abstractmethod
    async def type(self, text: str) -> None:
        """Type a text."""

    @abc.abstractmethod
    async def wait(self) -> None:
        """Wait until the screen has changed."""

    @abc.abstractmethod
    async def move(self, x: int, y: int) -> None:
        """Move the pointer to a position."""

    @abc.abstractmethod
    async def keypress(self, keys: list[str]) -> None:
        """Press keys at the same time."""

    @abc.abstractmethod
    async def drag(self, path: list[tuple[int, int]]) -> None:
        """Drag the pointer along a path."""
