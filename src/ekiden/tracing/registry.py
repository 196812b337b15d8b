"""The trace processors of this process."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterable

from ekiden.core.events import OBSERVERS
from ekiden.tracing.dispatch import TraceDispatcher, Viewer
from ekiden.tracing.processors import TracingProcessor

_log = logging.getLogger("ekiden.tracing")
_dispatcher = TraceDispatcher()
_is_disabled = False
_is_at_exit = False


def add_trace_processor(processor: TracingProcessor, *, include_content: bool = False) -> None:
    """Show every run of this process to another processor, from its next step on.

    Message content is left out of spans unless `include_content`, and always for runs with
    `trace_include_sensitive_data=False`; keys and tokens are always masked. It is shut down at the
    end of the process::

        class Slow(TracingProcessor):
            def on_span_end(self, span: Span) -> None:
                if (span.duration_us or 0) > 5_000_000:
                    print(span.name, "took long")

        add_trace_processor(Slow())
    """
    _set((*_dispatcher.viewers, Viewer(processor=processor, include_content=include_content)))


def set_trace_processors(
    processors: Iterable[TracingProcessor], *, include_content: bool = False
) -> None:
    """Show runs to these processors only; earlier ones are shut down.

    For example::

        set_trace_processors([])
    """
    new = tuple(Viewer(processor=each, include_content=include_content) for each in processors)
    kept = {id(each.processor) for each in new}
    before = [each.processor for each in _dispatcher.viewers if id(each.processor) not in kept]
    _set(new)
    for processor in before:
        _quietly(processor, "shutdown")


def trace_processors() -> tuple[TracingProcessor, ...]:
    """The current trace processors."""
    return tuple(each.processor for each in _dispatcher.viewers)


def set_tracing_disabled(disabled: bool) -> None:
    """Whether processors are switched off; stored events can be read as a trace either way.

    For example::

        set_tracing_disabled(True)
    """
    global _is_disabled
    _is_disabled = disabled
    _look_on()


def flush_traces() -> None:
    """Let every processor send its buffered data.

    For example::

        flush_traces()
    """
    for processor in trace_processors():
        _quietly(processor, "force_flush")


def _set(viewers: tuple[Viewer, ...]) -> None:
    global _is_at_exit
    _dispatcher.viewers = viewers
    _look_on()
    if viewers and not _is_at_exit:
        _is_at_exit = True
        atexit.register(_shut_down)


def _look_on() -> None:
    wanted = bool(_dispatcher.viewers) and not _is_disabled
    if wanted and _dispatcher not in OBSERVERS:
        OBSERVERS.append(_dispatcher)
    elif not wanted and _dispatcher in OBSERVERS:
        OBSERVERS.remove(_dispatcher)


def _shut_down() -> None:
    set_trace_processors(())


def _quietly(processor: TracingProcessor, method: str) -> None:
    try:
        getattr(processor, method)()
    except Exception:
        _log.exception("trace processor %s failed in %s", type(processor).__name__, method)
