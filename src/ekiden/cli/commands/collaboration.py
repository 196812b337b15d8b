"""`ekiden collaboration …` and `message …`: agreements and messages between agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Parameter

from ekiden.cli.ids import collaboration_id, message_id, session_id
from ekiden.cli.options import (
    LISTING,
    STATUS,
    JsonOption,
    Listing,
    MoreWords,
    PriorityName,
    about,
    json_object,
    json_or_text,
)
from ekiden.cli.output import complain, emit, note, say, show
from ekiden.cli.place import HERE, WITH_STORE, Place, TeamWithStore
from ekiden.collaboration.record import Phase
from ekiden.storage.records import MessageState

if TYPE_CHECKING:
    from ekiden.api.collaborations import CollaborationDetails, CollaborationsApi

IdArgument: TypeAlias = Annotated[str, about("Collaboration id, or a unique prefix of it.")]
TermsArgument: TypeAlias = Annotated[str, about("Proposed terms, as JSON or text.")]
ReasonOption: TypeAlias = Annotated[
    str, about("Reason for this step. The other agents can read it.")
]
BidderOption: TypeAlias = Annotated[str, about("Agent whose bid you accept or choose.")]
RequirementsOption: TypeAlias = Annotated[
    str | None, about("Requirements for the work, as JSON or text.")
]
KeyOption: TypeAlias = Annotated[
    str | None, about("Idempotency key. Messages with the same key are sent only once.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The options of commands that begin a collaboration."""

    initiator: Annotated[str, about("Act as this agent of the team.", name="--as")]
    context: Annotated[
        str | None,
        about(
            "Context for the agent that does the task, as a JSON object, such as "
            '{"session_id": "s1"}.'
        ),
    ] = None
    deadline: Annotated[
        float | None,
        about(
            "Seconds that the invited agents have to answer. Default: 30 in a call for bids, "
            "otherwise 300.",
            gte=0.001,
            lte=86_000,
        ),
    ] = None
    key: KeyOption = None
    place: TeamWithStore = WITH_STORE
    as_json: JsonOption = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[CollaborationsApi, dict[str, Any]]]:
        """The interface, and the parameters of its call that these options give."""
        given = {
            "context": json_object(self.context, "--context", example='{"session_id": "s1"}'),
            "deadline_s": self.deadline,
            "key": self.key,
        }
        async with self.place.work(create=True, as_json=self.as_json) as (ekiden, _):
            yield ekiden.collaborations, given

    def tell(self, begun: CollaborationDetails) -> None:
        """Print the state of the new collaboration."""
        _tell(begun, as_json=self.as_json)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """The options of commands that make a move in a collaboration."""

    agent: Annotated[
        str, about("Act as this agent. The agent must take part in the collaboration.", name="--as")
    ]
    key: KeyOption = None
    place: Place = HERE
    as_json: JsonOption = False

    async def make(
        self,
        collaboration: str,
        call: Callable[[CollaborationsApi, str], Awaitable[CollaborationDetails]],
    ) -> None:
        """Make the move with `call`, which gets the interface and the id, and print the state."""
        async with self.place.open() as ekiden:
            done = await call(ekiden.collaborations, await collaboration_id(ekiden, collaboration))
        _tell(done, as_json=self.as_json)


