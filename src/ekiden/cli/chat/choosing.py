"""A list on the terminal in which arrows and Enter choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension

from ekiden.cli.chat.picker import Choice
from ekiden.cli.output import safe

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

_HEIGHT = 12


async def choose(
    title: str,
    options: Sequence[str],
    *,
    start: int = 0,
    input: Input | None = None,
    output: Output | None = None,
) -> int | None:
    """The place of the chosen option; `None` after Esc, q or Ctrl-C. The list is wiped."""
    choice = Choice(options, start=start, height=_HEIGHT)
    lines = Window(
        FormattedTextControl(lambda: _drawn(choice), show_cursor=False),
        height=Dimension(max=_HEIGHT),
        wrap_lines=False,
    )
    heading = Window(FormattedTextControl([("bold", safe(title))]), height=1)
    application: Application[int | None] = Application(
        layout=Layout(HSplit([heading, lines])),
        key_bindings=_bindings(choice),
        erase_when_done=True,
        input=input,
        output=output,
    )
    return await application.run_async(handle_sigint=False)


def _drawn(choice: Choice) -> StyleAndTextTuples:
    drawn: StyleAndTextTuples = []
    for is_marked, text in choice.shown():
        line = " ".join(safe(text).split("\n"))
        drawn.append(("reverse", f"› {line}\n") if is_marked else ("", f"  {line}\n"))
    return drawn


def _bindings(choice: Choice) -> KeyBindings:
    keys = KeyBindings()

    def moves(by: int, *names: str) -> None:
        for name in names:

            @keys.add(name)
            def move(event: KeyPressEvent) -> None:
                choice.move(by)

    moves(-1, "up", "k", "c-p")
    moves(1, "down", "j", "c-n")
    moves(-choice.page, "pageup")
    moves(choice.page, "pagedown")
    moves(-len(choice.options), "home")
    moves(len(choice.options), "end")

    @keys.add("enter")
    def take(event: KeyPressEvent) -> None:
        event.app.exit(result=choice.at)

    @keys.add("escape", eager=True)
    @keys.add("q")
    @keys.add("c-c")
    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    return keys
