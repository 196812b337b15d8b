"""`ekiden collaboration …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.ids import collaboration_id
from ekiden.cli.options import LISTING, JsonOption, Listing
from ekiden.cli.place import HERE, WITH_STORE, Place, TeamWithStore
from ekiden.cli.terminal.output import show
from ekiden.collaboration.protocol.record import Phase

if TYPE_CHECKING:
    from ekiden.api.collaborations import CollaborationDetails

IdArgument: TypeAlias = Annotated[
    str, Parameter(help="Collaboration id, or a unique prefix of it.")
]
AsOption: TypeAlias = Annotated[
    str,
    Parameter(
        name="--as", help="Act as this agent. The agent must take part in the collaboration."
    ),
]
InitiatorOption: TypeAlias = Annotated[
    str, Parameter(name="--as", help="Act as this agent of the team.")
]
TermsArgument: TypeAlias = Annotated[str, Parameter(help="Proposed terms, as JSON or text.")]
VersionOption: TypeAlias = Annotated[
    int,
    Parameter(
        name="--version", validator=Number(gte=1), help="Version number of the current terms."
    ),
]
ReasonOption: TypeAlias = Annotated[
    str,
    Parameter(
        name="--reason",
        help="Reason for this step. The other agents can read it.",
        show_default=False,
    ),
]
BidderOption: TypeAlias = Annotated[
    str, Parameter(name="--bidder", help="Agent whose bid you choose.")
]
ContextOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--context",
        help='Context for the agent that does the task, as a JSON object, such as {"session_id": '
        '"s1"}.',
    ),
]
DeadlineOption: TypeAlias = Annotated[
    float | None,
    Parameter(
        name="--deadline",
        validator=Number(gte=0.001, lte=86_000),
        help="Time in seconds for the other agents to answer. Default: 30 in a call for bids, "
        "otherwise 300.",
    ),
]
RequirementsOption: TypeAlias = Annotated[
    str | None, Parameter(name="--requirements", help="Requirements for the work, as JSON or text.")
]
KeyOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--key",
        help="Idempotency key. Messages with the same key are sent only once.",
    ),
]


async def collaboration_list(
    *,
    agent: Annotated[str | None, Parameter(help="Only collaborations of this agent.")] = None,
    phase: Annotated[
        tuple[Phase, ...],
        Parameter(
            name="--phase",
            negative="",
            show_default=False,
            help="Only collaborations in this phase. You can repeat this option.",
        ),
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
    target: Annotated[str, Parameter(help="Agent that should do the task.")],
    task: Annotated[str, Parameter(help="Description of the task.")],
    /,
    *,
    initiator: InitiatorOption,
    requirements: RequirementsOption = None,
    context: ContextOption = None,
    deadline: DeadlineOption = None,
    key: KeyOption = None,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> None:
    """Ask another agent to do a task."""
    from ekiden.cli.options import json_object, json_or_text

    along = json_object(context, "--context")
    async with place.work(create=True, as_json=as_json) as (ekiden, _):
        found = await ekiden.collaborations.request(
            initiator,
            target,
            task,
            requirements=json_or_text(requirements),
            context=along,
            deadline_s=deadline,
            key=key,
        )
    _tell(found, as_json)


async def collaboration_propose(
    target: Annotated[str, Parameter(help="Agent that gets the proposal.")],
    terms: TermsArgument,
    /,
    *,
    initiator: InitiatorOption,
    max_rounds: Annotated[
        int | None,
        Parameter(
            name="--max-rounds",
            validator=Number(gte=1, lte=100),
            help="Maximum number of proposals. Default: 5.",
        ),
    ] = None,
    context: ContextOption = None,
    deadline: DeadlineOption = None,
    key: KeyOption = None,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> None:
    """Propose terms to another agent. Both agents must accept the terms."""
    from ekiden.cli.options import json_object, json_or_text

    along = json_object(context, "--context")
    async with place.work(create=True, as_json=as_json) as (ekiden, _):
        found = await ekiden.collaborations.propose(
            initiator,
            target,
            json_or_text(terms),
            max_rounds=max_rounds,
            context=along,
            deadline_s=deadline,
            key=key,
        )
    _tell(found, as_json)


async def collaboration_call(
    capability: Annotated[str, Parameter(help="Required capability.")],
    /,
    *capabilities: Annotated[str, Parameter(help="Further required capabilities.")],
    initiator: InitiatorOption,
    task: Annotated[str, Parameter(help="Description of the task.", show_default=False)] = "",
    participant: Annotated[
        tuple[str, ...],
        Parameter(
            name="--participant",
            negative="",
            show_default=False,
            help="Ask this agent. You can repeat this option. Default: all other agents of the "
            "team.",
        ),
    ] = (),
    requirements: RequirementsOption = None,
    context: ContextOption = None,
    deadline: DeadlineOption = None,
    key: KeyOption = None,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> None:
    """Call for bids: ask which agents can do a task.

    Agents that run on a server or a worker send bids. A bid depends on the agent's capabilities,
    workload and availability.
    """
    from ekiden.cli.options import json_object, json_or_text

    along = json_object(context, "--context")
    async with place.work(create=True, as_json=as_json) as (ekiden, _):
        found = await ekiden.collaborations.call(
            initiator,
            [capability, *capabilities],
            task=task,
            requirements=json_or_text(requirements),
            participants=participant or None,
            context=along,
            deadline_s=deadline,
            key=key,
        )
    _tell(found, as_json)


async def collaboration_acknowledge(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Accept a request without changes."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.acknowledge(collaboration, agent, key=key)
    _tell(found, as_json)


async def collaboration_accept(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    version: VersionOption,
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Accept the current terms. The agreement is made when both agents have accepted."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.accept(collaboration, agent, version, key=key)
    _tell(found, as_json)


async def collaboration_counter(
    collaboration: IdArgument,
    terms: TermsArgument,
    /,
    *,
    agent: AsOption,
    version: Annotated[
        int | None, Parameter(name="--version", help="Version number of the terms that you answer.")
    ] = None,
    reason: ReasonOption = "",
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Propose different terms."""
    from ekiden.cli.options import json_or_text

    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.counter(
            collaboration, agent, json_or_text(terms), version=version, reason=reason, key=key
        )
    _tell(found, as_json)


