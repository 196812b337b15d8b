"""The context object of an agent's code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, cast, get_args

from ekiden.core.commands import Commands, WatchedMemory, command
from ekiden.core.conversation.model import Item, Usage
from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from typing_extensions import TypeVar

    from ekiden.core.profile import Budget
    from ekiden.core.questions import Ask, AskScope, InboxAnswer, Option
    from ekiden.core.roles import LongTermMemory
    from ekiden.core.values import Priority

    # The default lets type checkers read `Agent("desk")` as `Agent[Any]`.
    TContext = TypeVar("TContext", default=Any)
    TOutput = TypeVar("TOutput", default=Any, covariant=True)
else:
    from typing import TypeVar

    TContext = TypeVar("TContext")
    TOutput = TypeVar("TOutput", covariant=True)

OwnConclusion: TypeAlias = Literal["succeeded", "with_errors", "refused", "rolled_back", "failed"]
"""The conclusions of a run that its code can set with `RunContextWrapper.conclude`."""
OWN_CONCLUSIONS: Final = get_args(OwnConclusion)
CONCLUSION: Final = "run:ekiden.conclusion"
"""The variable with the conclusion that code set, and the reason."""
_MAX_REASON = 500


class Parameterized:
    """A generic class whose last type parameters are optional, as in ``Agent[Shop]``.

    Type checkers take the missing types from the defaults of the type variables, which are a
    feature of Python 3.13.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            parameters = given if isinstance(given, tuple) else (given,)
            missing = len(cls.__parameters__) - len(parameters)
            return super().__class_getitem__((*parameters, *[Any] * missing))


class RunLink(Protocol):
    """The interface of a run to its context objects."""

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any
    ) -> Awaitable[None]:
        """Register a compensation, which is called if the current handoff is rolled back. Await the
        result to store the compensation at once."""
        ...

    def publish(self, name: str, data: Any) -> None:
        """Publish an event with JSON data."""
        ...

    def long_term_memory(self) -> LongTermMemory:
        """The long-term memory of the active agent. It belongs to the session's user or to the
        app."""
        ...

    @property
    def epoch(self) -> int:
        """The fencing token of the process that runs the session."""
        ...


