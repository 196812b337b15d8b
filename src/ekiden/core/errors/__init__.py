"""All errors of Ekiden. Each error has a stable `code`, and its message suggests a next step.

EkidenError
├── UserError                     the caller's code or configuration is at fault
│   ├── UnknownAgent
│   ├── AgentFilesInvalid
│   ├── SettingsInvalid
│   ├── UnknownSetting
│   ├── SettingsNotWritten
│   ├── FolderNotTrusted
│   ├── TrustNotStored
│   ├── UnknownTool
│   ├── ToolUnusable
│   ├── CallChanged
│   ├── CommandForgotten
│   ├── AnswerUnusable
│   ├── CompensationNotFindable
│   ├── RequestNotRecorded
│   ├── CodeNotDeterministic
│   └── ConditionError
├── RoutingError
│   └── NoRoute
├── HandoffError
│   ├── HandoffRefused
│   ├── HandoffNotFound
│   └── HandoffSettled
├── ModelBehaviorError            the model answered something that cannot be used
├── ModelError                    the provider failed
│   ├── ModelTimeout
│   └── ModelRefused              (only from `RunResult.raise_for_outcome`)
├── ToolError
│   ├── ToolTimeout
│   ├── ToolResultUnusable
│   └── McpUnavailable
├── GuardrailError                (in `guardrail_errors`)
├── OutOfBudgetError              (only from `RunResult.raise_for_outcome`)
│   └── MaxTurnsExceeded
├── SessionError
│   ├── SessionNotFound
│   ├── SessionExists
│   ├── SessionBusy
│   ├── SessionNotWaiting
│   └── LeaseLost
└── StoreError
    ├── StoreUnavailable
    │   └── StoreReadOnly
    ├── StoreEmpty
    ├── StoreTooNew
    ├── StoreTooOld
    ├── EngineTooOld
    ├── MigrationChanged
    ├── StepConflict
    ├── StaleDocument
    └── QueueFull
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from ekiden.core.text.wording import suggestion

_LISTED = 20
"""The maximum number of names or problems in a message."""


def _names(known: Collection[str]) -> str:
    """The known names for a message."""
    listed = ", ".join(sorted(known)[:_LISTED]) or "none"
    return f"{listed} and {len(known) - _LISTED} more" if len(known) > _LISTED else listed


class EkidenError(Exception):
    """Base class of all errors."""

    code: ClassVar[str] = "ekiden.error"
    run_data: Any = None
    """The `RunResult` of the run that this error ended, with the work so far. `None` if the error
    did not end a run."""


def error_names(exc: BaseException) -> list[str]:
    """The names of an error for programs: its class, its base classes, and its code."""
    kinds = [kind.__name__ for kind in type(exc).__mro__ if issubclass(kind, Exception)]
    return [*kinds, exc.code] if isinstance(exc, EkidenError) else kinds


class UserError(EkidenError):
    """The code or the configuration of the caller is wrong. The message describes the error."""

    code = "user.error"


class UnknownAgent(UserError):
    """A session or a request names an agent that is not in the team. Use a team that has this
    agent."""

    code = "agent.unknown"

    def __init__(
        self,
        name: str,
        *,
        known: Collection[str],
        refusal: str | None = None,
        handoff_id: str | None = None,
    ) -> None:
        """`refusal` is the code of a refused handoff from or to the agent; `handoff_id` is the id
        of its record."""
        super().__init__(
            f"no agent is called {name!r}; known: {_names(known)}{suggestion(name, known)}"
        )
        self.name = name
        self.refusal = refusal
        self.handoff_id = handoff_id


class AgentFilesInvalid(UserError):
    """Agent files have errors. `problems` lists the errors, each with file, line and column."""

    code = "agent.invalid"

    def __init__(self, problems: Sequence[object]) -> None:
        shown = [str(problem) for problem in problems[:_LISTED]]
        if len(problems) > _LISTED:
            shown.append(f"… and {len(problems) - _LISTED} more: `ekiden agents validate`")
        super().__init__("\n".join(["some agent files cannot be used:", *shown]))
        self.problems = problems


class SettingsInvalid(UserError):
    """Settings are wrong. `problems` lists the errors, each with file, line and column, or with the
    environment variable."""

    code = "settings.invalid"

    def __init__(self, problems: Sequence[Any]) -> None:
        shown = [str(problem) for problem in problems[:_LISTED]]
        if len(problems) > _LISTED:
            shown.append(f"… and {len(problems) - _LISTED} more")
        one = len(problems) == 1
        super().__init__(shown[0] if one else "\n".join(["some settings are invalid:", *shown]))
        self.problems = problems


class UnknownSetting(UserError):
    """No setting has this name. The message suggests similar names."""

    code = "settings.unknown"

    def __init__(self, name: str, *, near: Sequence[str] = (), known: Sequence[str] = ()) -> None:
        hint = (
            f"there are: {', '.join(known)}" if known else "`ekiden config list` lists all settings"
        )
        if near:
            hint = f"did you mean {' or '.join(map(repr, near))}? {hint}"
        super().__init__(f"no setting is called {name[:80]!r}; {hint}")
        self.name, self.near = name, near[0] if near else None


class SettingsNotWritten(UserError):
    """A settings file cannot be written: no permission, disk full, or locked by another process.
    The file is unchanged."""

    code = "settings.not_written"


class FolderNotTrusted(UserError):
    """Files in the folder import code, start programs, contact addresses, or turn approvals off.
    Check the lines in `risks`, then trust the folder."""

    code = "project.not_trusted"

    def __init__(self, folder: str, risks: Sequence[object], *, way_out: str) -> None:
        shown = [f"  {risk}" for risk in risks]
        super().__init__(
            "\n".join([f"{folder} is not trusted, so nothing was run; see:", *shown, way_out])
        )
        self.folder = folder
        self.risks = risks


class TrustNotStored(UserError):
    """The list of trusted folders cannot be read or written, or a newer Ekiden wrote it. The list
    is unchanged."""

    code = "trust.not_stored"


class UnknownTool(UserError):
    """A name in `tools.allow` is unknown: no registered or built-in tool, no tool in a module and
    no tool of an MCP server has this name. The message suggests a similar name, and explains how to
    name a function of your own."""

    code = "tool.unknown"

    def __init__(self, name: str, *, known: Collection[str], problem: str = "") -> None:
        own = "" if problem else "; name your own function as module:function"
        super().__init__(
            f"{problem or f'no tool is called {name!r}'}; known: {_names(known)}"
            f"{own}{suggestion(name, known)}"
        )
        self.name = name


class ToolUnusable(UserError):
    """The module of a tool cannot be imported, or the name in this module is not a tool. The
    message has the details."""

    code = "tool.unusable"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the tool {name!r} cannot be used: {problem}")
        self.name = name


class CommandForgotten(UserError):
    """Code of an agent or a tool called a method of its context, such as `ctx.call`, and did not
    await it, or made a handoff and did not return it. The message names the line. Add the `await`
    or the `return`, and resume the run."""

    code = "run.command_forgotten"

    def __init__(self, who: str, problems: Sequence[str]) -> None:
        super().__init__(f"{who} {'; '.join(problems[:_LISTED])}")


class AnswerUnusable(UserError):
    """An agent returned an answer without a JSON form, such as a lock. The message names the type.
    Return text, or a value that [has a JSON form](tools.md#results)."""

    code = "run.answer_unusable"

    def __init__(self, agent: str, problem: str) -> None:
        super().__init__(
            f"the answer of agent {agent!r} cannot be stored: {problem}; return text, or a value "
            "with a JSON form"
        )


class RequestNotRecorded(UserError):
    """The event is no model call, or the request of its model call was not recorded. The message
    names the model calls, or the reason."""

    code = "session.request_not_recorded"


class CompensationNotFindable(UserError):
    """`on_rollback` got a function that no process can find after a restart, such as a lambda, an
    inner function or a method of an object. Nothing was registered. Use a function at the top level
    of a module, and pass data as `arguments`."""

    code = "handoff.compensation_not_findable"

    def __init__(self, function: object, why: str) -> None:
        shown = getattr(function, "__qualname__", None) or type(function).__name__
        super().__init__(
            f"on_rollback cannot store {shown!r}: {why}, so no process could find it after a "
            "restart; define a function at the top level of a module, and pass what it needs as "
            "`arguments`"
        )


class CallChanged(UserError):
    """A tool call was started before an interruption and cannot be repeated as it was: the code
    makes another call now, or the tool has changed or is gone. Restore the earlier code, or answer
    the inbox item `item`.

    `before` is the call before the interruption. `item` is the id of an inbox item whose answer
    decides how the run continues. `item` is set only if the session is stored.
    """

    code = "run.call_changed"

    def __init__(
        self, agent: str, *, before: str, now: str, is_finished: bool, item: str | None = None
    ) -> None:
        state = "" if is_finished else ", the effect of this call is unknown"
        way_out = "bring the earlier code back" if item is None else f"answer inbox item {item}"
        super().__init__(
            f"agent {agent!r} called {before} before the interruption{state}, and {now}; {way_out}"
        )
        self.before, self.item = before, item


class CodeNotDeterministic(UserError):
    """Code that runs again asks for something else each time, for example because a question
    contains the current time. Use `ctx.now()`, `ctx.random()` and `ctx.uuid()`, whose values are
    stored, and resume the run."""

    code = "run.not_deterministic"

    def __init__(self, agent: str, what: str, *, changes: int) -> None:
        super().__init__(
            f"the code of agent {agent!r} was run again and {what} for the {changes + 1}th time "
            "differently at the same place: what code asks must not contain the current time or "
            "a random value; use ctx.now(), ctx.random() or ctx.uuid(), and resume the run"
        )


class ConditionError(UserError):
    """A condition cannot be parsed. The message shows the position of the error and suggests a fix.
    The facts are in `problem`, `text` and `position`."""

    code = "condition.invalid"

    def __init__(self, problem: str, *, text: str, position: int, excerpt: str = "") -> None:
        shown = f"\n{excerpt}" if excerpt else ""
        super().__init__(f"the condition cannot be used: {problem}{shown}")
        self.problem, self.text, self.position = problem, text, position
        """`position` counts characters from 0."""


class RoutingError(EkidenError):
    """A request could not be routed to an agent."""

    code = "route.failed"


class NoRoute(RoutingError):
    """No agent matches the request, and the setting `agents.routing.fallback` is `none`. Name an
    agent with `@name`, or set the fallback to `prompt_user` or `default_agent`."""

    code = "route.none"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; name an agent with @name, or set agents.routing.fallback to "
            "'prompt_user' or 'default_agent'"
        )
        self.reason = reason


