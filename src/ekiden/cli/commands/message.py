"""`ekiden message …`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.ids import message_id, session_id
from ekiden.cli.options import LISTING, STATUS, JsonOption, Listing, MoreWords, PriorityName
from ekiden.cli.place import HERE, WITH_STORE, Place, TeamWithStore
from ekiden.cli.terminal.output import show
from ekiden.storage.records import MessageState


async def message_list(
    *,
    agent: Annotated[str | None, Parameter(help="Only messages to this agent.")] = None,
    sender: Annotated[
        str | None, Parameter(name="--from", help="Only messages from this sender.")
    ] = None,
    status: Annotated[
        MessageState | None, Parameter(name=STATUS, help="Only messages with this status.")
    ] = None,
    task: Annotated[str | None, Parameter(help="Only messages about this task.")] = None,
    correlation: Annotated[
        str | None, Parameter(help="Only messages with this correlation id.")
    ] = None,
    waiter: Annotated[
        str | None, Parameter(help="Only queries whose answer this agent is waiting for.")
    ] = None,
    session: Annotated[str | None, Parameter(help="Only messages that this session sent.")] = None,
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List messages between agents, oldest first."""
    from ekiden.cli.views.messages import message_table

    async with place.open() as ekiden:
        asked_in = await session_id(ekiden.sessions, session or "")
        found = ekiden.messages.list(
            agent=agent,
            sender=sender,
            task=task,
            correlation=correlation,
            state=status,
            waiter=waiter,
            session=asked_in or None,
        )
        await listing.show(found, message_table, none="no messages")


async def message_show(
    message: Annotated[str, Parameter(help="Message id, or a unique prefix of it.")],
    /,
    *,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Show a message and its delivery status."""
    from ekiden.cli.views.messages import print_message

    async with place.open() as ekiden:
        found = await ekiden.messages.get(await message_id(ekiden, message))
    show(found, print_message, as_json=as_json)


async def message_send(
    agent: Annotated[str, Parameter(help="Name of the agent.")],
    text: Annotated[
        str,
        Parameter(
            help="Content of the message, as JSON or text. Give - to read the content from "
            "standard input."
        ),
    ],
    /,
    *more: MoreWords,
    subject: Annotated[str, Parameter(help="Subject of the message.")] = "",
    notify: Annotated[bool, Parameter(help="Send a notification, which needs no answer.")] = False,
    priority: Annotated[
        PriorityName,
        Parameter(
            help="Priority of the message. Workers handle messages of higher priority first."
        ),
    ] = "normal",
    correlation: Annotated[str | None, Parameter(help="Correlation id of the message.")] = None,
    wait: Annotated[
        float,
        Parameter(
            validator=Number(gte=0, lte=600),
            help="Seconds to wait for the answer. An answer that comes later is stored.",
        ),
    ] = 30.0,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> int:
    """Send a query or a notification to an agent of the team.

    The command stores the message, and creates a session in which the agent handles the message. A
    server or a worker must run that session. If there is no answer in time, the exit code is 4.
    """
    from ekiden.cli.exits import Exit
    from ekiden.cli.options import json_or_text
    from ekiden.cli.projects import one_argument, read_text
    from ekiden.cli.terminal.output import complain, emit, note, say
    from ekiden.cli.views.messages import answer_text
    from ekiden.core.documents import to_json

    one_argument(text, more)
    payload = json_or_text(read_text(text))
    async with place.work(create=True, as_json=as_json) as (ekiden, _):
        sent = await ekiden.messages.send(
            agent,
            type="notify" if notify else "query",
            subject=subject,
            payload=payload,
            priority=priority,
            correlation_id=correlation,
            wait_s=wait,
        )
    is_open = sent.is_pending and not notify
    if as_json:
        emit(to_json(sent))
    elif sent.answer is not None:
        say(answer_text(sent))
    if sent.error is not None:
        complain(sent.error_code or "message.failed", sent.error, as_json=as_json)
        return Exit.FAILED
    if not as_json:
        waits = "; there is no answer yet: a server or `ekiden worker` gives it" if is_open else ""
        note(f"[{sent.message_id}] {sent.state}{waits}")
    return Exit.WAITING if is_open else Exit.OK


async def message_requeue(
    message: Annotated[str, Parameter(help="Message id, or a unique prefix of it.")],
    /,
    *messages: Annotated[str, Parameter(help="Further message ids.")],
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Deliver dead or expired messages again. Other messages are skipped."""
    async with place.open() as ekiden:
        ids = [await message_id(ekiden, each) for each in (message, *messages)]
        found = await ekiden.messages.requeue(ids)
    show(found, f"delivered again: {found.requeued}", as_json=as_json)