class RunContextWrapper(Generic[TContext]):
    """The context of a run: the caller's own object, the usage so far, and the session's variables.

    `context` is your own object. Ekiden never reads or stores this object, and never shows it to a
    model. For data that must survive a restart, call `set`, which stores the data together with the
    current step::

        def instructions(ctx: RunContextWrapper[Shop], agent: Agent) -> str:
            return f"You serve {ctx.context.name}, visit {ctx.get('visits', 1)}."
    """

    __slots__ = ("__weakref__", "context", "link", "session_id", "usage", "variables")

    def __init__(
        self,
        context: TContext = None,  # type: ignore[assignment]
        usage: Usage | None = None,
        *,
        session_id: str = "",
        variables: MutableMapping[str, Any] | None = None,
        link: RunLink | None = None,
    ) -> None:
        self.context = context
        self.link = link
        self.usage = Usage() if usage is None else usage
        self.session_id = session_id
        self.variables: MutableMapping[str, Any] = {} if variables is None else variables

    def get(self, name: str, default: Any = None) -> Any:
        """Return a copy of the variable `name`, or `default` if the variable does not exist. To
        change the variable, call `set`. Names may have prefixes such as ``user:``, which `set`
        explains."""
        return self.variables.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Store the JSON value `value` under `name`, together with the current step.

        A name without a prefix belongs to the session. A name with the prefix ``run:`` (or
        ``temp:``) belongs to this run; the next run does not see the variable. All sessions of the
        same user share ``user:`` variables. All runs with the same `RunConfig.app` share ``app:``
        variables. A ``user:`` variable needs a session with a user, and an ``app:`` variable needs
        a run with an app. Otherwise `set` raises `UserError`, and `get` returns the default. Shared
        variables are read when a run starts or resumes. If several runs write a variable, the last
        write wins::

            ctx.set("order", 42)
            ctx.set("user:language", "fr")
        """
        self.variables[name] = value

    def delete(self, name: str) -> None:
        """Delete the variable `name`, if it exists."""
        self.variables.pop(name, None)

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any = None
    ) -> Awaitable[None]:
        """Register `function` as a compensation: Ekiden calls the function if the current handoff
        is rolled back.

        The function may be sync or async. It gets a `Rollback`, or no argument if it takes no
        parameter. Compensations are called in the reverse order of registration, once for each
        `key`. A compensation runs twice only if the process dies before the success of the first
        call is stored. `arguments` is JSON, available in ``rollback.arguments``. Define the
        function at the top level of a module: raises `CompensationNotFindable` for a function that
        no process could find after a restart, such as a lambda or an inner function. Register the
        compensation before the effect that it undoes. If you ``await`` this call, the registration
        is stored at once; otherwise it is stored with the current step::

            await ctx.on_rollback(refund, key=ctx.idempotency_key, arguments={"order": order_id})
            await ctx.context.bank.pay(order_id, key=ctx.idempotency_key)

        If no handoff of the session is unconfirmed, there is nothing to roll back, and the call has
        no effect.
        """
        if self.link is None:
            raise UserError("on_rollback works in tools, callbacks and code of a run only")
        return self.link.on_rollback(function, key=key, arguments=arguments)

    def publish(self, name: str, data: Any = None) -> None:
        """Publish an event with JSON `data`. The event is recorded. After the current step, it
        fires the handoff triggers of type ``event`` whose `event` is `name`."""
        if self.link is None:
            raise UserError("publish works in tools, callbacks and code of a run only")
        self.link.publish(name, data)

    def conclude(self, conclusion: OwnConclusion, reason: str = "") -> None:
        """Set the conclusion of this run, for lists, filters and metrics.

        Without this call the conclusion comes from the events of the run: an answer after a refund
        that a person refused is `refused`, and after a failed call `with_errors`. The last call
        counts. A run that fails, is stopped or reaches a limit keeps that conclusion, and a
        rollback undoes the call with the other changes of its handoff::

            if not paid:
                ctx.conclude("failed", f"the gateway refused order {order}")
        """
        if conclusion not in OWN_CONCLUSIONS:
            known = ", ".join(OWN_CONCLUSIONS)
            raise UserError(f"a conclusion is one of {known}, not {conclusion!r:.80}")
        if not isinstance(reason, str):
            raise UserError(f"the reason of a conclusion is a text, not {type(reason).__name__}")
        self.set(CONCLUSION, [conclusion, reason[:_MAX_REASON]])

    @property
    def epoch(self) -> int:
        """A fencing token: a number that grows whenever another process takes over the session.

        Pass it to a service that refuses requests with an older token. Then a process that lost the
        session can no longer cause effects there. Outside of a run the token is 0::

            await bank.pay(order, key=ctx.idempotency_key, fence=ctx.epoch)
        """
        return 0 if self.link is None else self.link.epoch

    @property
    def memory(self) -> LongTermMemory:
        """The long-term memory of the agent. Depending on `Agent.memory`, it belongs to the user or
        to the app. Raises `NoMemory` if the agent has no memory::

            await ctx.memory.store("colour", "Her favourite colour is blue.")
            found = await ctx.memory.retrieve("what colour does she like?")

        Memories are stored at once, not with the current step. Code that is repeated after a crash
        stores a memory again under the same key, so there is no duplicate.
        """
        if self.link is None:
            raise UserError("memory works in tools, callbacks and code of a run only")
        memory, commands = self.link.long_term_memory(), self._commands()
        return (
            memory if commands is None else cast("LongTermMemory", WatchedMemory(memory, commands))
        )

    @command
    async def ask(
        self,
        agent: str,
        subject: str,
        payload: Any = None,
        *,
        timeout_s: float = 30.0,
        priority: Priority = "normal",
    ) -> Any:
        """Query another agent, and return its answer: a text, a structured output, or other JSON.

        The question is stored, and the other agent answers it in a new session. The current session
        is suspended until the answer arrives. Then your code runs again from its start, and this
        call returns the answer. So all code before the call must be idempotent. Variables that you
        set before the call are stored only when the code ends: put all data for the other agent
        into the question. You can use this method in tools and in code agents. Raises
        `QueryTimeout`, `QueryFailed` with the other agent's error, `AgentUnavailableError`, and
        `DeadlockError` if the agents wait for each other::

            customer = await ctx.ask("sales", "customer data", {"customer": 42})
        """
        from ekiden.core.questions import Ask

        question = Ask(
            agent=agent, subject=subject, payload=payload, timeout_s=timeout_s, priority=priority
        )
        [(_, answer)] = await self._scope("ask").ask([question], mode="all")
        return answer

    @command
    async def call_agent(
        self,
        agent: str,
        input: Any,
        *,
        timeout_s: float = 300.0,
        budget: Budget | None = None,
        max_turns: int | None = None,
    ) -> Any:
        """Call an agent of the team with the message `input`.

        This method works like `ask`, but the called agent does not see the name of the caller.
        `Agent.as_tool` uses this method.
        """
        from ekiden.core.questions import Ask
        from ekiden.core.values import dumps

        text = input if isinstance(input, str) else dumps(input)
        question = Ask(
            agent=agent,
            subject=(" ".join(text.split())[:80] or "a call"),
            payload=input,
            timeout_s=timeout_s,
            budget=budget,
            max_turns=max_turns,
            words=text,
        )
        [(_, answer)] = await self._scope("call_agent").ask([question], mode="all")
        return answer

    @command
    async def ask_all(self, questions: Sequence[Ask]) -> list[Any]:
        """Ask several questions at the same time, and return the answers in the order of the
        questions.

        If questions fail, the first failure is raised after every question is answered or has
        failed.
        """
        return [answer for _, answer in await self._scope("ask").ask(questions, mode="all")]

    @command
    async def ask_any(self, questions: Sequence[Ask]) -> tuple[str, Any]:
        """Ask several questions at the same time. Return the agent that answered first, with its
        answer, and withdraw the other questions.

        If all questions fail, the last failure is raised.
        """
        [first] = await self._scope("ask").ask(questions, mode="any")
        return first

    @command
    async def tell(
        self,
        agent: str,
        subject: str,
        payload: Any = None,
        *,
        priority: Priority = "normal",
        ttl_s: float | None = None,
    ) -> None:
        """Send another agent a message, and continue without an answer.

        The message is stored with the current step. If the agent belongs to the team, it handles
        the message in a new session. Otherwise the message stays in the mailbox of the agent.
        Raises `MailboxFull` if the mailbox is full.
        """
        from ekiden.core.questions import Ask

        note = Ask(agent=agent, subject=subject, payload=payload, priority=priority)
        await self._scope("tell").tell(note, ttl_s=ttl_s)

    @command
    async def request_approval(
        self,
        subject: str,
        options: Sequence[Option] = ("approve", "reject"),
        context: Any = None,
        *,
        body: str = "",
        role: str | None = None,
        deadline_s: float | None = None,
        default: str | None = None,
        priority: Priority = "normal",
    ) -> InboxAnswer:
        """Ask a person to decide. The person chooses one of `options` (``choice`` in the answer) or
        writes free text (``text`` in the answer).

        The question appears in the inbox. The session is suspended until a person answers. By
        default there is no time limit. If no person answers within `deadline_s` seconds, `default`
        becomes the answer, and `by` of the answer is ``nobody``. An option is a text, or a mapping
        with a ``label``. `role` is the role of the people to ask; the default role is ``operator``.
        After the answer your code runs again from its start, as after `ask`. Raises
        `InboxItemClosed` if the question was withdrawn or expired without a default::

            answer = await ctx.request_approval("15 % discount for customer 42?")
            if answer.choice == "approve": ...
        """
        from ekiden.core.questions import ApprovalRequest, option_texts

        request = ApprovalRequest(
            subject=subject,
            options=option_texts(options),
            context=context,
            body=body,
            role=role,
            deadline_s=deadline_s,
            default=default,
            priority=priority,
        )
        return await self._scope("request_approval").request_approval(request)

    @command
    async def sleep(self, seconds: float) -> None:
        """Wait for this time. The session is suspended meanwhile, and no process has to run.

        Like after `ask`, your code then runs again from its start, and this call returns::

            await ctx.sleep(86_400)
        """
        if not 0 <= seconds < float("inf"):
            raise UserError(f"a pause takes 0 seconds or more, not {seconds!r:.40}")
        await self._scope("sleep").sleep(seconds)

    def now(self) -> datetime:
        """Return the current time in UTC. The time is recorded: if your code runs again, it gets
        the same time. Use this method, `random` and `uuid` for everything that questions and calls
        depend on::

            await ctx.request_approval(f"The prices of {ctx.now():%d %B}?")
        """
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self._scope("now").now_us() / 1e6, UTC)

    def random(self) -> float:
        """Return a random number from 0.0 up to, but not including, 1.0. The number is recorded,
        like the time of `now`."""
        import random

        number: float = self._scope("random").value("random", random.random)
        return number

    def uuid(self) -> UUID:
        """Return a random UUID (version 4). It is recorded, like the time of `now`."""
        import uuid

        return uuid.UUID(self._scope("uuid").value("uuid", lambda: str(uuid.uuid4())))

    def _scope(self, method: str) -> AskScope:
        raise UserError(f"{method} works in tools and in agents that are code only")

    def _commands(self) -> Commands | None:
        """The commands of the code that has this context; `None` if the code cannot make any."""
        return None


class AgentHookContext(RunContextWrapper[TContext]):
    """The context that `on_start` hooks get. It also contains the agent's input."""

    __slots__ = ("turn_input",)

    def __init__(self, base: RunContextWrapper[TContext], *, turn_input: list[Item]) -> None:
        super().__init__(
            base.context,
            base.usage,
            session_id=base.session_id,
            variables=base.variables,
            link=base.link,
        )
        self.turn_input = turn_input