class HandoffError(EkidenError):
    """A handoff could not be made or rolled back."""

    code = "handoff.failed"


class HandoffRefused(HandoffError):
    """The handoff was refused or rolled back. `refusal` is the code of the reason, such as
    `MAX_DEPTH_EXCEEDED`.

    The source agent keeps the conversation or gets it back.
    """

    code = "handoff.refused"

    def __init__(
        self, refusal: Any, message: str, *, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.refusal: Any = refusal
        self.details = details or {}


class HandoffNotFound(HandoffError):
    """No handoff has this id. See `ekiden handoff list`."""

    code = "handoff.not_found"

    def __init__(self, handoff_id: str) -> None:
        super().__init__(
            f"no handoff is called {handoff_id[:80]!r}; `ekiden handoff list` shows the handoffs"
        )
        self.handoff_id = handoff_id


class HandoffSettled(HandoffError):
    """The handoff cannot be cancelled, because it was already confirmed, refused or rolled back.
    `handoff` has the details."""

    code = "handoff.settled"

    def __init__(self, handoff_id: str, handoff: Mapping[str, Any]) -> None:
        super().__init__(f"handoff {handoff_id} is settled ({handoff['status']}) and is unchanged")
        self.handoff = handoff
        """The state of the handoff, as JSON."""


class ModelBehaviorError(EkidenError):
    """The model gave an unusable answer, or repeatedly requested something that does not exist.
    Change the instructions or the model, and resume the run."""

    code = "model.behavior"


class ModelError(EkidenError):
    """The model provider failed, and retries did not help. Resume the run later. `status` is the
    HTTP status."""

    code = "model.failed"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ModelTimeout(ModelError):
    """The model did not finish its answer within its timeout. Resume the run, or raise the setting
    `limits.model_seconds` (`RunConfig.model_timeout_s` in Python)."""

    code = "model.timeout"

    def __init__(self, model: str, timeout_s: float) -> None:
        super().__init__(
            f"{model} did not answer within {timeout_s:g} s; to wait longer, raise the setting "
            "`limits.model_seconds`, or `RunConfig.model_timeout_s` in Python"
        )


class ModelRefused(ModelError):
    """The model declined to answer. Only `RunResult.raise_for_outcome()` raises this error."""

    code = "model.refused"


class ToolError(EkidenError):
    """A tool failed. This error is raised in code that called the tool with `ctx.call`, and for a
    tool whose failure ends the run."""

    code = "tool.failed"


class ToolTimeout(ToolError):
    """A tool did not return within its timeout. The tool may have had side effects."""

    code = "tool.timeout"

    def __init__(self, tool: str, timeout_s: float) -> None:
        super().__init__(f"tool {tool!r} did not finish within {timeout_s:g} s")


class ToolResultUnusable(ToolError):
    """A tool was called, and returned a value without a JSON form, such as a lock. The tool may
    have had its effect, so the call is not repeated. Let the tool return text, or a value that
    [has a JSON form](tools.md#results)."""

    code = "tool.result_unusable"

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(
            f"the call of tool {tool!r} was made and may have had its effect, but its result "
            f"cannot be shown: {problem}; do not repeat the call (the tool has to return text, or "
            "a value with a JSON form)"
        )


class McpUnavailable(ToolError):
    """An MCP server cannot be started or reached, or it stopped. The message ends with the last
    lines of the server's standard error."""

    code = "mcp.unavailable"

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"the MCP server {server!r} cannot be used: {problem}")
        self.server = server


