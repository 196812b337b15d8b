"""The texts about agents from which the semantic stage learns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.dataclass import dataclass
from ekiden.core.text.wording import lazy_pattern

MAX_TEXTS = 20_000
"""The maximum number of texts of a team. If there are more texts, every agent gets an equal
share."""

_EXAMPLE, _DESCRIPTION, _CAPABILITY, _KEYWORDS, _NAME = 1.0, 0.5, 0.3, 0.2, 0.1
_MAX_SENTENCES = 8
_MAX_CLAUSES = 12
_SHORT_DESCRIPTION = 300
"""Only descriptions up to this length are split into clauses: a long one has enough sentences."""
_MAX_KEYWORDS = 40
_CLAUSE_END = lazy_pattern(
    r"[.!?;:,]+(?:\s+|$)|[。！？；：，、\n]+|\s(?:and|or|und|oder|et|ou|y|o)\s|以及|[和或及]"
)
_SENTENCE_END = lazy_pattern(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_WORD_BREAK = lazy_pattern(r"[^\w]+|_+|\d+|(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentText:
    """A text about an agent."""

    agent: int
    """The position of the agent in the team."""
    text: str
    weight: float
    """The weight of the text, up to 1."""
    is_request: bool
    """Whether the text is worded as a request, like examples. Other texts describe the agent."""


def has_words(text: str) -> bool:
    """Whether a text has a letter of any script.

    An encoder also returns vectors for digits, punctuation and emoji. By chance, each of these
    vectors is near the vector of some agent.
    """
    return any(map(str.isalpha, text))


def texts_of(agents: Sequence[Agent[Any]]) -> list[AgentText]:
    """All texts, in the order of the agents. Every agent has at least one text.

    Examples have the highest weight, then the description, capabilities, keywords and the name. The
    best text of an agent has the weight 1, so that an agent with only a description is not at a
    disadvantage.
    """
    share = max(1, MAX_TEXTS // max(1, len(agents)))
    found: list[AgentText] = []
    for number, agent in enumerate(agents):
        own: dict[str, float] = {}
        for text, weight in _weighted(agent):
            if text.strip():
                own.setdefault(text, weight)
        own = own or {agent.name: _NAME}
        best = max(own.values())
        examples = frozenset(agent.triggers.examples)
        found += [
            AgentText(agent=number, text=text, weight=weight / best, is_request=text in examples)
            for text, weight in _thinned(list(own.items()), share)
        ]
    return found


def sources_of(agent: Agent[Any]) -> tuple[object, ...]:
    """All fields of an agent from which its texts are made."""
    return (
        agent.name,
        agent.title,
        agent.description,
        agent.handoff_description,
        agent.triggers.examples,
        agent.triggers.keywords,
        [(each.name, each.description, each.tags, each.proficiency) for each in agent.capabilities],
    )


def _weighted(agent: Agent[Any]) -> Iterator[tuple[str, float]]:
    for example in agent.triggers.examples:
        yield example, _EXAMPLE
    for description in (agent.description, agent.handoff_description):
        yield from _described(description or "")
    yield agent.title or "", _CAPABILITY
    for each in agent.capabilities:
        parts = (_as_words(each.name), each.description, ", ".join(each.tags))
        yield ": ".join(filter(None, parts)), _CAPABILITY * max(each.proficiency, 0.1)
    yield ", ".join(agent.triggers.keywords[:_MAX_KEYWORDS]), _KEYWORDS
    yield _as_words(agent.name), _NAME


def _described(description: str) -> Iterator[tuple[str, float]]:
    """A description, its sentences, and the clauses of a short description.

    A request is usually similar to one of its parts. A request about hotels is similar to the last
    word of "Books flights and hotels".
    """
    yield description, _DESCRIPTION
    sentences = [each.strip() for each in _SENTENCE_END.split(description[:4_000]) if each.strip()]
    if len(sentences) > 1:
        for sentence in sentences[:_MAX_SENTENCES]:
            yield sentence, _DESCRIPTION / 2
    if len(description) <= _SHORT_DESCRIPTION:
        clauses = [each.strip() for each in _CLAUSE_END.split(description)]
        clauses = [each for each in clauses if len(each) > 1]
        if len(clauses) > 1:
            for clause in clauses[:_MAX_CLAUSES]:
                yield clause, _DESCRIPTION / 2


def _as_words(name: str) -> str:
    return " ".join(filter(None, _WORD_BREAK.split(name))).lower()


def _thinned(texts: list[tuple[str, float]], share: int) -> list[tuple[str, float]]:
    if len(texts) <= share:
        return texts
    step = len(texts) / share
    return [texts[int(number * step)] for number in range(share)]


REQUESTS_WEIGHT = 0.3

REQUESTS = (
    "Good morning, how are you?",
    "Thank you, that was very helpful.",
    "Are you a real person?",
    "Tell me a joke.",
    "What is the meaning of life?",
    "Who won the match last night?",
    "Why is the sky blue?",
    "What is the capital of Mongolia?",
    "When did the Roman Empire fall?",
    "What is seventeen times twenty-three?",
    "How do vaccines work?",
    "Who is the president of Brazil?",
    "Write a short poem about autumn.",
    "Recommend a series like the one about the chess player.",
    "My cat refuses to eat.",
    "When should I plant tomatoes?",
    "How do I unclog a sink?",
    "Explain what this stack trace means.",
    "Draw a chart of sales by region.",
    "Is this contract valid without a signature?",
    "I have had a headache for three days.",
    "Which university is good for marine biology?",
    "What does my horoscope say?",
    "How do I start a small business?",
)
"""General requests that fit no agent. A request goes to an agent only if it is more similar to the
agent's texts than to these requests. General requests that are similar to an agent's texts are left
out."""

SUBJECTS_WEIGHT = 0.3

SUBJECTS = (
    "Gives weather forecasts.",
    "Reports sports results and news about teams and players.",
    "Answers questions about history.",
    "Answers questions about geography and countries.",
    "Explains physics, chemistry and biology.",
    "Solves mathematics and arithmetic problems.",
    "Translates texts between languages.",
    "Explains what words mean and how they are spelled.",
    "Writes poems, stories and jokes.",
    "Recommends films, series and books.",
    "Plays music and finds songs.",
    "Takes care of pets and other animals.",
    "Gives advice about gardening and plants.",
    "Repairs things around the house.",
    "Cleans rooms, clothes and stains.",
    "Gives legal advice about contracts and the law.",
    "Gives medical advice about illness and pain.",
    "Helps with exercise, fitness and sleep.",
    "Suggests recipes and meals.",
    "Recommends and books restaurants.",
    "Plans trips and books flights and hotels.",
    "Gives directions and traffic information.",
    "Repairs and maintains cars.",
    "Manages bank accounts and payments.",
    "Gives advice about investments and taxes.",
    "Sells products and compares prices.",
    "Tracks orders and parcels.",
    "Handles invoices and refunds.",
    "Sets alarms, timers and reminders.",
    "Manages the calendar and meetings.",
    "Sends messages and makes phone calls.",
    "Controls lights, heating and other devices at home.",
    "Chats about itself, greets people and makes small talk.",
    "Gives advice about love, family and friends.",
    "Discusses politics, elections and government.",
    "Reports the news of the day.",
    "Answers questions about famous people and celebrities.",
    "Discusses philosophy and religion.",
    "Tells horoscopes and dreams.",
    "Teaches lessons and helps with homework.",
    "Advises on schools, universities and careers.",
    "Helps people find jobs and write applications.",
    "Helps employees with holidays, pay and insurance.",
    "Buys, sells and rents houses and flats.",
    "Writes and fixes program code.",
    "Solves problems with computers, phones and software.",
    "Manages accounts and passwords.",
    "Designs pictures, logos and web pages.",
    "Analyses data and draws charts.",
    "Writes letters, articles and reports.",
    "Plans marketing and advertising.",
    "Plays games and tells riddles.",
    "Gives advice about fashion and beauty.",
    "Organises parties and events, and suggests gifts.",
    "Answers questions about paintings, museums and art.",
    "Explains astronomy and space.",
    "Repeats, stops, or changes the volume and the language.",
    "Answers questions about public transport and timetables.",
    "Answers questions about opening hours and places nearby.",
    "Supports mothers, babies and children.",
)
"""Descriptions of all sorts of agents. For a team without examples, the descriptions that are
similar to none of its own agents are additional targets. A request that is more similar to such a
target than to the team's agents fits no agent of the team."""
