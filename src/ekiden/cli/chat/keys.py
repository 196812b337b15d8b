"""What keys do at the prompt of a chat."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

LEAVE_HINT = "Ctrl-C again leaves, and so does Ctrl-D"


def bindings(say_hint: Callable[[str], None]) -> KeyBindings:
    """Enter sends, Alt-Enter and Ctrl-J begin a line, Ctrl-C empties and then leaves."""
    keys = KeyBindings()
    leaving = False

    @Condition
    def is_choosing() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @Condition
    def is_searching() -> bool:
        return get_app().layout.is_searching

    @keys.add("enter", filter=~is_choosing & ~is_searching)
    def send(event: KeyPressEvent) -> None:
        nonlocal leaving
        leaving = False
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=is_choosing)
    def take_completion(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter")
    @keys.add("c-j", filter=~is_searching)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=~is_searching)
    def empty_or_leave(event: KeyPressEvent) -> None:
        nonlocal leaving
        buffer = event.current_buffer
        if buffer.text:
            leaving = False
            buffer.reset()
            say_hint("")
        elif leaving:
            event.app.exit(exception=EOFError)
        else:
            leaving = True
            say_hint(LEAVE_HINT)

    return keys