class OutOfBudgetError(EkidenError):
    """A limit of tokens, seconds or money was reached. The work is kept. Resume the run with a
    higher limit. Only `RunResult.raise_for_outcome()` raises this error."""

    code = "run.out_of_budget"

    def __init__(self, limit: str, allowed: float, used: float, *, scope: str = "run") -> None:
        whose, way = _LIMITED.get(scope, _LIMITED["run"])
        super().__init__(
            f"{whose.format(allowed=allowed, limit=limit)} (used {used:g}); its work is kept: "
            f"{way.format(limit=limit)}"
        )
        self.limit, self.allowed, self.used, self.scope = limit, allowed, used, scope


_LIMITED = {
    "run": (
        "the run reached its limit of {allowed:g} {limit}",
        "resume it with a higher limit (--max-{limit}, max_{limit} over HTTP)",
    ),
    "agent": (
        "the agent used up its budget of {allowed:g} {limit}",
        "raise its budget (`budget` of its file, or the setting limits.agents), and resume it",
    ),
    "handoff": (
        "the handoff's budget of {allowed:g} {limit} is used up",
        "send another message, which starts a new run, or raise `budget` of the handoff",
    ),
    "tenant": (
        "all runs of the tenant reached their limit of {allowed:g} {limit} a day",
        "resume it on another day (UTC), or raise the setting limits.tenants first",
    ),
}
"""By the scope of the limit: what was reached, and what to do."""