async def collaboration_reject(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    reason: ReasonOption = "",
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Reject a request, or the current terms."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.reject(collaboration, agent, reason=reason, key=key)
    _tell(found, as_json)


async def collaboration_bid(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    score: Annotated[
        float,
        Parameter(
            name="--score",
            validator=Number(gte=0, lte=1),
            help="How well the agent can do the task, from 0 to 1.",
        ),
    ],
    offer: Annotated[
        str | None, Parameter(name="--offer", help="Offered terms, as JSON or text.")
    ] = None,
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Make a bid in a call for bids."""
    from ekiden.cli.options import json_or_text

    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.bid(
            collaboration, agent, score, offer=json_or_text(offer), key=key
        )
    _tell(found, as_json)


async def collaboration_decline(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    reason: ReasonOption = "",
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Decline a call for bids, or withdraw a bid."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.decline(collaboration, agent, reason=reason, key=key)
    _tell(found, as_json)


async def collaboration_award(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    bidder: BidderOption,
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Accept a bid without changes. The accepted bid becomes the agreement."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.award(collaboration, agent, bidder, key=key)
    _tell(found, as_json)


async def collaboration_select(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    bidder: BidderOption,
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Negotiate with one of the bidders. The bidder's offer becomes the current terms."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.select(collaboration, agent, bidder, key=key)
    _tell(found, as_json)


async def collaboration_cancel(
    collaboration: IdArgument,
    /,
    *,
    agent: AsOption,
    reason: ReasonOption = "",
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """End a collaboration before it is completed."""
    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.cancel(collaboration, agent, reason=reason, key=key)
    _tell(found, as_json)


def _tell(found: CollaborationDetails, as_json: bool) -> None:
    from ekiden.cli.views.messages import print_move

    print_move(found, as_json=as_json)
