"""The options of commands that run a session: what it may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from ekiden.api.runs import LimitOptions


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFlags:
    """What a run may use; it holds until another limit is given, wherever the run goes on."""

    max_turns: Annotated[
        int | None,
        Parameter(
            name="--max-turns",
            validator=Number(gte=1, lte=10_000),
            help="Stop after this many turns; else the setting `limits.turns`.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Parameter(
            name="--max-tokens",
            validator=Number(gte=1, lte=1_000_000_000_000),
            help="Stop after this many tokens; else the setting `limits.tokens`.",
        ),
    ] = None
    max_money: Annotated[
        float | None,
        Parameter(
            name="--max-money",
            validator=Number(gt=0, lte=1e9),
            help="Stop when the model calls cost so much; else the setting `limits.money`.",
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        Parameter(
            name="--max-seconds",
            validator=Number(gt=0, lte=1e9),
            help="Stop after so many seconds of work; else the setting `limits.seconds`.",
        ),
    ] = None

    def options(self) -> LimitOptions:
        """As the interface takes them."""
        return {
            "max_turns": self.max_turns,
            "max_tokens": self.max_tokens,
            "max_money": self.max_money,
            "max_seconds": self.max_seconds,
        }

    def by_name(self) -> dict[str, float | None]:
        """As the runtime takes them."""
        return {name.removeprefix("max_"): limit for name, limit in asdict(self).items()}


NO_LIMITS = LimitFlags()