class MaxTurnsExceeded(OutOfBudgetError):
    """The run reached its limit of model turns. Resume the run with a higher limit."""

    code = "run.max_turns"


class SessionError(EkidenError):
    """Base class of session errors. `session_id` names the session."""

    code = "session.error"

    def __init__(self, message: str, *, session_id: str) -> None:
        super().__init__(message)
        self.session_id = session_id


class SessionNotWaiting(SessionError):
    """The session is not waiting for a person. Send it a message, or hand it off to a person."""

    code = "session.not_waiting"

    def __init__(self, session_id: str, *, agent: str) -> None:
        super().__init__(
            f"session {session_id!r} does not wait for a person: {agent!r} has it; send it a "
            "message, or hand it to people",
            session_id=session_id,
        )


class SessionNotFound(SessionError):
    """No session has this id. See `ekiden session list`."""

    code = "session.not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"no session is called {session_id!r}; `ekiden session list` shows the sessions",
            session_id=session_id,
        )


class SessionExists(SessionError):
    """A session with this id already exists."""

    code = "session.exists"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"a session called {session_id!r} exists already", session_id=session_id)


class SessionBusy(SessionError):
    """Another run is using the session. Wait, or use `on_busy="wait"`."""

    code = "session.busy"

    def __init__(self, session_id: str, *, owner: str, free_in_s: float) -> None:
        super().__init__(
            f"session {session_id!r} is being run by {owner!r}, whose lease lasts another "
            f"{max(free_in_s, 0):.1f} s; try again later, or let the run wait for it "
            "(on_busy='wait', or leave out --no-wait)",
            session_id=session_id,
        )
        self.owner, self.free_in_s = owner, free_in_s


