"""Splits a request into tasks by rules, without a model, and describes agents for decomposers.

The request is cut where one part may end and the next begin. There are three kinds of cuts. A
`sentence` cut, at the end of a sentence, always separates two parts. After a `then` cut, the order
also matters. An `and` cut (commas, "and", 和, と) may also be inside one part. Neighbouring parts
that belong together are then joined again. Text in quotation marks or code is never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.agent import Agent
from ekiden.core.conversation.quotes import quote
from ekiden.core.errors import UserError
from ekiden.core.plan import AgentTask, AskModel, Member, TaskDecomposition
from ekiden.core.text.keywords import folded, marked

if TYPE_CHECKING:
    from ekiden.agents.pattern_set import PatternSet


def member_of(agent: Agent[Any]) -> Member:
    """The agent's description for the decomposer."""
    return Member(
        name=agent.name,
        description=agent.handoff_description or agent.description or agent.title or "",
        keywords=tuple(agent.triggers.keywords),
        patterns=tuple(agent.triggers.patterns),
        examples=tuple(agent.triggers.examples),
        capabilities=tuple(
            f"{each.name}: {each.description}" if each.description else each.name
            for each in agent.capabilities
        ),
    )


def members_of(agents: Iterable[Agent[Any]]) -> tuple[Member, ...]:
    """The descriptions of all members for the decomposer, in order."""
    return tuple(member_of(agent) for agent in agents)


def fallback_of(members: Sequence[Member], fallback: str | None) -> str:
    """The name of the member for tasks that fit no other member: `fallback`, or the last member if
    `fallback` is not set."""
    if not members:
        raise UserError("no agent can receive tasks")
    if fallback is None:
        return members[-1].name
    if fallback not in {member.name for member in members}:
        raise UserError(f"the fallback {fallback!r:.80} is not among the agents that get tasks")
    return fallback


_SHORT_WORDS = 2
_SHORT_CJK = 4
_MAX_NOTED = 80
_MAX_REQUEST = 4_000
_EDGES = " \t\r\n,;，；、。"
_REFERS = re.compile(
    r"\b(?:there|it|that|this|them|these|those)\b|那里|那儿|那边|它|そこ|それ|その", re.IGNORECASE
)

Link: TypeAlias = Literal["and", "sentence", "then"]

