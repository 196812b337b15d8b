"""What became of a conversation when it was handed over, item by item."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    Item,
    assistant_message,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.events import PRIVATE, Event
from ekiden.handoff import handoff, summarise
from ekiden.handoff.views import (
    MOST_SHOWN,
    role_of,
    shown_conversation,
    text_shown,
    view_before,
)
from ekiden.runtime import Runner
from ekiden.sessions import Session, is_transfer
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say, transfer


def said(seq: int, *items: Item, agent: str = "a", **fields: Any) -> Event:
    """An event that says these items."""
    return Event(
        session_id="s", seq=seq, type="message", at_us=seq, agent=agent, items=items, **fields
    )


def test_without_a_filter_every_entry_is_shown_as_kept() -> None:
    events = [
        said(1, user_message("在吗？")),
        said(2, assistant_message("Yes."), agent="desk"),
        said(3, function_call("c", "weigh", '{"what":"箱子"}'), agent="desk"),
        said(4, function_output("c", "7 kg"), agent="desk"),
    ]
    shown = shown_conversation(events)
    assert (shown.kept, shown.summarised, shown.dropped, shown.more) == (4, 0, 0, 0)
    assert [(each.role, each.text, each.agent, each.seq) for each in shown.entries] == [
        ("user", "在吗？", None, 1),
        ("assistant", "Yes.", "desk", 2),
        ("call", 'weigh({"what":"箱子"})', "desk", 3),
        ("tool", "7 kg", "desk", 4),
    ]
    assert {each.fate for each in shown.entries} == {"kept"}


def test_filtered_entries_are_shown_in_conversation_order() -> None:
    events = [said(n, user_message(f"message {n}")) for n in range(1, 5)]
    result = [user_message("message 2"), user_message("a hint"), user_message("message 4")]
    shown = shown_conversation(events, base=[user_message("from before")], result=result)
    assert [(each.fate, each.text, each.seq) for each in shown.entries] == [
        ("dropped", "from before", None),
        ("dropped", "message 1", 1),
        ("kept", "message 2", 2),
        ("dropped", "message 3", 3),
        ("added", "a hint", None),
        ("kept", "message 4", 4),
    ]
    assert (shown.kept, shown.dropped) == (2, 3)


def test_a_shortened_entry_is_shown_as_kept_and_changed() -> None:
    long = {**assistant_message("x" * 1000), "id": "m1"}
    short = {**assistant_message("x" * 10 + "…"), "id": "m1"}
    [entry] = shown_conversation([said(1, long)], result=[short]).entries
    assert (entry.fate, entry.changed, entry.text) == ("kept", True, "x" * 10 + "…")


async def test_a_summary_is_shown_with_the_entries_it_replaces() -> None:
    last = Agent("last", model=ScriptedModel([say("Done.")]))
    first = Agent(
        "first",
        model=ScriptedModel([say("One."), say("Two."), transfer("last", reason="more")]),
        handoffs=[handoff(last, input_filter=summarise(keep_last=1))],
    )
    store = MemoryStore()
    for text in ("a", "b", "c"):
        await Runner.run(first, text, session=Session("s", store=store))
    events = await store.events("s")
    [transferred] = filter(is_transfer, events)
    assert transferred.details is not None
    result = (await store.steps("s"))[transferred.details["filter"]]
    past = events[: transferred.seq]
    assert view_before(past, transferred.seq) == (None, 0)
    shown = shown_conversation(past, result=result)
    fates = [each.fate for each in shown.entries]
    assert shown.summarised == fates.count("summarised") > 0
    assert fates.count("added") == 1
    assert fates.index("added") > fates.index("summarised")


def test_private_entries_are_shown_without_text() -> None:
    private = {PRIVATE: True}
    events = [said(1, user_message("secret"), details=private), said(2, user_message("open"))]
    shown = shown_conversation(events)
    assert [each.text for each in shown.entries] == ["", "open"]
    added = shown_conversation(events, result=[user_message("it was: secret")]).entries[-1]
    assert (added.fate, added.text) == ("added", "")
    last = [said(1, user_message("open")), said(2, user_message("secret"), details=private)]
    hidden = shown_conversation(last, base=[user_message("before")])
    assert [each.text for each in hidden.entries] == ["", "", ""]
    assert hidden.kept == 3


def test_entries_a_filter_made_from_private_text_are_shown_without_text() -> None:
    events = [
        said(1, user_message("open")),
        said(2, user_message("secret"), details={PRIVATE: True}),
        said(3, assistant_message("between")),
        said(4, user_message("now")),
    ]
    base = [user_message("open"), user_message("secret"), user_message("it was: secret")]
    shown = shown_conversation(events, base=base, after=3)
    assert [each.text for each in shown.entries] == ["open", "", "", "now"]
    result = [*base[:2], user_message("all of it"), user_message("now")]
    shown = shown_conversation(events, base=base, after=3, result=result)
    assert {each.text for each in shown.entries if each.fate == "added"} == {""}
    assert shown_conversation(events[:1], base=base[:1], after=1).entries[0].text == "open"


def test_a_private_message_after_the_base_does_not_hide_the_base() -> None:
    private = said(2, user_message("secret"), details={PRIVATE: True})
    events = [said(1, user_message("one")), private, said(3, user_message("now"))]
    shown = shown_conversation(events, base=[user_message("made of one")], after=1)
    assert [each.text for each in shown.entries] == ["made of one", "", "now"]


def test_only_the_first_entries_of_a_long_conversation_are_shown() -> None:
    events = [said(n, user_message(str(n) * 500)) for n in range(1, MOST_SHOWN + 6)]
    shown = shown_conversation(events)
    assert (shown.kept, len(shown.entries), shown.more) == (MOST_SHOWN + 5, MOST_SHOWN, 5)
    assert all(len(each.text) == 300 for each in shown.entries)


def test_every_kind_of_item_is_shown_with_role_and_text() -> None:
    for item, role, text in (
        ({"role": "developer", "content": "be kind"}, "system", "be kind"),
        ({"role": "narrator", "content": "later"}, "other", "later"),
        ({"type": "reasoning", "summary": [{"text": "hm"}]}, "other", "hm"),
        ({"type": "web_search_call", "queries": ["箱子"]}, "call", "箱子"),
        (
            {"type": "function_call_output", "output": [{"text": "a"}, {"text": "b"}]},
            "tool",
            "a\nb",
        ),
        ({}, "other", ""),
    ):
        assert (role_of(item), text_shown(item)) == (role, text)
