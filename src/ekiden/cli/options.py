"""Options that several commands share, how their values are read, and how a page is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.api.methods.values import AGO, PAGE, UNITS, Pages, read_moment
from ekiden.cli.errors import UsageError
from ekiden.cli.output import Table, emit, note, print_table, say
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    from ekiden.api.runs import LimitOptions


def about(text: str, **options: Any) -> Parameter:
    """Describe a parameter of a command. `options` are bounds of a number (`gt`, `gte`, `lte`), and
    options of cyclopts."""
    bounds = {each: options.pop(each) for each in ("gt", "gte", "lte") if each in options}
    if bounds:
        options["validator"] = Number(**bounds)
    return Parameter(help=text, **options)


_LONGEST_S: Final = timedelta(days=30 * 365).total_seconds()

STATUS = ("--status", "--state")
"""The names of the status filter of lists; help pages omit the second, older one."""


def json_or_text(text: str | None) -> Any:
    """The value of `text` if it is JSON, else `text` itself."""
    if text is None:
        return None
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text


def json_object(text: str | None, option: str, *, example: str) -> dict[str, Any] | None:
    """A JSON object; `UsageError`, which shows the `example`, for anything else."""
    value = json_or_text(text)
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"{option} must be a JSON object, such as {example}")
    return value


def moment(text: str | None, *, option: str, now: datetime | None = None) -> datetime | None:
    """The time in `text`: a date, a date with a time, or how long ago, such as ``2h``.

    Without a time zone it is the machine's own. `UsageError` for anything else.
    """
    if text is None:
        return None
    try:
        return read_moment(text, now=now)
    except (ValueError, OverflowError) as exc:
        raise UsageError(
            f"{option} {text[:40]!r} is not a time; give a date, such as 2025-03-01 or "
            "2025-03-01T14:30, or how long ago: 90s, 30m, 2h, 7d or 4w"
        ) from exc


def ahead(text: str, *, what: str, now: datetime | None = None) -> float:
    """The seconds from now until the time in `text`: ``90s``, ``2h``, or a future time.

    `UsageError` for anything else.
    """
    now = (now or datetime.now()).astimezone()
    span = AGO.fullmatch(text)
    try:
        if span is not None:
            seconds = timedelta(**{UNITS[span[2]]: int(span[1])}).total_seconds()
        else:
            seconds = (read_moment(text) - now).total_seconds()
    except (ValueError, OverflowError) as exc:
        raise UsageError(
            f"{what} {text[:40]!r} is not a future time; give how long: 90s, 30m, 2h, 7d or "
            "4w, or a date with a time, such as 2030-03-01T14:30"
        ) from exc
    if seconds <= 0:
        raise UsageError(f"{what} {text[:40]!r} is in the past")
    if seconds > _LONGEST_S:
        raise UsageError(f"{what} {text[:40]!r} is too far away; give a time within 30 years")
    return seconds


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFlags:
    """The limits of a run; stored with the run, so they also apply when it is resumed."""

    max_turns: Annotated[
        int | None,
        about(
            "Stop after this many turns. Default: the setting `limits.turns`.", gte=1, lte=10_000
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        about(
            "Stop after this many tokens. Default: the setting `limits.tokens`.",
            gte=1,
            lte=1_000_000_000_000,
        ),
    ] = None
    max_money: Annotated[
        float | None,
        about(
            "Stop when the model calls have cost this amount of money. Default: the setting "
            "`limits.money`.",
            gt=0,
            lte=1e9,
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        about(
            "Stop after this many seconds of work. Default: the setting `limits.seconds`.",
            gt=0,
            lte=1e9,
        ),
    ] = None

    def options(self) -> LimitOptions:
        """The limits as parameters of the interface."""
        return {
            "max_turns": self.max_turns,
            "max_tokens": self.max_tokens,
            "max_money": self.max_money,
            "max_seconds": self.max_seconds,
        }

    def by_name(self) -> dict[str, float | None]:
        """The limits by the names that the runtime uses, without `max_`."""
        return {name.removeprefix("max_"): limit for name, limit in asdict(self).items()}


NO_LIMITS = LimitFlags()


STORE_HELP: Final = (
    "Session store: a path, sqlite:///path, postgresql://… or memory:. Default: the environment "
    "variable EKIDEN_STORE, otherwise the setting `store` (.ekiden/ekiden.db)."
)
StoreOption: TypeAlias = Annotated[
    str | None, about(STORE_HELP, env_var="EKIDEN_STORE", show_env_var=False)
]
TeamOption: TypeAlias = Annotated[
    str | None,
    about(
        "Use this team, written as module:attribute. Default: the setting `team`, or the "
        "project's agent files."
    ),
]
StrategyOption: TypeAlias = Annotated[
    Literal["rule", "semantic", "llm", "hybrid"] | None,
    about("Routing strategy. Default: the setting `agents.routing.strategy`."),
]
ModelOption: TypeAlias = Annotated[
    str | None,
    about(
        "Use this model for all agents, written as provider:model. Default: each agent's own model."
    ),
]
AllowOption: TypeAlias = Annotated[
    tuple[str, ...],
    about("Let this tool run without approval; * means all tools. You can repeat this option."),
]
KeepGoingOption: TypeAlias = Annotated[
    bool,
    about("Skip agent files that have errors. Without this option, an error stops the command."),
]
TrustOption: TypeAlias = Annotated[
    bool,
    about(
        "Trust the files of this folder without asking, for this command only. The "
        "environment variable EKIDEN_TRUST=1 does the same."
    ),
]
UserOption: TypeAlias = Annotated[
    str | None,
    about(
        "User of a new session. Agents use the memories of this user. Default: the setting `user`."
    ),
]
PriorityName: TypeAlias = Literal["low", "normal", "high", "urgent"]
SessionArgument: TypeAlias = Annotated[str, about("Session id, or a unique prefix of it.")]
SessionOrNewest: TypeAlias = Annotated[
    str | None, about("Session id, or a unique prefix of it. Default: the newest session.")
]
SessionToContinue: TypeAlias = Annotated[
    str | None,
    about("Id of the session to continue. If no session has this id, a new session is started."),
]
SinceOption: TypeAlias = Annotated[
    str | None,
    about(
        "Only entries since this time. Give a date, a date with a time, or a time span such "
        "as 2h for the last two hours."
    ),
]
UntilOption: TypeAlias = Annotated[
    str | None, about("Only entries before this time, in the same format as for --since.")
]
AfterOption: TypeAlias = Annotated[
    str | None, about('Start after the event with this id. Give "" to start with the first event.')
]
ByOption: TypeAlias = Annotated[
    str | None,
    about("Your name, which is recorded. Default: the name of your account on this machine."),
]
OutputOption: TypeAlias = Annotated[
    Path | None, about("New file to write to. Default: standard output.", name=("--output", "-o"))
]
YesOption: TypeAlias = Annotated[
    bool, about("Do not ask for confirmation. Required if there is no terminal.")
]
MoreWords: TypeAlias = Annotated[str, Parameter(show=False)]
"""Extra words after a text: parsed only so that the error can show how to quote them."""
JsonOption: TypeAlias = Annotated[bool, about("Print JSON.", name="--json")]
NoWaitOption: TypeAlias = Annotated[
    bool, about("If another process is running the session, fail at once instead of waiting.")
]
JsonLinesOption: TypeAlias = Annotated[bool, about("Print one JSON object per line.")]
LimitOption: TypeAlias = Annotated[
    int | None, about("Maximum number of entries. Default: all entries.", gte=1, lte=1000)
]
WideOption: TypeAlias = Annotated[
    bool,
    about(
        "Show all columns, full ids and texts, and exact times. Output to a pipe always has "
        "this form."
    ),
]
LabelOption: TypeAlias = Annotated[
    tuple[str, ...],
    about(
        "Label of this server or worker, such as gpu. Agents that require a label run only "
        "where that label is set. You can repeat this option."
    ),
]
LogOption: TypeAlias = Annotated[
    Literal["text", "json", "none"], about("Format of the log on standard error.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TeamFlags:
    """The options of commands that run a team."""

    team: TeamOption = None
    model: ModelOption = None
    keep_going: KeepGoingOption = False
    trust: TrustOption = False


TEAM = TeamFlags()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags(TeamFlags):
    """The options of commands that run a session and show the run."""

    allow: AllowOption = ()
    approve: Annotated[
        Literal["terminal", "inbox"],
        about(
            "Where to ask for the approval of tool calls: on this terminal, or in the inbox. "
            "With `inbox`, the session waits until the inbox item is answered."
        ),
    ] = "terminal"
    wait: Annotated[
        bool,
        about("If the session needs an answer from a person, wait for the answer and continue."),
    ] = False
    wait_timeout: Annotated[
        float | None,
        about("Like --wait, but wait at most this many seconds for each answer.", gt=0, lte=1e9),
    ] = None
    limits: LimitFlags = NO_LIMITS
    no_wait: NoWaitOption = False
    stream: Annotated[
        bool, about("Show events as they happen. With --json, print one object per line.")
    ] = False
    as_json: JsonOption = False


RUN = RunFlags()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFlags(TeamFlags):
    """The options of `ekiden chat`."""

    session: SessionToContinue = None
    resume: Annotated[bool, about("Choose the session from a list.")] = False
    newest: Annotated[bool, about("Continue the newest session.", name="--continue")] = False
    user: UserOption = None
    strategy: StrategyOption = None
    allow: AllowOption = ()
    limits: LimitFlags = NO_LIMITS
    as_json: JsonOption = False

    @property
    def goes_on(self) -> bool:
        """Whether an earlier session is continued, so that its last messages are shown first."""
        return self.resume or self.newest or self.session is not None


CHAT = ChatFlags()

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The options of a list that may be long."""

    limit: Annotated[
        int | None,
        about(
            "Maximum number of entries. Default: 50; with --json-lines, all entries.",
            gte=1,
            lte=1000,
        ),
    ] = None
    cursor: Annotated[
        str | None,
        about("Show the next page. Give the cursor that was printed with the previous page."),
    ] = None
    wide: WideOption = False
    json_lines: JsonLinesOption = False
    as_json: JsonOption = False

    usual: ClassVar[int | None] = PAGE
    """The number of entries without `--limit`; `None`: all."""

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON."""
        return self.as_json or self.json_lines

    async def show(
        self, found: Pages[T], table: Callable[[Sequence[T]], Table], *, none: str
    ) -> Sequence[T]:
        """Print a page, or `none`, and print on standard error where the next one begins."""
        from ekiden.core.documents import to_json

        wanted = self.limit or (None if self.json_lines else self.usual)
        if self.json_lines and wanted is None:
            async for each in found.rest(cursor=self.cursor):
                emit(to_json(each))
            return ()
        items, cursor = await _first(found, wanted, self.cursor)
        if self.json_lines:
            for each in items:
                emit(to_json(each))
        elif self.as_json:
            emit(to_json(items))
        elif items:
            print_table(*table(items), wide=self.wide)
        else:
            say(none)
        if cursor is not None:
            note(dumps({"next_cursor": cursor}) if self.is_json else f"more: --cursor {cursor}")
        return items


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WholeListing(Listing):
    """The options of a list whose entries are all shown by default."""

    limit: LimitOption = None

    usual: ClassVar[int | None] = None


LISTING = Listing()
WHOLE = WholeListing()


async def _first(
    found: Pages[T], wanted: int | None, cursor: str | None
) -> tuple[list[T], str | None]:
    """The first `wanted` entries, `None` for all, and the cursor of the next one."""
    items: list[T] = []
    while True:
        # A page can be shorter than its limit: the store filters a bounded number of rows.
        room = 1000 if wanted is None else wanted - len(items)
        page = await found.page(limit=room, cursor=cursor)
        items += page.items
        cursor = page.next_cursor
        if cursor is None or len(items) == wanted:
            return items, cursor