class ToolContext(RunContextWrapper[TContext]):
    """The context that a tool gets. It also describes the current tool call.

    For example::

        @function_tool
        async def pay(ctx: ToolContext[Shop], cents: int) -> str:
            return await ctx.context.bank.pay(cents, key=ctx.idempotency_key)
    """

    __slots__ = (
        "_asking", "_asks", "agent", "idempotency_key", "made", "tool_arguments", "tool_call_id",
        "tool_name",
    )  # fmt: skip

    def __init__(
        self,
        context: TContext = None,  # type: ignore[assignment]
        usage: Usage | None = None,
        *,
        tool_name: str,
        tool_call_id: str,
        tool_arguments: str,
        idempotency_key: str = "",
        agent: Any = None,
        session_id: str = "",
        variables: MutableMapping[str, Any] | None = None,
        link: RunLink | None = None,
        asking: Callable[[], AskScope] | None = None,
    ) -> None:
        super().__init__(context, usage, session_id=session_id, variables=variables, link=link)
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.tool_arguments = tool_arguments
        self.agent = agent
        self.idempotency_key = idempotency_key
        """The key of the call. It stays the same when the call is repeated after a crash, so pass
        it to services that the tool calls."""
        self._asking = asking
        self._asks: AskScope | None = None
        self.made: Commands | None = None
        """The commands that the tool has made; `None` if it has made none. For the runtime."""

    def _commands(self) -> Commands:
        if self.made is None:
            self.made = Commands()
        return self.made

    def _scope(self, method: str) -> AskScope:
        if self._asks is None:
            if self._asking is None:
                return super()._scope(method)
            self._asks = self._asking()
        return self._asks
