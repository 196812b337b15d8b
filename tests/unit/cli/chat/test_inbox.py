"""Questions to people in a chat: shown, answered, and gone on after."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.cli.chat.catalogue import ChatSources
from ekiden.cli.chat.local import LocalChat
from ekiden.cli.chat.team_commands import split_answer
from ekiden.cli.errors import Exit
from ekiden.core.agent import Agent
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.handoff import handoff, person
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.state.cursor import Cursor, OpenQuestion
from ekiden.sessions import Session
from ekiden.storage.base import Commit, SessionPatch, SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer
from tests.faults.waiting import until
from tests.support.cases import each_case
from tests.unit.cli.chat.doubles import GivenInputs, chat_of, screen_of, talk


async def desk(ctx: CodeContext[Any]) -> str:
    if ctx.text == "never mind":
        return "as you wish"
    answer = await ctx.request_approval(
        "15 % discount?", ("yes", "no"), body="for 山田\x1b[2J\nan old customer"
    )
    return f"{answer.choice} ({answer.text}), says {answer.by} from the {answer.via}"


def a_desk() -> Agent[Any]:
    return Agent("desk", run=desk)


async def open_item(chat: LocalChat) -> InboxItem:
    [item] = (await Inbox(chat.store).list()).items
    return item


class Typing(GivenInputs):
    """A person whose lines are read as they type them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.asides = 0
        self.reads = 0

    async def read(self) -> str | None:
        self.reads += 1
        return await self.lines.get()

    def aside(self) -> Any:
        self.asides += 1
        return super().aside()


def typing(chat: LocalChat) -> Typing:
    assert isinstance(chat.reader, Typing)
    return chat.reader


async def test_a_waiting_turn_names_the_question_and_how_to_answer() -> None:
    chat = chat_of(a_desk())
    assert await talk(chat, "go") == Exit.WAITING
    item = await open_item(chat)
    assert screen_of(chat).errors == []
    assert screen_of(chat).text == (
        "desk asks operator: 15 % discount?\n"
        "  | for 山田\\x1b[2J\n"
        "  | an old customer\n"
        f"/inbox answer {item.id} yes|no\n"
        "waiting for operator; an answer, from here or another terminal, continues it\n"
    )
    record = screen_of(chat).replies[-1].record
    assert [each["id"] for each in record["waiting_for"]] == [item.id]
    assert "a new message withdraws the question" in chat.status().details


async def test_the_inbox_lists_this_session_first() -> None:
    chat = chat_of(a_desk())
    await talk(chat, "/inbox")
    assert screen_of(chat).text == "the inbox is empty\n"
    await talk(chat, "go")
    own = await open_item(chat)
    await Runner.run(a_desk(), "go", session=Session("other", store=chat.store))
    await talk(chat, "/inbox")
    header, first, second, last = screen_of(chat).text.splitlines()
    assert header.split() == ["item", "age", "for", "question", "answers"]
    assert first.split()[:2] == ["*", own.id]
    assert first.endswith("desk: 15 % discount?  yes|no")
    assert not second.startswith("*")
    assert last == "* marks what this session waits for"
    items = screen_of(chat).replies[-1].record["items"]
    assert [each["own"] for each in items] == [True, False]


async def test_an_inbox_item_is_shown_completely_and_quoted() -> None:
    chat = chat_of(a_desk())
    await talk(chat, "go")
    item = await open_item(chat)
    await talk(chat, f"/inbox show {item.id}")
    text = screen_of(chat).text
    assert f"item: {item.id}\nstatus: open\nkind: approval\nfrom: desk\n" in text
    assert "question:\n  | for 山田\\x1b[2J\n  | an old customer\n" in text
    assert screen_of(chat).replies[-1].record["id"] == item.id


async def test_an_answer_in_the_chat_resumes_the_run_before_the_next_message() -> None:
    chat = chat_of(a_desk())
    await talk(chat, "go")
    item = await open_item(chat)
    code = await talk(chat, f"/inbox answer {item.id} YES of course, 好的", "never mind")
    assert code == Exit.OK
    waited, gone_on, next_one = screen_of(chat).outputs
    assert waited is None
    assert gone_on.startswith("yes (of course, 好的), says ")
    assert gone_on.endswith("from the terminal")
    assert next_one == "as you wish"
    assert f"{item.id} answered: yes" in screen_of(chat).text


