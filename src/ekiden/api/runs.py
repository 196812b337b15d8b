"""Runs: say something to the team, and watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.called import Called, calls, lists, streams
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.streams import AsyncStream
from ekiden.api.texts import MOST_EVENTS, ONE_LINE, PLAIN, SESSION_ID
from ekiden.core.conversation.messages import Priority
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.events import Event
from ekiden.core.runs import Begun, Run
from ekiden.core.runs import RunError as RunError
from ekiden.core.runs import RunStatus as RunStatus
from ekiden.routing.decision import Strategy

Shown: TypeAlias = Begun | Event | ModelDelta | Run
"""What a stream shows: that the run is begun (if the stream begins one), what happened, pieces of
answers while they are made, and at the end the run."""
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
            "description": "What somebody said.",
            "required": ["role", "content"],
            "properties": {
                "type": {"enum": ["message", None]},
                "role": {"enum": ["user", "assistant", "system", "developer"]},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}]},
            },
        },
        {
            "description": "That a tool was called.",
            "required": ["type", "call_id", "name"],
            "properties": {
                "type": {"const": "function_call"},
                "call_id": _TEXT,
                "name": _TEXT,
                "arguments": {"type": "string"},
            },
        },
        {
            "description": "What a tool gave.",
            "required": ["type", "call_id", "output"],
            "properties": {
                "type": {"const": "function_call_output"},
                "call_id": _TEXT,
                "output": {},
            },
        },
        {
            "description": "Anything else says its `type`.",
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
"""One item of a conversation, as the OpenAI Responses API has them; `item_fault` says what is wrong
with one."""

_Text: TypeAlias = Annotated[str, Told("", min_length=1, max_length=1_000_000)]
_Item: TypeAlias = Annotated[Mapping[str, Any], Told("", schema=ITEM)]
_Items: TypeAlias = Annotated[Sequence[_Item], Told("", min_length=1, max_length=20_000)]
Input: TypeAlias = Annotated[
    _Text | _Items,
    Told(
        "What to say: a text, or items as the OpenAI Responses API has them. Without the scope "
        "`history` only messages of the user are stored as such; the rest is quoted as data.",
        examples=("Where is my order 1042?",),
    ),
]
RunId: TypeAlias = Annotated[
    str, Told("`SESSION:NUMBER`.", min_length=3, max_length=140, pattern=SESSION_ID)
]
_SessionId: TypeAlias = Annotated[
    str, Told("The session's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
_Timeout: TypeAlias = Annotated[
    float | None, Told("How long to wait for the end; then it is 202.", gt=0, le=600)
]
_After: TypeAlias = Annotated[
    int | None, Told("The number of the last event that is known.", ge=0, le=MOST_EVENTS)
]


class LimitOptions(TypedDict, total=False):
    """What a run may use. A limit holds until another is given, wherever the run goes on; what is
    not given is as it was, or as the settings have it."""

    max_turns: Annotated[int | None, Told("How many turns the agents may take.", ge=1, le=10_000)]
    max_tokens: Annotated[
        int | None,
        Told("How many tokens its model calls may use.", ge=1, le=1_000_000_000_000),
    ]
    max_money: Annotated[
        float | None,
        Told("What its model calls may cost, in the currency of the prices.", gt=0, le=1e9),
    ]
    max_seconds: Annotated[
        float | None,
        Told("How long may be worked on it; waiting for people does not count.", gt=0, le=1e9),
    ]


def limits_of(options: Mapping[str, Any]) -> dict[str, float]:
    """The limits among some options, by name; what is `None` is left out."""
    return {
        name.removeprefix("max_"): options[name]
        for name in LimitOptions.__annotations__
        if options.get(name) is not None
    }


class StartOptions(LimitOptions, total=False):
    """How something is said; what is not given, or `None`, is as the team has it."""

    session_id: Annotated[
        str | None,
        Told(
            "Go on in this session, or begin it; without it, a new one.",
            min_length=1,
            max_length=128,
            pattern=SESSION_ID,
        ),
    ]
    agent: Annotated[
        str | None,
        Told(
            "Who gets it: a name, or `auto` for the router; else who has the session.",
            min_length=1,
            max_length=200,
            pattern=ONE_LINE,
        ),
    ]
    strategy: Annotated[Strategy | None, Told("How the router chooses.")]
    user_id: Annotated[
        str | None,
        Told("Whose a new session is.", min_length=1, max_length=500, pattern=ONE_LINE),
    ]
    title: Annotated[str | None, Told("Of a new session.", max_length=200)]
    correlation_id: Annotated[
        str | None,
        Told(
            "Of a new session: what it belongs to.",
            min_length=1,
            max_length=200,
            pattern=ONE_LINE,
        ),
    ]
    priority: Annotated[
        Priority | None,
        Told("Of a new session: the more important ones are run first.", default="normal"),
    ]
    on_busy: Annotated[
        Literal["refuse", "wait"] | None,
        Told("If somebody else runs the session.", default="refuse"),
    ]


class Runs(Protocol):
    """What is said to the team, and what comes of it.

    `run`, `stream` and `start` raise `SessionBusy` and `UnknownAgent`; what names a run or a
    session that is not there, `RunNotFound` and `SessionNotFound`.
    """

    @endpoint(
        "POST",
        "/runs",
        scope="run",
        problems=(404, 409, 413),
        body="NewRun",
        pending="The run goes on.",
    )
    async def run(
        self, input: Input, *, timeout_s: _Timeout = None, **options: Unpack[StartOptions]
    ) -> Run:
        """Send a message to the team, and wait until the run is finished or waits for people.

        The message is stored before this answers, and the run goes on whatever becomes of the
        connection, the client or the server. With an `Idempotency-Key` it is said once, however
        often it is sent.
        """
        ...

    @endpoint("POST", "/runs", scope="run", problems=(404, 409, 413), flag="stream")
    def stream(self, input: Input, **options: Unpack[StartOptions]) -> AsyncStream[Shown]:
        """Say something, and watch what happens: server-sent events, as `Accept` can say, too.

        Gives `Begun`, events, pieces of answers, and at the end the `Run`. The run begins when the
        first is asked for, goes on when you stop to watch, and is watched on after a cut
        connection.
        """
        ...

    @endpoint("POST", "/runs", scope="run", problems=(404, 409, 413), flag="background")
    async def start(self, input: Input, **options: Unpack[StartOptions]) -> Run:
        """Say something, and do not wait for the end: the answer is 202."""
        ...

    @endpoint("GET", "/runs", scope="read", most=200)
    def list(
        self,
        *,
        status: Annotated[
            Literal["idle", "ready", "waiting"] | None,
            Told("Only runs whose session has this status."),
        ] = None,
        agent: Annotated[
            str | None,
            Told("Only those whose session this agent has.", max_length=200, pattern=PLAIN),
        ] = None,
        user: Annotated[
            str | None, Told("Only those of this user.", max_length=500, pattern=PLAIN)
        ] = None,
    ) -> Pages[Run]:
        """The last run of each session, newest session first."""
        ...

    @endpoint("GET", "/runs/{run_id}", scope="read", problems=(404,))
    async def get(
        self,
        run_id: RunId,
        *,
        wait_s: Annotated[
            float, Told("Wait so long for its end before answering.", ge=0, le=600)
        ] = 0,
    ) -> Run:
        """A run as it stands, perhaps once nobody works on it any more."""
        ...

    async def wait(self, run_id: str) -> Run:
        """The run, once nobody works on it any more."""
        return await ended(self, await self.get(run_id))

    @endpoint("GET", "/runs/{run_id}/events", scope="read", problems=(404,))
    def follow(
        self,
        run_id: RunId,
        *,
        after: _After = None,
        until: Annotated[
            Until,
            Told(
                "When the stream ends: when nobody works on the run any more, which may be because "
                "it waits for people, or only with an outcome."
            ),
        ] = "pause",
    ) -> AsyncStream[Shown]:
        """Watch a run, from its beginning or from after the event of this number, to its end, which
        is the `Run`."""
        ...

    @endpoint("POST", "/runs/{run_id}/cancel", scope="run", problems=(404, 409))
    async def cancel(self, run_id: RunId) -> Run:
        """Stop a run; its work is kept, and it can be resumed. One that is over stays as it is."""
        ...

    @endpoint(
        "POST",
        "/sessions/{session_id}/resume",
        scope="run",
        problems=(404, 409),
        body="ResumeRun",
        pending="It goes on.",
    )
    async def resume_and_wait(
        self,
        session_id: _SessionId,
        *,
        timeout_s: _Timeout = None,
        **limits: Unpack[LimitOptions],
    ) -> Run:
        """Go on with a run that was stopped, failed, or ran out of its budget: with higher limits.

        One that waits for people goes on by itself when they have answered.
        """
        ...

    @endpoint(
        "POST", "/sessions/{session_id}/resume", scope="run", problems=(404, 409), flag="background"
    )
    async def resume(self, session_id: _SessionId, **limits: Unpack[LimitOptions]) -> Run:
        """Go on with a run, and do not wait for the end: the answer is 202."""
        ...

    @endpoint("GET", "/sessions/{session_id}/stream", scope="read", problems=(404,))
    def follow_session(
        self, session_id: _SessionId, *, after: _After = None
    ) -> AsyncStream[Event | ModelDelta]:
        """Watch a session, through all its runs, from after the event of this number on."""
        ...


async def ended(runs: Runs, run: Run) -> Run:
    """The run, once nobody works on it any more."""
    if run.is_active:
        async with runs.follow(run.run_id) as shown:
            async for each in shown:
                if isinstance(each, Run):
                    return each
    return run


class CalledRuns(Called):
    """`Runs`, called."""

    run = calls(Runs.run)
    stream = streams(Runs.stream)
    start = calls(Runs.start)
    list = lists(Runs.list)
    get = calls(Runs.get)
    wait = calls(Runs.wait)
    follow = streams(Runs.follow)
    cancel = calls(Runs.cancel)
    resume_and_wait = calls(Runs.resume_and_wait)
    resume = calls(Runs.resume)
    follow_session = streams(Runs.follow_session)
