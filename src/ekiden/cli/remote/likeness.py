"""A remote command has the options of the local one, as far as they make sense at a server."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, get_type_hints

if TYPE_CHECKING:
    from ekiden.client import AsyncClient

P = ParamSpec("P")

LOCAL_OPTIONS: Final = {
    "store": "--store",
    "team": "--team",
    "model": "--model",
    "keep_going": "--keep-going",
    "allow": "--allow",
}
"""What is decided where the agents run, by name of the parameter and of the option."""


def like(
    local: Callable[..., Any],
) -> Callable[
    [Callable[Concatenate[AsyncClient, P], Awaitable[int | None]]], Callable[..., Awaitable[Any]]
]:
    """Gives a function that takes a client, and by name what `local` takes, `local`'s signature
    and help, without the options that are not for servers."""

    def give(
        function: Callable[Concatenate[AsyncClient, P], Awaitable[int | None]],
    ) -> Callable[..., Awaitable[Any]]:
        hints = get_type_hints(local, include_extras=True)
        signature = inspect.signature(local)
        kept = [
            parameter.replace(annotation=hints[name])
            for name, parameter in signature.parameters.items()
            if name not in LOCAL_OPTIONS
        ]
        shape = signature.replace(parameters=kept)

        async def command(*args: Any, **kwargs: Any) -> int | None:
            from ekiden.cli.remote.connection import connected

            bound = shape.bind(*args, **kwargs)
            bound.apply_defaults()
            call: Callable[..., Awaitable[int | None]] = function
            async with connected() as client:
                return await call(client, **bound.arguments)

        command.__name__ = command.__qualname__ = local.__name__
        command.__doc__ = local.__doc__
        command.__annotations__ = {
            **{parameter.name: parameter.annotation for parameter in kept},
            "return": hints.get("return"),
        }
        vars(command)["__signature__"] = shape
        return command

    return give