async def test_an_answer_to_another_session_says_who_continues_it() -> None:
    chat = chat_of(a_desk())
    await Runner.run(a_desk(), "go", session=Session("other", store=chat.store))
    item = await open_item(chat)
    await talk(chat, f"/inbox answer {item.id} no")
    assert screen_of(chat).text == (
        f"{item.id} answered: no; the process that runs session other continues with it\n"
    )
    assert (await Inbox(chat.store).get(item.id)).status == "answered"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("/inbox show", "cli.usage", "name the item: /inbox show ID"),
        ("/inbox answer", "cli.usage", "/inbox answer ID CHOICE [TEXT]"),
        ("/inbox answer {id}", "cli.usage", "give your answer: /inbox answer {id} yes|no"),
        ("/inbox answer {id} maybe", "inbox.answer_invalid", "yes"),
        ("/inbox answer nothing yes", "inbox.not_found", "'nothing'"),
        ("/inbox answr x", "cli.usage", "did you mean /inbox answer?"),
    ],
)
async def test_an_invalid_answer_is_refused_and_the_item_stays_open(
    line: str, code: str, words: str
) -> None:
    chat = chat_of(a_desk())
    await talk(chat, "go")
    item = await open_item(chat)
    await talk(chat, line.format(id=item.id))
    [(told, message)] = screen_of(chat).errors
    assert (told, words.format(id=item.id) in message) == (code, True)
    assert (await open_item(chat)).id == item.id


async def test_a_second_answer_names_who_answered_first() -> None:
    chat = chat_of(a_desk())
    await talk(chat, "go")
    item = await open_item(chat)
    await Inbox(chat.store).answer(item.id, choice="no", by="美咲")
    assert await talk(chat, f"/inbox answer {item.id} yes") == Exit.FAILED
    [(code, message)] = screen_of(chat).errors
    assert (code, "美咲" in message) == ("inbox.closed", True)


async def test_an_answer_from_elsewhere_resumes_the_run_at_the_prompt() -> None:
    chat = chat_of(a_desk(), reader=Typing())
    chatting = asyncio.create_task(talk(chat))
    typing(chat).lines.put_nowait("go")
    await until(lambda: bool(screen_of(chat).replies), "the chat says that it waits")
    await until(lambda: typing(chat).reads == 2, "the prompt is there")
    item = await open_item(chat)
    await Inbox(chat.store).answer(item.id, choice="yes", by="美咲", via="http")
    await until(lambda: len(screen_of(chat).results) == 2, "the turn went on")
    assert screen_of(chat).outputs[1] == "yes (), says 美咲 from the http"
    assert typing(chat).asides == 1
    typing(chat).lines.put_nowait("never mind")
    typing(chat).lines.put_nowait(None)
    assert await asyncio.wait_for(chatting, 60) == Exit.OK
    assert screen_of(chat).outputs[2] == "as you wish"


async def test_a_new_message_withdraws_the_open_question() -> None:
    chat = chat_of(a_desk())
    assert await talk(chat, "go", "never mind") == Exit.WAITING
    assert screen_of(chat).outputs == [None, "as you wish"]
    [item] = (await Inbox(chat.store).list(InboxQuery(status="any"))).items
    assert item.status == "cancelled"
    assert not chat.is_waiting


async def test_entering_a_session_resumes_it_if_it_was_answered_meanwhile() -> None:
    store = MemoryStore()
    agent = a_desk()
    await Runner.run(agent, "go", session=Session("s", store=store))
    chat = chat_of(agent, store=store, session="new")
    await talk(chat, "/session resume s")
    assert "it waits for operator: /inbox shows it" in screen_of(chat).text
    assert screen_of(chat).replies[-1].record["waiting"] is True
    item = await open_item(chat)
    await Inbox(store).answer(item.id, choice="no", by="美咲")
    later = chat_of(agent, store=store)
    assert await talk(later) == Exit.OK
    assert screen_of(later).outputs == ["no (), says 美咲 from the program"]


async def test_the_end_of_a_turn_in_another_process_is_shown() -> None:
    chat = chat_of(a_desk(), reader=Typing())
    chatting = asyncio.create_task(talk(chat))
    typing(chat).lines.put_nowait("go")
    await until(lambda: bool(screen_of(chat).replies), "the chat says that it waits")
    session = Session("s", store=chat.store)
    await Runner.run(chat.roster.team, "never mind", session=session)
    await until(lambda: bool(screen_of(chat).notes), "the chat saw it")
    assert screen_of(chat).notes == ["another process continued this session:"]
    said = [event for event in screen_of(chat).shown if isinstance(event, Event) and event.items]
    assert text_of(said[-1].items[-1]) == "as you wish"
    typing(chat).lines.put_nowait(None)
    await asyncio.wait_for(chatting, 60)