class LeaseLost(SessionError):
    """Another process may have taken over the session. Nothing was written. Run or resume the
    session again."""

    code = "session.lease_lost"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"the lease on session {session_id!r} is lost: another process may have it; "
            "nothing was written, run or resume the session again",
            session_id=session_id,
        )


class StoreError(EkidenError):
    """Base class of store errors."""

    code = "store.error"


class StoreUnavailable(StoreError):
    """The database is unreachable, full or failing. Acknowledged data is safe. Try again."""

    code = "store.unavailable"
    is_disconnected = False
    """Whether the connection to the database is lost. A later attempt may succeed."""


class StoreReadOnly(StoreUnavailable):
    """The store is read-only. Check that the operating system user may write to it."""

    code = "store.read_only"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} is read-only: {why}; check that this user may write to it, or use another"
        )


class StoreEmpty(StoreError):
    """The file or database does not contain a store. Restore it from a backup, or use another
    address."""

    code = "store.empty"

    def __init__(self, where: str, found: str) -> None:
        super().__init__(
            f"{where} is empty: {found}; restore it from a backup, or name another store; "
            "`ekiden run` and `ekiden serve` create a new one there"
        )


class StoreDamaged(StoreError):
    """Stored data cannot be read. `ekiden store verify` shows the damaged data. Restore a
    backup."""

    code = "store.damaged"

    def __init__(self, where: str, found: object) -> None:
        super().__init__(
            f"stored data in {where} cannot be read ({found}): `ekiden store verify` shows "
            "where; restore it from a backup"
        )
        self.found = found


class StoreTooNew(StoreError):
    """A newer version of Ekiden wrote this store in an incompatible format. Upgrade Ekiden in every
    process."""

    code = "store.too_new"

    def __init__(self, where: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{where} has format {found}, but this Ekiden supports only format {known}: "
            "upgrade Ekiden (pip install -U ekiden) in every process that uses the store, or "
            "open another one"
        )
        self.found, self.known = found, known


class StoreTooOld(StoreError):
    """A development version before 0.1.0 wrote this store. Export its sessions with that version,
    and import them into a new store."""

    code = "store.too_old"

    def __init__(self, where: str, *, found: int, oldest: int) -> None:
        super().__init__(
            f"{where} has format {found}, and this Ekiden opens format {oldest} and newer: export "
            "its sessions with the version that wrote it (`ekiden session export`) and import them "
            "into a new store (`ekiden session import`)"
        )
        self.found, self.oldest = found, oldest


class EngineTooOld(StoreError):
    """This version of the database engine can lose data, or lacks a required feature. Upgrade the
    engine."""

    code = "store.engine_too_old"

    def __init__(self, engine: str, *, found: str, needed: str, advice: str) -> None:
        super().__init__(f"{engine} {found} is too old, {needed} or newer is needed: {advice}")


class MigrationChanged(StoreError):
    """The store or the installation of Ekiden was altered. Reinstall Ekiden, or restore the
    store."""

    code = "store.migration_changed"

    def __init__(self, where: str, number: int) -> None:
        super().__init__(
            f"migration {number} of {where} differs from the one shipped with this Ekiden: "
            "the store or the installation was altered; reinstall Ekiden or restore the store"
        )


class StepConflict(StoreError):
    """The step or event is already stored, and is not stored a second time."""

    code = "store.step_conflict"


class StaleDocument(StoreError):
    """The document has changed since the caller read it. Read it again."""

    code = "document.stale"

    def __init__(self, collection: str, key: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"document {collection}/{key} has version {found}, expected {expected}: read it again"
        )
        self.expected, self.found = expected, found


class QueueFull(StoreError):
    """A bounded queue is full. Try again later."""

    code = "queue.full"

    def __init__(self, queue: str, bound: int) -> None:
        super().__init__(f"queue {queue!r} is full ({bound} messages); try again later")
