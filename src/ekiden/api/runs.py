"""Runs, which start with a message to the team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.methods.called import AsyncStream, Called, calls, lists, streams
from ekiden.api.methods.endpoint import Param, SessionId, endpoint, filter_by, identifier, name_of
from ekiden.api.methods.values import MOST_EVENTS, ONE_LINE, SAID, SESSION_ID, Pages
from ekiden.api.state import VariableName
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event
from ekiden.core.runs import Run, RunError as RunError, RunStarted, RunStatus as RunStatus
from ekiden.core.values import Priority
from ekiden.routing.decision import Strategy
from ekiden.sessions.state import MAX_VARIABLES

Shown: TypeAlias = RunStarted | Event | ModelDelta | Run
"""The values of a stream, in this order: `RunStarted` (if the stream starts a run), events and
pieces of answers, and finally the `Run`."""
Until: TypeAlias = Literal["pause", "outcome"]

_TEXT: Final = {"type": "string", "minLength": 1}
_PART: Final = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"type": "string"},
        "text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
ITEM: Final[Mapping[str, Any]] = {
    "type": "object",
    "anyOf": [
        {
            "description": "A message.",
            "required": ["role", "content"],
            "properties": {
                "type": {"enum": ["message", None]},
                "role": {"enum": ["user", "assistant", "system", "developer"]},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}]},
            },
        },
        {
            "description": "A tool call.",
            "required": ["type", "call_id", "name"],
            "properties": {
                "type": {"const": "function_call"},
                "call_id": _TEXT,
                "name": _TEXT,
                "arguments": {"type": "string"},
            },
        },
        {
            "description": "The output of a tool.",
            "required": ["type", "call_id", "output"],
            "properties": {
                "type": {"const": "function_call_output"},
                "call_id": _TEXT,
                "output": {},
            },
        },
        {
            "description": "Any other item has its `type`.",
            "required": ["type"],
            "properties": {
                "type": {
                    **_TEXT,
                    "not": {"enum": ["message", "function_call", "function_call_output"]},
                }
            },
        },
    ],
    "examples": [{"role": "user", "content": "Where is my order 1042?"}],
}
"""One item of a conversation, in the format of the OpenAI Responses API. The function `item_fault`
explains why an item is invalid."""

_Text: TypeAlias = Annotated[str, Param("", min_length=1, max_length=1_000_000, pattern=SAID)]
_Item: TypeAlias = Annotated[Mapping[str, Any], Param("", schema=ITEM)]
_Items: TypeAlias = Annotated[Sequence[_Item], Param("", min_length=1, max_length=20_000)]
Input: TypeAlias = Annotated[
    _Text | _Items,
    Param(
        "The message: a text, or items in the format of the OpenAI Responses API. Without the "
        "scope `history`, only user messages are stored as messages. All other items are quoted as "
        "data.",
        examples=("Where is my order 1042?",),
    ),
]
RunId: TypeAlias = Annotated[
    str, Param("`SESSION:NUMBER`.", min_length=3, max_length=140, pattern=SESSION_ID)
]
_Timeout: TypeAlias = Annotated[
    float | None,
    Param(
        "Seconds to wait for the end of the run. After this time, the status is 202.", gt=0, le=600
    ),
]
_After: TypeAlias = Annotated[
    int | None, Param("The number of the last known event.", ge=0, le=MOST_EVENTS)
]


class LimitOptions(TypedDict, total=False):
    """The limits of a run.

    A limit stays in effect, in every process that continues the run, until a caller sets another
    value. A missing limit is not changed. Missing limits come from the settings for a new run, and
    for a run that is out of budget and is resumed.
    """

    max_turns: Annotated[
        int | None, Param("Stop the run after this many turns of the agents.", ge=1, le=10_000)
    ]
    max_tokens: Annotated[
        int | None,
        Param(
            "Stop the run after its model calls used this many tokens.", ge=1, le=1_000_000_000_000
        ),
    ]
    max_money: Annotated[
        float | None,
        Param(
            "Stop the run after its model calls cost this amount, in the currency of the prices.",
            gt=0,
            le=1e9,
        ),
    ]
    max_seconds: Annotated[
        float | None,
        Param(
            "Stop the run after this many seconds of work. Waiting for people does not count.",
            gt=0,
            le=1e9,
        ),
    ]


def limits_of(options: Mapping[str, Any]) -> dict[str, float]:
    """The limits that the caller set in the options, by name."""
    return {
        name.removeprefix("max_"): options[name]
        for name in LimitOptions.__annotations__
        if options.get(name) is not None
    }


class StartOptions(LimitOptions, total=False):
    """The options of a message. For a missing option, the default of the team applies."""

    session_id: Annotated[
        str | None,
        identifier("The id of the session to continue or to start. Default: a new session."),
    ]
    agent: Annotated[
        str | None,
        name_of(
            "The recipient: an agent's name, or `auto` for the router. Default: the current agent "
            "of the session."
        ),
    ]
    strategy: Annotated[Strategy | None, Param("The routing strategy.")]
    variables: Annotated[
        Mapping[VariableName, Any] | None,
        Param(
            "Variables of the session that are set together with the message. Agents see them from "
            "the first step on.",
            max_length=MAX_VARIABLES,
            examples=({"tier": "gold"},),
        ),
    ]
    user_id: Annotated[
        str | None,
        Param("The user of a new session.", min_length=1, max_length=500, pattern=ONE_LINE),
    ]
    title: Annotated[str | None, Param("The title of a new session.", max_length=200)]
    correlation_id: Annotated[str | None, name_of("The correlation id of a new session.")]
    priority: Annotated[
        Priority | None,
        Param(
            "The priority of a new session. Sessions of higher priority run first.",
            default="normal",
        ),
    ]
    on_busy: Annotated[
        Literal["refuse", "wait"] | None,
        Param("What to do if another process is running the session.", default="refuse"),
    ]


class RunsApi(Protocol):
    """Messages to the team, and the runs that they start.

    `run`, `stream` and `start` raise `SessionBusy` and `UnknownAgent`. Methods raise `RunNotFound`
    or `SessionNotFound` for an unknown run or session.
    """

    @endpoint(
        "POST",
        "/runs",
        scope="run",
        problems=(404, 409, 413),
        body="NewRun",
        pending="The run continues.",
    )
    async def run(
        self, input: Input, *, timeout_s: _Timeout = None, **options: Unpack[StartOptions]
    ) -> Run:
        """Send a message to the team, and wait until the run is finished or needs an answer from a
        person.

        The message is stored before the response is sent. The run survives a lost connection, and a
        crash of the client or the server. With an `Idempotency-Key`, a repeated request does not
        start a second run.
        """
        ...

    @endpoint("POST", "/runs", scope="run", problems=(404, 409, 413), flag="stream")
    def stream(self, input: Input, **options: Unpack[StartOptions]) -> AsyncStream[Shown]:
        """Send a message and stream the run as server-sent events. The header `Accept` can also
        request the stream.

        Yields `RunStarted`, then events and pieces of answers, and finally the `Run`. The run
        starts when you first read from the stream, and continues if you stop reading. If the
        connection is lost, the stream reconnects.
        """
        ...

    @endpoint("POST", "/runs", scope="run", problems=(404, 409, 413), flag="background")
    async def start(self, input: Input, **options: Unpack[StartOptions]) -> Run:
        """Send a message without waiting for the end of the run. The status is 202."""
        ...

    @endpoint("GET", "/runs", scope="read", most=200)
    def list(
        self,
        *,
        status: Annotated[
            Literal["idle", "ready", "waiting"] | None,
            Param("Only runs whose session has this status."),
        ] = None,
        agent: Annotated[
            str | None, filter_by("Only runs of sessions that this agent handles now.")
        ] = None,
        user: Annotated[str | None, filter_by("Only runs of this user.", max_length=500)] = None,
    ) -> Pages[Run]:
        """List the last run of each session, newest session first."""
        ...

    @endpoint("GET", "/runs/{run_id}", scope="read", problems=(404,))
    async def get(
        self,
        run_id: RunId,
        *,
        wait_s: Annotated[
            float,
            Param(
                "Seconds to wait for the end of the run before the response is sent.", ge=0, le=600
            ),
        ] = 0,
    ) -> Run:
        """Get the state of a run, either now or as soon as no process works on the run."""
        ...

    async def wait(self, run_id: str) -> Run:
        """Wait until no process works on the run, and return the state of the run."""
        return await ended(self, await self.get(run_id))

    @endpoint("GET", "/runs/{run_id}/events", scope="read", problems=(404,))
    def follow(
        self,
        run_id: RunId,
        *,
        after: _After = None,
        until: Annotated[
            Until,
            Param(
                "When the stream ends: as soon as no process works on the run, for example because "
                "it waits for a person, or only when the run has an outcome."
            ),
        ] = "pause",
    ) -> AsyncStream[Shown]:
        """Follow a run to its end. The stream has all events of the run (with `after`, only the
        events with higher numbers), and finally the `Run`."""
        ...

    @endpoint("POST", "/runs/{run_id}/cancel", scope="run", problems=(404, 409))
    async def cancel(self, run_id: RunId) -> Run:
        """Stop a run. Its work is kept, and you can resume the run. A finished run does not
        change."""
        ...

    @endpoint(
        "POST",
        "/sessions/{session_id}/resume",
        scope="run",
        problems=(404, 409),
        body="ResumeRun",
        pending="The run continues.",
    )
    async def resume_and_wait(
        self,
        session_id: SessionId,
        *,
        timeout_s: _Timeout = None,
        **limits: Unpack[LimitOptions],
    ) -> Run:
        """Resume a run that was stopped, failed, or ran out of budget. You can set higher limits.

        A run that waits for a person resumes by itself after the answer.
        """
        ...

    @endpoint(
        "POST", "/sessions/{session_id}/resume", scope="run", problems=(404, 409), flag="background"
    )
    async def resume(self, session_id: SessionId, **limits: Unpack[LimitOptions]) -> Run:
        """Resume a run without waiting for its end. The status is 202."""
        ...

    @endpoint("GET", "/sessions/{session_id}/stream", scope="read", problems=(404,))
    def follow_session(
        self, session_id: SessionId, *, after: _After = None
    ) -> AsyncStream[Event | ModelDelta]:
        """Follow a session through all its runs. The stream has all events after the event with the
        number `after`."""
        ...


async def ended(runs: RunsApi, run: Run) -> Run:
    """Wait until no process works on the run, and return the run."""
    if run.is_active:
        async with runs.follow(run.run_id) as shown:
            async for each in shown:
                if isinstance(each, Run):
                    return each
    return run


class CalledRuns(Called):
    """`RunsApi` for synchronous code."""

    run = calls(RunsApi.run)
    stream = streams(RunsApi.stream)
    start = calls(RunsApi.start)
    list = lists(RunsApi.list)
    get = calls(RunsApi.get)
    wait = calls(RunsApi.wait)
    follow = streams(RunsApi.follow)
    cancel = calls(RunsApi.cancel)
    resume_and_wait = calls(RunsApi.resume_and_wait)
    resume = calls(RunsApi.resume)
    follow_session = streams(RunsApi.follow_session)
