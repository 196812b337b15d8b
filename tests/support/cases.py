"""Many cases of one pure check as one test: a test costs ten times what such a case costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def each_case(
    names: str | tuple[str, ...], cases: Iterable[Any], **_: Any
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Take the arguments of `pytest.mark.parametrize`, and run all cases in one test.

    All of them are run; those that fail are raised together, each with its values.
    """
    known = names if isinstance(names, tuple) else tuple(name.strip() for name in names.split(","))
    chosen = [tuple(case) if len(known) > 1 else (case,) for case in cases]

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failures = []
            for case in chosen:
                try:
                    check(**dict(zip(known, case, strict=True)))
                except Exception as failure:
                    failure.add_note(f"case: {case!r}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(chosen)} cases", failures)

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        test.__qualname__ = check.__qualname__
        return test

    return decorate