async def test_a_deleted_session_is_no_longer_waited_for() -> None:
    chat = chat_of(a_desk(), reader=Typing())
    chatting = asyncio.create_task(talk(chat))
    typing(chat).lines.put_nowait("go")
    await until(lambda: bool(screen_of(chat).replies), "the chat says that it waits")
    await chat.store.delete("s")
    await until(lambda: bool(screen_of(chat).notes), "the chat saw it")
    assert screen_of(chat).notes == ["this session was deleted"]
    typing(chat).lines.put_nowait("never mind")
    typing(chat).lines.put_nowait(None)
    await asyncio.wait_for(chatting, 60)
    assert screen_of(chat).outputs[-1] == "as you wish"


async def test_a_turn_that_cannot_continue_is_reported_once() -> None:
    store = MemoryStore()
    await Runner.run(a_desk(), "go", session=Session("s", store=store))
    [item] = (await Inbox(store).list()).items
    await Inbox(store).answer(item.id, choice="no", by="美咲")
    chat = chat_of(Agent("clerk", run=desk), store=store)
    assert await talk(chat, "/session") == Exit.NOT_FOUND
    assert [code for code, _ in screen_of(chat).errors] == ["agent.unknown"] * 2, "again later"


async def test_a_store_outage_does_not_end_the_chat() -> None:
    class Flaky(MemoryStore):
        is_disconnected = False

        async def get(self, session_id: str) -> SessionRow:
            if self.is_disconnected:
                raise StoreUnavailable("the network is down")
            return await super().get(session_id)

    store = Flaky()
    chat = chat_of(a_desk(), reader=Typing(), store=store)
    chatting = asyncio.create_task(talk(chat))
    typing(chat).lines.put_nowait("go")
    await until(lambda: bool(screen_of(chat).replies), "the chat says that it waits")
    store.is_disconnected = True
    typing(chat).lines.put_nowait("/help")
    typing(chat).lines.put_nowait(None)
    await asyncio.wait_for(chatting, 60)
    assert screen_of(chat).replies[-1].type == "help"


async def test_a_person_answers_a_handed_off_conversation_in_the_chat() -> None:
    model = ScriptedModel([transfer("person_support", reason="too hard"), say("thank you")])
    front = Agent("front", model=model, handoffs=[handoff(person("support"))])
    chat = chat_of(front)
    await talk(chat, "help me")
    item = await open_item(chat)
    assert f"/inbox answer {item.id} answer|'give back' TEXT\n" in screen_of(chat).text
    await talk(chat, f"/inbox answer {item.id} give back tell them yes")
    assert screen_of(chat).outputs[-1] == "thank you"


async def test_completion_offers_inbox_items_and_their_options() -> None:
    chat = chat_of(a_desk())
    await talk(chat, "go")
    item = await open_item(chat)
    sources = ChatSources(chat.roster, chat.store)
    assert await sources.items() == [(item.id, "desk asks operator: 15 % discount?")]
    await Inbox(chat.store).answer(item.id, choice="yes", by="美咲")
    assert len(await sources.items()) == 1, "it is not read at every key"
    assert list(await sources.choices(item.id[:8])) == ["yes", "no"]
    assert list(await sources.choices("x")) == []


async def test_completion_works_without_a_store() -> None:
    class Broken(MemoryStore):
        async def now_us(self) -> int:
            raise StoreUnavailable("the network is down")

    chat = chat_of(a_desk(), store=Broken())
    assert list(await ChatSources(chat.roster, chat.store).items()) == []


@each_case(
    ("said", "options", "choice", "text"),
    [
        ("yes", ("yes", "no"), "yes", ""),
        ("Y go on", ("yes", "no"), "yes", "go on"),
        ("yesterday", ("yes", "no"), "yesterday", ""),
        ("give back to them", ("give", "give back"), "give back", "to them"),
        ('"Give Back" now', ("answer", "give back"), "give back", "now"),
        ("是 的", ("是", "否"), "是", "的"),
        ("a b", ("alpha", "alps"), "a", "b"),
        ("in my words", (), None, "in my words"),
    ],
)
def test_an_answer_is_split_into_option_and_text(
    said: str, options: tuple[str, ...], choice: str | None, text: str
) -> None:
    assert split_answer(said, options) == (choice, text)


async def test_a_session_waiting_only_for_agents_is_reported() -> None:
    chat = chat_of(a_desk())
    await talk(chat, "never mind")
    claim, row = await chat.store.claim("s", owner="x", lease_s=30)
    cursor = Cursor.from_json(row.cursor)
    cursor.questions.open["1.1.q1"] = OpenQuestion("query", "msg_1", "billing")
    patch = SessionPatch(status="waiting", outcome="waiting", cursor=cursor.to_json())
    await chat.store.commit(claim, Commit(patch=patch, release=True))
    await talk(chat, "/inbox")
    text = "the inbox is empty; this session waits for agent:billing\n"
    assert screen_of(chat).text == text
