"""What an agent's code is given while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol

from ekiden.core.conversation.items import Item
from ekiden.core.conversation.usage import Usage
from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ekiden.core.conversation.messages import Priority
    from ekiden.core.handoff_terms import Budget
    from ekiden.core.memory import LongTermMemory
    from ekiden.core.questions.inbox_item import InboxAnswer, Option
    from ekiden.core.questions.requests import Ask, AskScope

    # The default lets type checkers read `Agent("desk")` as `Agent[Any]`.
    TContext = TypeVar("TContext", default=Any)
    TOutput = TypeVar("TOutput", default=Any, covariant=True)
else:
    from typing import TypeVar

    TContext = TypeVar("TContext")
    TOutput = TypeVar("TOutput", covariant=True)


class Parameterized:
    """A generic class whose last parameters may be left out: ``Agent[Shop]``.

    Type checkers know that from the defaults of the variables, which Python has since 3.13.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            parameters = given if isinstance(given, tuple) else (given,)
            missing = len(cls.__parameters__) - len(parameters)
            return super().__class_getitem__((*parameters, *[Any] * missing))


class RunLink(Protocol):
    """What a context can ask of the run that it belongs to."""

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any
    ) -> Awaitable[None]:
        """Remember how to undo something; awaiting the result stores it at once."""
        ...

    def publish(self, name: str, data: Any) -> None:
        """Say that something happened."""
        ...

    def long_term_memory(self) -> LongTermMemory:
        """That of the active agent for the session's user or the app."""
        ...

    @property
    def epoch(self) -> int:
        """The fencing token of whoever runs the session."""
        ...


