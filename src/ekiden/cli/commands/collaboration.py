"""`ekiden collaboration …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from cyclopts import Parameter
from cyclopts.validators import Number

from ekiden.cli.ids import collaboration_id
from ekiden.cli.list_options import LISTING, Listing
from ekiden.cli.options import JsonOption
from ekiden.cli.place import HERE, WITH_STORE, Place, TeamWithStore
from ekiden.collaboration.protocol.moves import Phase

if TYPE_CHECKING:
    from ekiden.api.collaborations import CollaborationDetails

IdArgument: TypeAlias = Annotated[
    str, Parameter(help="The collaboration's id, or its beginning if no other begins so.")
]
AsOption: TypeAlias = Annotated[
    str, Parameter(name="--as", help="In whose name: an agent that takes part.")
]
InitiatorOption: TypeAlias = Annotated[
    str, Parameter(name="--as", help="In whose name: an agent of the team.")
]
TermsArgument: TypeAlias = Annotated[str, Parameter(help="The terms: JSON, or text.")]
VersionOption: TypeAlias = Annotated[
    int, Parameter(name="--version", validator=Number(gte=1), help="Of the terms on the table.")
]
ReasonOption: TypeAlias = Annotated[
    str, Parameter(name="--reason", help="Why; the others are told.", show_default=False)
]
BidderOption: TypeAlias = Annotated[str, Parameter(name="--bidder", help="Whose bid is taken.")]
ContextOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--context", help='JSON for whoever executes it, such as {"session_id": "s1"}.'),
]
DeadlineOption: TypeAlias = Annotated[
    float | None,
    Parameter(
        name="--deadline",
        validator=Number(gte=0.001, lte=86_000),
        help="Seconds that the others have to answer; else 30 for bids and 300 for the rest.",
    ),
]
RequirementsOption: TypeAlias = Annotated[
    str | None, Parameter(name="--requirements", help="What has to be kept to: JSON, or text.")
]
KeyOption: TypeAlias = Annotated[
    str | None,
    Parameter(name="--key", help="What is said with a key is said once, however often it is sent."),
]


async def collaboration_list(
    *,
    agent: Annotated[
        str | None, Parameter(help="Only those in which this agent takes part.")
    ] = None,
    phase: Annotated[
        tuple[Phase, ...],
        Parameter(
            name="--phase",
            negative="",
            show_default=False,
            help="Only those in this phase; may be given more than once.",
        ),
    ] = (),
    listing: Listing = LISTING,
    place: Place = HERE,
) -> None:
    """List collaborations of agents, the oldest first."""
    from ekiden.cli.views.collaborations import collaboration_table

    async with place.open() as ekiden:
        found = ekiden.collaborations.list(agent=agent, phase=phase)
        await listing.show(found, collaboration_table, none="no collaborations")


async def collaboration_show(
    collaboration: IdArgument, /, *, place: Place = HERE, as_json: JsonOption = False
) -> None:
    """Show a collaboration as it stands, with what was said in it."""
    from ekiden.cli.output import emit
    from ekiden.cli.views.collaborations import print_collaboration
    from ekiden.core.values.documents import to_json

    async with place.open() as ekiden:
        collaboration = await collaboration_id(ekiden, collaboration)
        found = await ekiden.collaborations.get(collaboration)
    if as_json:
        emit(to_json(found))
    else:
        print_collaboration(found)


async def collaboration_request(
    target: Annotated[str, Parameter(help="The agent that is to take the work over.")],
    task: Annotated[str, Parameter(help="What is to be done.")],
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
    """Ask another agent to take work over."""
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
    target: Annotated[str, Parameter(help="The other agent.")],
    terms: TermsArgument,
    /,
    *,
    initiator: InitiatorOption,
    max_rounds: Annotated[
        int | None,
        Parameter(
            name="--max-rounds",
            validator=Number(gte=1, lte=100),
            help="How many terms may be put on the table; else 5.",
        ),
    ] = None,
    context: ContextOption = None,
    deadline: DeadlineOption = None,
    key: KeyOption = None,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> None:
    """Propose terms to another agent; both sides must accept them."""
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
    capability: Annotated[str, Parameter(help="What is required.")],
    /,
    *capabilities: Annotated[str, Parameter(help="What else is required.")],
    initiator: InitiatorOption,
    task: Annotated[str, Parameter(help="What is to be done.", show_default=False)] = "",
    participant: Annotated[
        tuple[str, ...],
        Parameter(
            name="--participant",
            negative="",
            show_default=False,
            help="Call this agent; may be given more than once. Else all others of the team.",
        ),
    ] = (),
    requirements: RequirementsOption = None,
    context: ContextOption = None,
    deadline: DeadlineOption = None,
    key: KeyOption = None,
    place: TeamWithStore = WITH_STORE,
    as_json: JsonOption = False,
) -> None:
    """Call for bids: ask who can do something.

    Agents that a server or a worker runs bid by what they can do, how much they have to do, and
    whether they take anything.
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
    """Say yes to a request, as it is."""
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
    """Accept the terms on the table; agreed when both sides have."""
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
        int | None, Parameter(name="--version", help="Of the terms that are answered.")
    ] = None,
    reason: ReasonOption = "",
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Propose other terms."""
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
    """Reject a request, or the terms on the table."""
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
        float, Parameter(name="--score", validator=Number(gte=0, lte=1), help="How well, 0 to 1.")
    ],
    offer: Annotated[
        str | None, Parameter(name="--offer", help="On what terms: JSON, or text.")
    ] = None,
    key: KeyOption = None,
    place: Place = HERE,
    as_json: JsonOption = False,
) -> None:
    """Bid for a call."""
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
    """Decline a call, or take a bid back."""
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
    """Take a bid as it is: agreed."""
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
    """Negotiate with a bidder; its offer lies on the table."""
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
    from ekiden.cli.views.collaborations import print_move

    print_move(found, as_json=as_json)
