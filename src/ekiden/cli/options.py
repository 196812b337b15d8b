"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.api.moments import AGO, UNITS, read_moment
from ekiden.cli.errors import UsageError
from ekiden.core.values.jsonio import loads

if TYPE_CHECKING:
    from ekiden.api.runs import LimitOptions

STORE: str | None = None
STATUS = ("--status", "--state")
"""The filter of every list, and its older name, which help pages leave out."""
TEAM: str | None = None


def json_or_text(text: str | None) -> Any:
    """What the words are as JSON; words that are none are text."""
    if text is None:
        return None
    try:
        return loads(text)
    except ValueError:
        return text


def json_object(text: str | None, option: str) -> dict[str, Any] | None:
    """An object of JSON; `UsageError` for anything else."""
    value = json_or_text(text)
    if value is not None and not isinstance(value, dict):
        raise UsageError(f'{option} is an object of JSON, such as {{"session_id": "s1"}}')
    return value


def moment(text: str | None, *, option: str, now: datetime | None = None) -> datetime | None:
    """The time that `text` means: a date, a date with a time, or how long ago, such as ``2h``.

    Without a time zone it is the machine's own. `UsageError` for anything else.
    """
    if text is None:
        return None
    try:
        return read_moment(text, now=now)
    except (ValueError, OverflowError) as exc:
        raise UsageError(
            f"{option} {text[:40]!r} is no time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc


def ahead(text: str, *, what: str, now: datetime | None = None) -> float:
    """In how many seconds that is which `text` means: ``90s``, ``2h``, or a time to come.

    `UsageError` for anything else.
    """
    now = (now or datetime.now()).astimezone()
    span = AGO.fullmatch(text)
    try:
        if span is not None:
            seconds = timedelta(**{UNITS[span[2]]: int(span[1])}).total_seconds()
        else:
            seconds = (datetime.fromisoformat(text).astimezone() - now).total_seconds()
    except (ValueError, OverflowError, OSError) as exc:
        raise UsageError(
            f"{what} {text[:40]!r} is no time to come; give how long: 90s, 30m, 2h, 7d or 4w, or a "
            "date with a time, such as 2030-03-01T14:30"
        ) from exc
    if seconds <= 0:
        raise UsageError(f"{what} {text[:40]!r} is over already")
    return seconds


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


StoreOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--store",
        env_var="EKIDEN_STORE",
        help="Where sessions are kept: a path, sqlite:///path, postgresql://… or memory:; "
        "else the setting `store`, which is .ekiden/ekiden.db.",
    ),
]
TeamOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--team", help="The team, as module:attribute, instead of the project's agent files."
    ),
]
StrategyOption: TypeAlias = Annotated[
    Literal["rule", "semantic", "llm", "hybrid"] | None,
    Parameter(name="--strategy", help="How an agent is chosen; else as the settings say."),
]
ModelOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--model", help="The model, as provider:model, instead of the agents' own."),
]
AllowOption: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--allow",
        negative="",
        show_default=False,
        help="A tool that may run without asking; * is any. May be given more than once.",
    ),
]
ApproveOption: TypeAlias = Annotated[
    Literal["terminal", "inbox"],
    Parameter(
        name="--approve",
        help="Who is asked about tools that need a yes: whoever sits here, or the people who look "
        "into the inbox, for whom the session then waits.",
    ),
]
KeepGoingOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--keep-going",
        negative="",
        show_default=False,
        help="Leave out agent files that have errors, instead of stopping.",
    ),
]
TrustOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--trust",
        negative="",
        show_default=False,
        help="Trust the files of this folder, this once, without asking; or set EKIDEN_TRUST=1.",
    ),
]
UserOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--user",
        help="For whom: a new session is this user's, and so is what its agents remember; else "
        "the setting `user`.",
    ),
]
SessionArgument: TypeAlias = Annotated[
    str, Parameter(help="The session's id, or its beginning if no other begins so.")
]
MoreWords: TypeAlias = Annotated[str, Parameter(show=False)]
"""Further words where one text belongs: taken in order to explain what is wrong."""
JsonOption: TypeAlias = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")
]
NoWaitOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--no-wait",
        negative="",
        show_default=False,
        help="If another process has the session, fail at once.",
    ),
]
WaitOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--wait",
        negative="",
        show_default=False,
        help="If the session has to wait for people, stay, and go on when they have answered.",
    ),
]
WaitTimeoutOption: TypeAlias = Annotated[
    float | None,
    Parameter(
        name="--wait-timeout",
        validator=Number(gt=0, lte=1e9),
        help="The same, at most so many seconds for each answer.",
    ),
]
StreamOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--stream",
        negative="",
        show_default=False,
        help="Show what happens as it happens; with --json as one object per line.",
    ),
]

JsonLinesOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--json-lines",
        negative="",
        show_default=False,
        help="Print one JSON object per line.",
    ),
]

LimitOption: TypeAlias = Annotated[
    int | None,
    Parameter(name="--limit", validator=Number(gte=1, lte=1000), help="How many; all by default."),
]
WideOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--wide",
        negative="",
        show_default=False,
        help="Show all columns, whole ids and texts, and times of the clock, as in a pipe.",
    ),
]
CursorOption: TypeAlias = Annotated[
    str | None, Parameter(name="--cursor", help="Go on where the last page ended.")
]
LabelOption: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--label",
        negative="",
        show_default=False,
        help="What this place has, such as gpu, for agents that need it. May be given more than "
        "once.",
    ),
]
LogOption: TypeAlias = Annotated[
    Literal["text", "json", "none"],
    Parameter(name="--log", help="How the log is written, on standard error."),
]