class RunContextWrapper(Generic[TContext]):
    """The caller's own object, the usage so far, and the session's variables.

    `context` is yours: Ekiden never looks into it, stores it or shows it to a model. What has to
    survive a restart goes through `set`: it is stored with the step that set it::

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
        """The variable `name`, as a copy: what is done to it changes nothing until it is set.

        A prefix says whose it is; see `set`.
        """
        return self.variables.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Remember `value`, which must be JSON, under `name`, with the step under way.

        A name without a prefix is the session's. ``run:`` (or ``temp:``) is this run's: gone when
        the next one begins. ``user:`` is shared by all sessions of the session's user, and
        ``app:`` by everybody with the same `RunConfig.app`; without such a user or app that is
        `UserError`, and `get` gives the default. They are read when a run begins or goes on, and
        of several who write the last one counts::

            ctx.set("order", 42)
            ctx.set("user:language", "fr")
        """
        self.variables[name] = value

    def delete(self, name: str) -> None:
        """Forget `name`; nothing happens if it is not there."""
        self.variables.pop(name, None)

    def on_rollback(
        self, function: Callable[..., Any], *, key: str, arguments: Any = None
    ) -> Awaitable[None]:
        """Have `function` undo something if the handoff that is under way is rolled back.

        It is called with a `Rollback` (or with nothing, if it takes no parameter), sync or async,
        in the reverse order of registration; once for a `key`, and again only if the process died
        before its success was stored. `arguments` is JSON that it finds in ``rollback.arguments``.
        A function of a module is found again after a restart; a lambda or an inner function is
        not, and its rollback then waits for a person. Register before you act, and ``await`` the
        result to be sure that it is stored; without ``await`` it is stored with the step::

            await ctx.on_rollback(refund, key=ctx.idempotency_key, arguments={"order": order_id})
            await ctx.context.bank.pay(order_id, key=ctx.idempotency_key)

        Where no handoff is under way there is nothing to roll back, and nothing is remembered.
        """
        if self.link is None:
            raise UserError("on_rollback works in tools, callbacks and code of a run only")
        return self.link.on_rollback(function, key=key, arguments=arguments)

    def publish(self, name: str, data: Any = None) -> None:
        """Say that something happened, with `data` that is JSON: triggers of type ``event`` with
        this name fire after the step, and it is part of what is recorded."""
        if self.link is None:
            raise UserError("publish works in tools, callbacks and code of a run only")
        self.link.publish(name, data)

    @property
    def epoch(self) -> int:
        """A fencing token: it grows whenever another process takes the session over.

        Pass it to a service that refuses requests with a smaller token than it has seen; then a
        process that was stopped, and wakes after another one took over, has no effect there.
        0 outside of a run::

            await bank.pay(order, key=ctx.idempotency_key, fence=ctx.epoch)
        """
        return 0 if self.link is None else self.link.epoch

    @property
    def memory(self) -> LongTermMemory:
        """What is remembered beyond the session, of its user or of the app, as the agent's
        `memory` says; `NoMemory` if it has none::

            await ctx.memory.store("colour", "Her favourite colour is blue.")
            found = await ctx.memory.retrieve("what colour does she like?")

        It is stored at once, not with the step: code that is run again after a crash stores the
        same under the same key again.
        """
        if self.link is None:
            raise UserError("memory works in tools, callbacks and code of a run only")
        return self.link.long_term_memory()

    async def ask(
        self,
        agent: str,
        subject: str,
        payload: Any = None,
        *,
        timeout_s: float = 30.0,
        priority: Priority = "normal",
    ) -> Any:
        """What another agent answers: JSON, its text or its structured output.

        The question is stored, the agent gets a session of its own for it, and this session is
        suspended until the answer is there; then the code that asks is run again from its beginning
        and finds the answer here. So whatever it does before must bear repetition, and variables
        that it sets are stored when it comes to its end: whoever is asked does not see them yet,
        so tell it in the question what it needs. Works in tools and in agents that are code.
        Raises `QueryTimeout`, `QueryFailed` with the error of whoever was asked,
        `AgentUnavailableError`, and `DeadlockError` if the agents wait for each other::

            customer = await ctx.ask("sales", "customer data", {"customer": 42})
        """
        from ekiden.core.questions.requests import Ask

        question = Ask(
            agent=agent, subject=subject, payload=payload, timeout_s=timeout_s, priority=priority
        )
        [(_, answer)] = await self._scope("ask").ask([question], mode="all")
        return answer

    async def call_agent(
        self,
        agent: str,
        input: Any,
        *,
        timeout_s: float = 300.0,
        budget: Budget | None = None,
        max_turns: int | None = None,
    ) -> Any:
        """What an agent of the team answers to `input`, which it reads as a message to itself.

        As `ask`, without a word of who asks: how tools that are agents call them.
        """
        from ekiden.core.questions.requests import Ask
        from ekiden.core.values.jsonio import dumps

        words = input if isinstance(input, str) else dumps(input)
        question = Ask(
            agent=agent,
            subject=(" ".join(words.split())[:80] or "a call"),
            payload=input,
            timeout_s=timeout_s,
            budget=budget,
            max_turns=max_turns,
            words=words,
        )
        [(_, answer)] = await self._scope("call_agent").ask([question], mode="all")
        return answer

    async def ask_all(self, questions: Sequence[Ask]) -> list[Any]:
        """The answers to several questions that are asked at the same time, in their order.

        The first failure is raised, when all have answered.
        """
        return [answer for _, answer in await self._scope("ask").ask(questions, mode="all")]

    async def ask_any(self, questions: Sequence[Ask]) -> tuple[str, Any]:
        """Who answered first, and what; the other questions are withdrawn.

        If all fail, the failure of the last is raised.
        """
        [first] = await self._scope("ask").ask(questions, mode="any")
        return first

    async def tell(
        self,
        agent: str,
        subject: str,
        payload: Any = None,
        *,
        priority: Priority = "normal",
        ttl_s: float | None = None,
    ) -> None:
        """Send another agent a message, and go on; it is stored with the step under way.

        An agent of the team gets a session of its own for it, any other finds it in its mailbox.
        Raises `MailboxFull` if that is full.
        """
        from ekiden.core.questions.requests import Ask

        note = Ask(agent=agent, subject=subject, payload=payload, priority=priority)
        await self._scope("tell").tell(note, ttl_s=ttl_s)

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
        """What a person decides: ``answer.choice`` is one of `options`, or ``answer.text`` says it.

        The question lies in the inbox, and the session is suspended until somebody answers, however
        long that takes; with `deadline_s`, until then, when `default` is taken for the answer by
        ``nobody``. An option is a text, or a mapping with a ``label``. `role` is who is asked; by
        default the operator. As with `ask`, the code is run
        again then. Raises `InboxItemClosed` if the question was withdrawn or expired without a
        default::

            answer = await ctx.request_approval("15 % discount for customer 42?")
            if answer.choice == "approve": ...
        """
        from ekiden.core.questions.inbox_item import option_texts
        from ekiden.core.questions.requests import ApprovalRequest

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

    def _scope(self, what: str) -> AskScope:
        raise UserError(f"{what} works in tools and in agents that are code only")


class AgentHookContext(RunContextWrapper[TContext]):
    """What `on_start` hooks get: also what the agent is about to see."""

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
    """What a tool gets: also which call this is.

    For example::

        @function_tool
        async def pay(ctx: ToolContext[Shop], cents: int) -> str:
            return await ctx.context.bank.pay(cents, key=ctx.idempotency_key)
    """

    __slots__ = (
        "_asking",
        "_asks",
        "agent",
        "idempotency_key",
        "tool_arguments",
        "tool_call_id",
        "tool_name",
    )

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
        """The same when a call that was in flight at a crash is made again: pass it on."""
        self._asking = asking
        self._asks: AskScope | None = None

    def _scope(self, what: str) -> AskScope:
        if self._asks is None:
            if self._asking is None:
                return super()._scope(what)
            self._asks = self._asking()
        return self._asks