async def collaboration_list(
    *,
    agent: Annotated[str | None, about("Only collaborations of this agent.")] = None,
    phase: Annotated[
        tuple[Phase, ...], about("Only collaborations in this phase. You can repeat this option.")
    ] = (),
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List the agents' collaborations, oldest first."""
    from ekiden.cli.views.messages import collaboration_table

    async with place.open() as ekiden:
        found = ekiden.collaborations.list(agent=agent, phase=phase)
        await listing.show(found, collaboration_table, none="no collaborations")


async def collaboration_show(
    collaboration: IdArgument, /, *, place: Place = HERE, as_json: JsonOption = False
) -> None:
    """Show a collaboration's state and messages."""
    from ekiden.cli.views.messages import print_collaboration

    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.get(collaboration)
    show(found, print_collaboration, as_json=as_json)


async def collaboration_request(
    target: Annotated[str, about("Agent that should do the task.")],
    task: Annotated[str, about("Description of the task.")],
    /,
    *,
    requirements: RequirementsOption = None,
    opening: Opening,
) -> None:
    """Ask another agent to do a task."""
    async with opening.open() as (collaborations, given):
        begun = await collaborations.request(
            opening.initiator, target, task, requirements=json_or_text(requirements), **given
        )
    opening.tell(begun)


async def collaboration_propose(
    target: Annotated[str, about("Agent that gets the proposal.")],
    terms: TermsArgument,
    /,
    *,
    max_rounds: Annotated[
        int | None, about("Maximum number of proposals. Default: 5.", gte=1, lte=100)
    ] = None,
    opening: Opening,
) -> None:
    """Propose terms to another agent. Both agents must accept the terms."""
    async with opening.open() as (collaborations, given):
        begun = await collaborations.propose(
            opening.initiator, target, json_or_text(terms), max_rounds=max_rounds, **given
        )
    opening.tell(begun)


async def collaboration_call(
    capability: Annotated[str, about("Capability that the task requires.")],
    /,
    *capabilities: Annotated[str, about("Further capabilities that the task requires.")],
    task: Annotated[str, about("Description of the task.")] = "",
    participant: Annotated[
        tuple[str, ...],
        about("Ask this agent. You can repeat this option. Default: all other agents of the team."),
    ] = (),
    requirements: RequirementsOption = None,
    opening: Opening,
) -> None:
    """Call for bids: ask which agents can do a task.

    Agents that run on a server or a worker send bids. A bid depends on the agent's capabilities,
    workload and availability.
    """
    async with opening.open() as (collaborations, given):
        begun = await collaborations.call(
            opening.initiator,
            [capability, *capabilities],
            task=task,
            requirements=json_or_text(requirements),
            participants=participant or None,
            **given,
        )
    opening.tell(begun)


async def collaboration_acknowledge(collaboration: IdArgument, /, *, move: MoveOptions) -> None:
    """Accept a request without changes."""
    await move.make(
        collaboration, lambda api, each: api.acknowledge(each, move.agent, key=move.key)
    )


async def collaboration_accept(
    collaboration: IdArgument,
    /,
    *,
    version: Annotated[int, about("Version number of the current terms.", gte=1)],
    move: MoveOptions,
) -> None:
    """Accept the current terms. The agreement is made when both agents have accepted."""
    await move.make(
        collaboration, lambda api, each: api.accept(each, move.agent, version, key=move.key)
    )


async def collaboration_counter(
    collaboration: IdArgument,
    terms: TermsArgument,
    /,
    *,
    version: Annotated[int | None, about("Version number of the terms that you answer.")] = None,
    reason: ReasonOption = "",
    move: MoveOptions,
) -> None:
    """Propose different terms."""
    await move.make(
        collaboration,
        lambda api, each: api.counter(
            each, move.agent, json_or_text(terms), version=version, reason=reason, key=move.key
        ),
    )


async def collaboration_reject(
    collaboration: IdArgument, /, *, reason: ReasonOption = "", move: MoveOptions
) -> None:
    """Reject a request, or the current terms."""
    await move.make(
        collaboration, lambda api, each: api.reject(each, move.agent, reason=reason, key=move.key)
    )


async def collaboration_bid(
    collaboration: IdArgument,
    /,
    *,
    score: Annotated[
        float, about("How well the agent can do the task, from 0 to 1.", gte=0, lte=1)
    ],
    offer: Annotated[str | None, about("Terms that the agent offers, as JSON or text.")] = None,
    move: MoveOptions,
) -> None:
    """Make a bid in answer to a call for bids."""
    await move.make(
        collaboration,
        lambda api, each: api.bid(each, move.agent, score, offer=json_or_text(offer), key=move.key),
    )


async def collaboration_decline(
    collaboration: IdArgument, /, *, reason: ReasonOption = "", move: MoveOptions
) -> None:
    """Decline a call for bids, or withdraw a bid."""
    await move.make(
        collaboration, lambda api, each: api.decline(each, move.agent, reason=reason, key=move.key)
    )


async def collaboration_award(
    collaboration: IdArgument, /, *, bidder: BidderOption, move: MoveOptions
) -> None:
    """Accept a bid without changes. The accepted bid becomes the agreement."""
    await move.make(
        collaboration, lambda api, each: api.award(each, move.agent, bidder, key=move.key)
    )


async def collaboration_select(
    collaboration: IdArgument, /, *, bidder: BidderOption, move: MoveOptions
) -> None:
    """Choose one of the bidders, and start to negotiate with this agent. The offer of this bidder
    becomes the current terms."""
    await move.make(
        collaboration, lambda api, each: api.select(each, move.agent, bidder, key=move.key)
    )


async def collaboration_cancel(
    collaboration: IdArgument, /, *, reason: ReasonOption = "", move: MoveOptions
) -> None:
    """End a collaboration before it is completed."""
    await move.make(
        collaboration, lambda api, each: api.cancel(each, move.agent, reason=reason, key=move.key)
    )


def _tell(found: CollaborationDetails, *, as_json: bool) -> None:
    from ekiden.cli.views.messages import print_move

    print_move(found, as_json=as_json)


async def message_list(
    *,
    agent: Annotated[str | None, about("Only messages to this agent.")] = None,
    sender: Annotated[str | None, about("Only messages from this sender.", name="--from")] = None,
    status: Annotated[
        MessageState | None, about("Only messages with this status.", name=STATUS)
    ] = None,
    task: Annotated[str | None, about("Only messages about this task.")] = None,
    correlation: Annotated[str | None, about("Only messages with this correlation id.")] = None,
    waiter: Annotated[str | None, about("Only queries whose answer this agent waits for.")] = None,
    session: Annotated[str | None, about("Only messages that this session sent.")] = None,
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
    message: Annotated[str, about("Message id, or a unique prefix of it.")],
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
    agent: Annotated[str, about("Name of the agent.")],
    text: Annotated[
        str,
        about(
            "Content of the message, as JSON or text. Give - to read the content from "
            "standard input."
        ),
    ],
    /,
    *more: MoreWords,
    subject: Annotated[str, about("Subject of the message.")] = "",
    notify: Annotated[bool, about("Send a notification, which needs no answer.")] = False,
    priority: Annotated[
        PriorityName,
        about("Priority of the message. Workers handle messages of higher priority first."),
    ] = "normal",
    correlation: Annotated[str | None, about("Correlation id of the message.")] = None,
    wait: Annotated[
        float,
        about(
            "Seconds to wait for the answer. An answer that comes later is stored.", gte=0, lte=600
        ),
    ] = 30.0,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> int:
    """Send a query or a notification to an agent of the team.

    The command stores the message, and creates a session in which the agent handles the message. A
    server or a worker must run that session. If there is no answer in time, the exit code is 4.
    """
    from ekiden.cli.errors import Exit
    from ekiden.cli.projects import one_argument, read_text
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
        waits = "; no answer yet: a server or `ekiden worker run` delivers it" if is_open else ""
        note(f"[{sent.message_id}] {sent.state}{waits}")
    return Exit.WAITING if is_open else Exit.OK


async def message_requeue(
    message: Annotated[str, about("Message id, or a unique prefix of it.")],
    /,
    *messages: Annotated[str, about("Further message ids.")],
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Deliver messages with the status dead or expired again. Other messages are skipped."""
    async with place.open() as ekiden:
        ids = [await message_id(ekiden, each) for each in (message, *messages)]
        found = await ekiden.messages.requeue(ids)
    show(found, f"delivered again: {found.requeued}", as_json=as_json)
