"""Makes a remote A2A agent a member of a team, which can get handoffs and questions.

The member is a code agent. Each remote call is a stored step. The message id is derived from the
step, so the remote agent recognizes a message that is sent again after a crash. A question of the
remote agent becomes an inbox item, and the session is suspended until a person has answered.
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
_MAX_HISTORY = 20_000
_HANDOFF_FIELDS = (("reason", "Why"), ("summary", "Summary"), ("context", "Context"))


def _message_text(ctx: CodeContext[Any], *, after_handoff: bool) -> str:
    """The last message of the user; after a handoff also the handoff's fields and the earlier
    conversation, as the agent sees it."""
    parts = [ctx.text]
    received = ctx.received
    if after_handoff and received:
        fields = [f"{name}: {received[key]}" for key, name in _HANDOFF_FIELDS if received.get(key)]
        parts.append("\n".join([f"Handed over by {received['from']}.", *fields]))
    if after_handoff and (history := _history(ctx)):
        parts.append(f"What was said before:\n{history}")
    return "\n\n".join(filter(None, parts))


def _history(ctx: CodeContext[Any]) -> str:
    """The end of the conversation, without the user's last message."""
    messages = [item for item in ctx.items if is_message(item) and text_of(item)]
    lines = [f"{item['role']}: {text_of(item)}" for item in messages]
    last = next((i for i in reversed(range(len(messages))) if messages[i]["role"] == "user"), None)
    if last is not None:
        del lines[last]
    return "\n".join(lines)[-_MAX_HISTORY:]


@checked_arguments
def a2a_agent(
    card: str | RemoteA2A,
    *,
    name: str,
    token_env: str | None = None,
    timeout_s: float = 300.0,
    **fields: Any,
) -> Agent[Any]:
    """Create an agent that is called over the A2A protocol. `card` is the address of its agent
    card.

    `token_env` names the environment variable that has the token for the remote agent. For more
    options, pass a `RemoteA2A` as `card`. `fields` are fields of `Agent`, such as `description`,
    `triggers` and `handoffs`::

        partner = a2a_agent("https://partner.example", name="partner", token_env="PARTNER_TOKEN")
        triage = Agent("triage", model="…", handoffs=[partner])

    If the remote task fails, the handoff is rolled back, and the agent that handed over gets the
    reason. If the handoff is rolled back for another reason, the remote task is cancelled.
    Questions of the remote agent appear in the inbox.
    """
    if isinstance(card, RemoteA2A):
        settings = card
    else:
        settings = RemoteA2A(card=card, token_env=token_env, timeout_s=timeout_s)
    remote = _Remote(settings, name)
    agent: Agent[Any] = Agent(name, run=remote.run, tools=remote.tools, **fields)
    return agent


class _Remote:
    """The code of a remote agent, and its two tools, which are the stored steps."""

    def __init__(self, settings: RemoteA2A, name: str) -> None:
        self.settings = settings
        self.name = name
        self._link: RemoteLink | None = None
        self.tools: list[FunctionTool] = [
            function_tool(self._send, name_override="a2a_send"),
            function_tool(self._wait, name_override="a2a_wait"),
        ]

    async def run(self, ctx: CodeContext[Any]) -> Any:
        """Send the user's last message, and return the remote agent's answer."""
        # The ids are not kept in a session variable: a client that may set variables could use them
        # to join the remote conversation of another session.
        key = f"a2a.{_digest(self.name)}"
        known: dict[str, str] = await ctx.recall(key) or {}
        if known.get("session", ctx.session_key) != ctx.session_key:
            known = {}  # A fork of a session has its own remote conversation.
        context_id = known.get("context") or _context_id(ctx.session_key, self.name)
        handoff = _digest(dumps(ctx.received))
        text = _message_text(ctx, after_handoff=known.get("heard") != handoff)
        view = await self._send_step(ctx, text=text, context_id=context_id)
        for _ in range(_MAX_QUESTIONS):
            if view.task_id:
                arguments = {"settings": self.settings.to_json(), "task": view.task_id}
                await ctx.on_rollback(cancel_remote, key=f"a2a:{view.task_id}", arguments=arguments)
            if view.state == "working":
                view = view_from_json(await ctx.call("a2a_wait", task_id=view.task_id))
            if view.state != "asks":
                break
            view = await self._ask_person(ctx, view)
        now = {
            "context": view.context_id or context_id,
            "heard": handoff,
            "session": ctx.session_key,
        }
        if now != known:
            ctx.keep(key, now)
        return self._answer(view)

    async def _send_step(self, ctx: CodeContext[Any], **arguments: Any) -> View:
        return view_from_json(await ctx.call("a2a_send", **arguments))

    async def _ask_person(self, ctx: CodeContext[Any], view: View) -> View:
        """Ask a person the remote agent's question, and send the answer."""
        question = " ".join(view.text.split()) or "it needs an answer"
        answer = await ctx.request_approval(
            f"{self.name}: {question}"[:_MAX_SUBJECT],
            options=view.options,
            body=view.text,
            context={"agent": self.name, "task": view.task_id},
        )
        return await self._send_step(
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
                reason = view.text or "it does not take such tasks"
                raise HandoffRefused("DECLINED", f"agent {self.name!r} declined: {reason[:2000]}")
            case "failed" | "canceled":
                reason = f": {view.text[:2000]}" if view.text else ""
                raise RemoteAgentFailed(self.name, f"task {view.task_id} {view.state}{reason}")
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
            text: The message.
            context_id: The id of the remote conversation.
            task_id: The remote task that waits for this message, if any.
            choice: The chosen option of the task's question.
            item: The id of the answered question.
        """
        data: dict[str, Any] | None = None
        if choice:
            data = {"choice": choice, **({"item": item} if item else {})}
        link = await self._open_link()
        view = await link.send(
            text,
            # A step that is repeated after a crash sends the same id.
            message_id=f"ekiden-{_digest(ctx.idempotency_key)}",
            context_id=context_id,
            task_id=task_id,
            data=data,
        )
        return view.to_json()

    async def _wait(self, ctx: ToolContext[Any], task_id: str) -> Any:
        """Wait until the remote task has ended or asks a question.

        Args:
            task_id: The id of the remote task.
        """
        link = await self._open_link()
        return (await link.wait(task_id)).to_json()

    async def _open_link(self) -> RemoteLink:
        if self._link is None:
            self._link = await _load_link(self.settings, self.name)
        return self._link


async def cancel_remote(rollback: Rollback) -> None:
    """Cancel the remote task of a handoff that is rolled back.

    If the remote agent is unreachable or has ended the task, this is only logged.
    """
    settings = RemoteA2A(**rollback.arguments["settings"])
    try:
        link = await _load_link(settings, rollback.agent)
        problem = await link.cancel(rollback.arguments["task"])
    except RemoteAgentUnavailable as exc:
        problem = exc.problem
    if problem is not None:
        _log.info("the remote task of agent %s was not cancelled: %s", rollback.agent, problem)


async def _load_link(settings: RemoteA2A, name: str) -> RemoteLink:
    try:
        # Importing the SDK takes a second or more; in a thread it does not block other sessions.
        module = await in_thread(import_module, "ekiden.integrations.a2a.link")
    except ImportError as exc:
        raise UserError("remote A2A agents need a package: pip install 'ekiden[a2a]'") from exc
    link: RemoteLink = module.RemoteLink(settings, name=name)
    return link


def _context_id(session_key: str, name: str) -> str:
    """The id of the remote conversation: one for each session and remote agent."""
    return f"ekiden-{_digest(f'{session_key}/{name}')}"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
