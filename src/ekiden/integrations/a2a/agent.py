"""A remote agent as a member of a team: handed to, asked and rolled back like any other.

It is an agent that is code, and each thing that it does elsewhere is a remembered step. First the
request is sent, under an id that follows from the step, so that one sent again after a crash is
known to be the same; then its task is waited for. What it asks goes to the inbox, and the session
is suspended until a person has answered. The time that that takes costs nothing, here or there.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.errors import HandoffRefused, UserError
from ekiden.core.errors.integrations import (
    RemoteAgentFailed,
    RemoteAgentInvalid,
    RemoteAgentUnavailable,
)
from ekiden.core.values import dumps
from ekiden.integrations.a2a.values import RemoteA2A, View, view_from_json
from ekiden.tools import function_tool
from ekiden.tools.under_way import in_thread

if TYPE_CHECKING:
    from ekiden.core.tools.tool import FunctionTool
    from ekiden.integrations.a2a.link import RemoteLink
    from ekiden.runtime import CodeContext, Rollback

_log = logging.getLogger("ekiden.integrations.a2a")

_MAX_QUESTIONS = 20
_MAX_SUBJECT = 400

_MAX_BEFORE = 20_000
_WORDS = (("reason", "Why"), ("summary", "Summary"), ("context", "Context"))


def handed_text(ctx: CodeContext[Any], *, is_new: bool) -> str:
    """What the person said last; after a handoff (`is_new`) also what the source passed along and
    what was said before, as far as the handoff lets the agent see it."""
    parts = [ctx.text]
    received = ctx.received
    if is_new and received:
        told = [f"{word}: {received[key]}" for key, word in _WORDS if received.get(key)]
        parts.append("\n".join([f"Handed over by {received['from']}.", *told]))
    if is_new and (before := _before(ctx)):
        parts.append(f"What was said before:\n{before}")
    return "\n\n".join(filter(None, parts))


def _before(ctx: CodeContext[Any]) -> str:
    """The conversation without what was said last; its end, if it is long."""
    said = [item for item in ctx.items if is_message(item) and text_of(item)]
    lines = [f"{item['role']}: {text_of(item)}" for item in said]
    last = next((i for i in reversed(range(len(said))) if said[i]["role"] == "user"), None)
    if last is not None:
        del lines[last]
    return "\n".join(lines)[-_MAX_BEFORE:]


@checked_arguments
def a2a_agent(
    card: str | RemoteA2A,
    *,
    name: str,
    token_env: str | None = None,
    timeout_s: float = 300.0,
    **fields: Any,
) -> Agent[Any]:
    """A remote agent that is called over the A2A protocol. `card` is the address of its agent card.

    `token_env` names the environment variable with its token; use `RemoteA2A` for more options.
    `fields` are fields of `Agent`, such as `description`, `triggers` and `handoffs`::

        partner = a2a_agent("https://partner.example", name="partner", token_env="PARTNER_TOKEN")
        triage = Agent("triage", model="…", handoffs=[partner])

    If the remote task fails, the handoff is rolled back, and its source gets the reason. A rollback
    cancels the remote task. Questions of the remote agent go to people in the inbox.
    """
    if isinstance(card, RemoteA2A):
        settings = card
    else:
        settings = RemoteA2A(card=card, token_env=token_env, timeout_s=timeout_s)
    remote = _Remote(settings, name)
    agent: Agent[Any] = Agent(name, run=remote.run, tools=remote.tools, **fields)
    return agent


class _Remote:
    """The code of such an agent, and its two tools."""

    def __init__(self, settings: RemoteA2A, name: str) -> None:
        self.settings = settings
        self.name = name
        self._link: RemoteLink | None = None
        self.tools: list[FunctionTool] = [
            function_tool(self._send, name_override="a2a_send"),
            function_tool(self._wait, name_override="a2a_wait"),
        ]

    async def run(self, ctx: CodeContext[Any]) -> Any:
        """Send what the person said last, and give what the remote agent answers."""
        # No variable: whoever may set those could take part in the conversation of another.
        kept = f"a2a.{_digest(self.name)}"
        known: dict[str, str] = await ctx.recall(kept) or {}
        if known.get("session", ctx.session_key) != ctx.session_key:
            known = {}  # A branch has a conversation of its own.
        context_id = known.get("context") or _context_id(ctx.session_key, self.name)
        heard = _digest(dumps(ctx.received))
        text = handed_text(ctx, is_new=known.get("heard") != heard)
        view = await self._said(ctx, text=text, context_id=context_id)
        for _ in range(_MAX_QUESTIONS):
            if view.task_id:
                arguments = {"settings": self.settings.to_json(), "task": view.task_id}
                await ctx.on_rollback(cancel_remote, key=f"a2a:{view.task_id}", arguments=arguments)
            if view.state == "working":
                view = view_from_json(await ctx.call("a2a_wait", task_id=view.task_id))
            if view.state != "asks":
                break
            view = await self._asked(ctx, view)
        now = {
            "context": view.context_id or context_id,
            "heard": heard,
            "session": ctx.session_key,
        }
        if now != known:
            ctx.keep(kept, now)
        return self._answer(view)

    async def _said(self, ctx: CodeContext[Any], **arguments: Any) -> View:
        return view_from_json(await ctx.call("a2a_send", **arguments))

    async def _asked(self, ctx: CodeContext[Any], view: View) -> View:
        """Let a person answer what the remote agent asks, and pass it on."""
        words = " ".join(view.text.split()) or "it needs an answer"
        answer = await ctx.request_approval(
            f"{self.name}: {words}"[:_MAX_SUBJECT],
            options=view.options,
            body=view.text,
            context={"agent": self.name, "task": view.task_id},
        )
        return await self._said(
            ctx,
            text=answer.text or answer.choice,
            context_id=view.context_id,
            task_id=view.task_id,
            choice=answer.choice,
            item=view.item,
        )

    def _answer(self, view: View) -> Any:
        match view.state:
            case "done":
                return view.text if view.data is None else view.data
            case "rejected":
                said = view.text or "it does not take such tasks"
                raise HandoffRefused("DECLINED", f"agent {self.name!r} declined: {said[:2000]}")
            case "failed" | "canceled":
                said = view.text[:2000]
                why = f": {said}" if said else ""
                raise RemoteAgentFailed(self.name, f"task {view.task_id} {view.state}{why}")
            case "invalid":
                raise RemoteAgentInvalid(self.name, view.text)
            case "asks":
                raise RemoteAgentInvalid(self.name, f"it asked {_MAX_QUESTIONS} times in a row")
            case _:
                raise RemoteAgentUnavailable(self.name, view.text)

    async def _send(
        self,
        ctx: ToolContext[Any],
        text: str,
        context_id: str,
        task_id: str = "",
        choice: str = "",
        item: str = "",
    ) -> Any:
        """Send a message to the remote agent.

        Args:
            text: What is said.
            context_id: The conversation there.
            task_id: The task that waits for it, if one does.
            choice: What was chosen of the options that it gave.
            item: The question that this answers.
        """
        data: dict[str, Any] | None = None
        if choice:
            data = {"choice": choice, **({"item": item} if item else {})}
        link = await self._linked()
        view = await link.send(
            text,
            message_id=_message_id(ctx.idempotency_key),
            context_id=context_id,
            task_id=task_id,
            data=data,
        )
        return view.to_json()

    async def _wait(self, ctx: ToolContext[Any], task_id: str) -> Any:
        """Wait until the remote agent's task ended or asks something.

        Args:
            task_id: The task there.
        """
        link = await self._linked()
        return (await link.wait(task_id)).to_json()

    async def _linked(self) -> RemoteLink:
        if self._link is None:
            self._link = await _link(self.settings, self.name)
        return self._link


async def cancel_remote(rollback: Rollback) -> None:
    """The handoff to a remote agent is undone: tell it that its task is not needed any more.

    An agent that cannot be reached, or has ended the task, is left alone.
    """
    settings = RemoteA2A(**rollback.arguments["settings"])
    try:
        link = await _link(settings, rollback.agent)
        problem = await link.cancel(rollback.arguments["task"])
    except RemoteAgentUnavailable as exc:
        problem = exc.problem
    if problem is not None:
        _log.info("the remote task of agent %s was not cancelled: %s", rollback.agent, problem)


async def _link(settings: RemoteA2A, name: str) -> RemoteLink:
    """Its package takes a second or more to load, in which other sessions want to go on."""
    try:
        module = await in_thread(import_module, "ekiden.integrations.a2a.link")
    except ImportError as exc:
        raise UserError("remote A2A agents need a package: pip install 'ekiden[a2a]'") from exc
    link: RemoteLink = module.RemoteLink(settings, name=name)
    return link


def _context_id(session_key: str, name: str) -> str:
    """The conversation there: the same for all that this session says to this agent."""
    return f"ekiden-{_digest(f'{session_key}/{name}')}"


def _message_id(key: str) -> str:
    """The same when the step is done again after a crash, and of no other step."""
    return f"ekiden-{_digest(key)}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
