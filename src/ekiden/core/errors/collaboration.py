"""Errors of the collaboration protocol; all are `EkidenError`.

CollaborationError
├── CollaborationNotFound
├── CollaborationUnreadable
├── CollaborationBusy
├── ProtocolError
├── NotAParticipant
├── NotYourTurn
├── AnsweredAlready
├── TermsSuperseded
├── RoundsExhausted
└── MessageRefused
    ├── MessageMalformed
    ├── SignatureInvalid
    ├── MessageReplayed
    └── MessageExpired
"""

from __future__ import annotations

from collections.abc import Collection

from ekiden.core.errors import EkidenError


class CollaborationError(EkidenError):
    """Base class of collaboration errors."""

    code = "collaboration.failed"


class CollaborationNotFound(CollaborationError):
    """No collaboration has this id. Closed collaborations are removed after some time."""

    code = "collaboration.not_found"

    def __init__(self, collaboration_id: str) -> None:
        super().__init__(
            f"no collaboration is called {collaboration_id!r:.90}; closed ones are removed after a "
            "while"
        )
        self.collaboration_id = collaboration_id


class CollaborationUnreadable(CollaborationError):
    """The stored data is not a collaboration, or is from a newer Ekiden."""

    code = "collaboration.unreadable"


class CollaborationBusy(CollaborationError):
    """There were too many concurrent moves in one collaboration. Nothing was changed. Try again."""

    code = "collaboration.busy"

    def __init__(self, collaboration_id: str, tries: int) -> None:
        super().__init__(
            f"other processes changed collaboration {collaboration_id} {tries} times during this "
            "move: the move changed nothing, try again"
        )
        self.collaboration_id = collaboration_id


class ProtocolError(CollaborationError):
    """The move is not allowed in the current phase of the collaboration. `fits` lists the phases
    that allow the move."""

    code = "collaboration.phase"

    def __init__(
        self, move: str, *, phase: str, fits: Collection[str], collaboration_id: str, why: str = ""
    ) -> None:
        where = f"in {' or '.join(fits)}" if fits else "only as the start of a new one"
        super().__init__(
            f"{move!r} does not fit collaboration {collaboration_id}, which is in phase {phase!r}"
            f"{f' ({why})' if why else ''}; it would fit {where}"
        )
        self.move, self.phase, self.fits = move, phase, tuple(fits)
        self.collaboration_id = collaboration_id


class NotAParticipant(CollaborationError):
    """The agent does not take part in the collaboration, or does not have the role that the move
    needs."""

    code = "collaboration.not_participant"

    def __init__(self, agent: str, *, collaboration_id: str, needed: str = "a participant") -> None:
        super().__init__(f"{agent!r:.90} is not {needed} of collaboration {collaboration_id}")
        self.agent, self.collaboration_id = agent, collaboration_id


class NotYourTurn(CollaborationError):
    """The agent cannot make this move on its own terms, because the other agent must answer them.
    Accept the terms, wait, or cancel."""

    code = "collaboration.turn"

    def __init__(self, move: str, agent: str, *, collaboration_id: str) -> None:
        super().__init__(
            f"{agent!r} cannot {move} its own terms in collaboration {collaboration_id}: the other "
            "side answers them; accept them, wait, or cancel"
        )
        self.move, self.agent, self.collaboration_id = move, agent, collaboration_id


class AnsweredAlready(CollaborationError):
    """The agent already gave this answer. An answer counts only once."""

    code = "collaboration.answered"

    def __init__(self, what: str, agent: str, *, collaboration_id: str) -> None:
        super().__init__(
            f"{agent!r} has {what} already in collaboration {collaboration_id}; a second answer "
            "does not count"
        )
        self.agent, self.collaboration_id = agent, collaboration_id


class TermsSuperseded(CollaborationError):
    """Newer terms replaced these terms. Read and answer the new terms."""

    code = "collaboration.superseded"

    def __init__(self, named: str, *, current: int, collaboration_id: str) -> None:
        super().__init__(
            f"the terms {named} of collaboration {collaboration_id} are not current: the current "
            f"terms are version {current}; read and answer these terms"
        )
        self.named, self.current, self.collaboration_id = named, current, collaboration_id


class RoundsExhausted(CollaborationError):
    """The limit of counter-proposals is reached. Accept, reject or cancel."""

    code = "collaboration.rounds"

    def __init__(self, rounds: int, *, collaboration_id: str) -> None:
        super().__init__(
            f"collaboration {collaboration_id} has used its {rounds} rounds: accept or reject "
            "the current terms, or cancel"
        )
        self.rounds, self.collaboration_id = rounds, collaboration_id


class MessageRefused(CollaborationError):
    """Base class of errors about refused messages. A refused message has no effect."""

    code = "collaboration.refused"


class MessageMalformed(MessageRefused):
    """The data is not a message of the protocol. The error text describes the fault."""

    code = "collaboration.malformed"


class SignatureInvalid(MessageRefused):
    """The message was forged, or changed after it was signed."""

    code = "collaboration.signature"

    def __init__(self, message_id: str, claimed: str) -> None:
        super().__init__(
            f"message {message_id!r:.90} claims to be from {claimed!r:.90}, but its signature "
            "is invalid: it was forged, or changed on its way"
        )
        self.message_id, self.claimed = message_id, claimed


class MessageReplayed(MessageRefused):
    """The message was already received. A message counts only once."""

    code = "collaboration.replayed"

    def __init__(self, message_id: str, collaboration_id: str) -> None:
        super().__init__(
            f"message {message_id} was already sent in collaboration {collaboration_id}: the "
            "repetition has no effect"
        )
        self.message_id, self.collaboration_id = message_id, collaboration_id


class MessageExpired(MessageRefused):
    """The message is too old. Send it again."""

    code = "collaboration.message_expired"

    def __init__(self, message_id: str, ttl_s: float) -> None:
        super().__init__(
            f"message {message_id} arrived after its time limit of {ttl_s:g} s: send it again"
        )
        self.message_id, self.ttl_s = message_id, ttl_s