MAX_CHARS = 20_000
MAX_CLAUSES = 200
"""The maximum number of parts. The last part contains the rest of the request."""
_WHOLE = re.compile(
    r"\"[^\"\n]{0,500}\"|“[^”]{0,500}”|「[^」]{0,500}」|『[^』]{0,500}』|《[^》]{0,500}》"
    r"|`[^`\n]{0,500}`|\bhttps?://\S{1,500}"
)
"""Text that is never cut. All repetitions in these patterns are bounded: otherwise a request of
only quotation marks or spaces would take quadratic time."""
_LATER = (
    r"and\s{1,9}then|and\s{1,9}after\s{1,9}that|after\s{1,9}that|and\s{1,9}afterwards?"
    r"|afterwards?|then|next|finally"
)
_LATER_CJK = "然后|然後|接着|接著|之后再|之後再|随后|隨後|最后|最後に|それから|そのあと|その後|次に"
_ALSO = r"and\s{1,9}also|and\s{1,9}please|and|also|plus|as\s{1,9}well\s{1,9}as"
_ALSO_CJK = "以及|还有|還有|另外|并且|並且|同时|同時に|而且|そして|あと|また|および"
_HAN_KANA = "\u3040-\u30ff\u3400-\u9fff"
_CUT = re.compile(
    rf"""
      (?P<then>
          (?:^|(?<=[\s,;:.!?，。；、！？]))(?:{_LATER})\b[,，]?\s*   # , then …
        | [,，、;；。.!?！？]?\s{{0,9}}(?:{_LATER_CJK})[,，、]?\s*     # ，然后…
        | [,，、]\s{{0,9}}再(?=[{_HAN_KANA}])                          # ，再…
      )
    | (?P<sentence>
          [。！？；]+\s*                                              # 。
        | [.!?…]{{1,9}}(?:\s+|$)                                       # "." but not in 3.5
        | ;\s*
        | \n\s*
      )
    | (?P<and>
          ,?\s{{1,9}}(?:{_ALSO})\s+
        | [,，、]?\s{{0,9}}(?:{_ALSO_CJK})[,，、]?\s*
        | ,\s+ | [，、]\s*
        | (?<=[{_HAN_KANA}])(?:和|跟|与|與)(?=[{_HAN_KANA}\w])
        | (?<=[\u30a0-\u30ff\u3400-\u9fff\w])と、?(?=[\u30a0-\u30ff\u3400-\u9fff\w])
        | \s&\s+
      )
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_ABBREVIATION = re.compile(r"(?:\b[A-Za-z]|\b(?:e\.g|i\.e|etc|vs|St|Mr|Mrs|Ms|Dr|No|approx))\.$")
_LONGEST_ABBREVIATION = 12
_STRONGER: dict[Link, int] = {"and": 0, "sentence": 1, "then": 2}
_KEYWORD = 10
_PATTERN = 20
_NAME = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The part ``text[start:end]`` of a request."""

    link: Link
    """The kind of the cut before it."""
    start: int
    end: int


def clauses(text: str) -> list[Clause]:
    """The parts of `text`, in order, without empty parts."""
    # The replacement has the same length, so that positions in `whole` are also positions in
    # `text`.
    whole = _WHOLE.sub(lambda found: "\ufffc" * len(found.group()), text[:MAX_CHARS])
    parts: list[Clause] = []
    link: Link = "sentence"
    start = 0
    for cut in _CUT.finditer(whole):
        kind: Link = "then" if cut["then"] is not None else "and" if cut["and"] else "sentence"
        before = whole[max(start, cut.start() - _LONGEST_ABBREVIATION) : cut.start() + 1]
        if kind == "sentence" and _ABBREVIATION.search(before):
            continue
        if len(parts) == MAX_CLAUSES - 1:
            break
        mark = 0 if kind != "sentence" else len(cut.group().rstrip())
        end = cut.start() + mark
        if whole[start : cut.start()].strip():
            parts.append(_trimmed(text, start, end, link))
            link = kind
        elif _STRONGER[kind] > _STRONGER[link]:
            link = kind
        start = cut.end()
    if text[start:].strip():
        parts.append(_trimmed(text, start, len(text), link))
    return parts


def _trimmed(text: str, start: int, end: int, link: Link) -> Clause:
    while text[start].isspace():
        start += 1
    while text[end - 1].isspace():
        end -= 1
    return Clause(link=link, start=start, end=end)


@dataclass(slots=True, kw_only=True)
class _Group:
    """Neighbouring clauses that become one task."""

    link: Link
    start: int
    end: int
    member: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDecomposer:
    """Splits a request by rules, using the keywords and patterns of the members.

    The request is split into sentences, and sentences are split at commas and at "and". A part
    becomes a separate task only if it matches another member than the part before it. Neighbouring
    parts that match the same member stay together, in the original words. After "then", "after
    that", 然后, それから and similar words, a task depends on the task before it.

    A part that matches no member becomes a task of the fallback member. If such a part has only one
    or two words, such as "please" or "你好", it is joined to a neighbouring part. A part that is
    unclear without the rest ("the weather there") gets the whole request as a parameter. If the
    split gives more than `max_tasks` tasks, the whole request becomes one task of the fallback
    member.

    The same request always gives the same tasks, with the ids t1, t2, … To split requests by rules
    in a supervisor with a model::

        Supervisor("desk", agents=[weather, general], model=model, decomposer=RuleDecomposer())
    """

    max_tasks: int = 20

    async def decompose(
        self,
        text: str,
        *,
        members: Sequence[Member],
        fallback: str | None,
        ask: AskModel | None,
    ) -> TaskDecomposition:
        """Return the tasks for the request. `ask` is not used, because no model is needed."""
        last = fallback_of(members, fallback)
        matcher = MemberMatcher(members, fallback=last)
        groups = _groups(text, matcher)
        if len(groups) > self.max_tasks:
            note = (
                f"the request has {len(groups)} parts, at most {self.max_tasks} are taken: all of "
                f"it goes to the fallback {last!r}"
            )
            return _alone(text, last, note)
        if len(groups) == 1:
            return _alone(text, groups[0].member or last, *_notes(groups, text, last))
        return TaskDecomposition(
            tasks=_tasks(text, groups, last),
            reasoning=f"Split by keywords and patterns into {len(groups)} parts.",
            notes=tuple(_notes(groups, text, last)),
        )


def _groups(text: str, matcher: MemberMatcher) -> list[_Group]:
    """The clauses in groups, one for each task; at least one group."""
    groups: list[_Group] = []
    for clause in _with_openings(clauses(text), text, matcher):
        member = matcher.best(text[clause.start : clause.end])
        if groups and _belongs(clause, member, groups[-1], text):
            before = groups[-1]
            before.end = clause.end
            before.member = before.member or member
        else:
            groups.append(
                _Group(link=clause.link, start=clause.start, end=clause.end, member=member)
            )
    if not groups:
        return [_Group(link="sentence", start=0, end=len(text), member=matcher.best(text))]
    for group in groups:
        group.member = group.member or matcher.best(text[group.start : group.end])
    return _joined(groups, text)


def _with_openings(parts: Sequence[Clause], text: str, matcher: MemberMatcher) -> Iterator[Clause]:
    """The clauses; short openings of a sentence ("Also, …") are joined to the next clause."""
    held: Clause | None = None
    for part in parts:
        if held is not None and part.link == "and":
            part = Clause(link=held.link, start=held.start, end=part.end)
        elif held is not None:
            yield held
        words = text[part.start : part.end]
        is_opening = part.link != "and" and _is_short(words) and matcher.best(words) is None
        held = part if is_opening else None
        if held is None:
            yield part
    if held is not None:
        yield held


def _belongs(clause: Clause, member: str | None, before: _Group, text: str) -> bool:
    """Whether the clause belongs to the group before it."""
    if member is None:
        is_short = _is_short(text[clause.start : clause.end])
        return clause.link == "and" or is_short or (before.member is None and clause.link != "then")
    if before.member is None:
        is_opening = _is_short(text[before.start : before.end])
        return clause.link == "and" or is_opening
    return member == before.member


def _joined(groups: list[_Group], text: str) -> list[_Group]:
    """The groups, with neighbours for the same member joined."""
    joined: list[_Group] = []
    for group in groups:
        if joined and joined[-1].member == group.member and group.member is not None:
            joined[-1].end = group.end
        else:
            joined.append(group)
    return joined


def _tasks(text: str, groups: Sequence[_Group], fallback: str) -> tuple[AgentTask, ...]:
    """The tasks of the groups. After "then", a task depends on the tasks since the last "then" or
    the start of the sentence."""
    tasks: list[AgentTask] = []
    needed: tuple[str, ...] = ()
    stage: tuple[str, ...] = ()
    for place, group in enumerate(groups, start=1):
        if group.link == "then":
            needed, stage = stage, ()
        elif group.link == "sentence":
            needed, stage = (), ()
        task_id = f"t{place}"
        stage = (*stage, task_id)
        tasks.append(
            AgentTask(
                agent=group.member or fallback,
                description=_words(text, group),
                parameters=_context(text, group),
                depends_on=needed,
                task_id=task_id,
            )
        )
    return tuple(tasks)


def _alone(text: str, agent: str, *notes: str) -> TaskDecomposition:
    task = AgentTask(agent=agent, description=text.strip(), task_id="t1")
    return TaskDecomposition(
        tasks=(task,), reasoning="All of it is for one agent.", notes=tuple(notes)
    )


def _notes(groups: Sequence[_Group], text: str, fallback: str) -> list[str]:
    return [
        f"no keyword or pattern matches {quote(_words(text, group), max_chars=_MAX_NOTED)}: it "
        f"goes to the fallback {fallback!r}"
        for group in groups
        if group.member is None
    ]


def _words(text: str, group: _Group) -> str:
    whole = text[group.start : group.end]
    return whole.strip(_EDGES) or whole


def _context(text: str, group: _Group) -> dict[str, str]:
    """The whole request as a parameter, for a part that is unclear alone."""
    words = _words(text, group)
    if _is_short(words) or _REFERS.search(words):
        return {"request": text.strip()[:_MAX_REQUEST]}
    return {}


def _is_short(text: str) -> bool:
    """Whether the text is only a word or two, such as an interjection."""
    words = re.findall(r"\w+", text)
    letters = sum(map(len, words))
    if any("\u3040" <= each <= "\u9fff" or "\uac00" <= each <= "\ud7ff" for each in text):
        return letters <= _SHORT_CJK
    return len(words) <= _SHORT_WORDS


class MemberMatcher:
    """Finds the member with the most points by keywords and patterns, like `rule` routing.

    A matching pattern counts 20 points, a keyword 10, and the name of the member or of a capability
    5. If several members have the most points, the first of them wins. Keywords match regardless of
    case, white space and compatibility forms. In scripts with spaces, they match only whole words.
    The name of the fallback member does not count, because this member gets all other tasks anyway.

    Raises `UserError` for an invalid pattern.
    """

    def __init__(self, members: Sequence[Member], *, fallback: str) -> None:
        self._members = members
        self._words = [
            _key_words(member, is_fallback=member.name == fallback) for member in members
        ]
        owners = [(place, each) for place, m in enumerate(members) for each in m.patterns]
        self._owners = [place for place, _ in owners]
        self._patterns = _compiled([pattern for _, pattern in owners])

    def best(self, text: str) -> str | None:
        """The name of the member that `text` is for; `None` if nothing matches."""
        look = marked(folded(text))
        points = [
            sum(worth for word, worth in words.items() if word in look) for words in self._words
        ]
        for hit in () if self._patterns is None else self._patterns.matches(text):
            points[self._owners[hit]] += _PATTERN
        top = max(points, default=0)
        return self._members[points.index(top)].name if top else None


def _compiled(patterns: Sequence[str]) -> PatternSet | None:
    if not patterns:
        return None
    from ekiden.agents.pattern_set import PatternSet

    return PatternSet(patterns)


def _key_words(member: Member, *, is_fallback: bool) -> dict[str, int]:
    names = [] if is_fallback else [member.name.replace("_", " ").replace("-", " "), member.name]
    names += [each.partition(":")[0] for each in member.capabilities]
    found = {marked(folded(name)): _NAME for name in names}
    found |= {marked(folded(word)): _KEYWORD for word in member.keywords}
    found.pop("", None)
    return found
