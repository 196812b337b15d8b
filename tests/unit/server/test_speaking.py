"""Pieces of answers and answers, brought together."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from ekiden.core.conversation.model import (
    Item,
    ModelDelta,
    assistant_message,
    function_call,
    user_message,
)
from ekiden.core.events import Event, EventType
from ekiden.hub.hub import Shown
from ekiden.server.streams.follow import (
    Broken,
    Piece,
    Speech,
    SpeechEnded,
    SpeechStarted,
    Spoken,
    without_undone_items,
)


def delta(text: str, index: int = 0, kind: Any = "text") -> ModelDelta:
    return ModelDelta(kind=kind, text=text, index=index)


def event(*items: Item, type: EventType = "llm_call", seq: int = 1, **more: Any) -> Event:
    return Event(session_id="s", seq=seq, type=type, at_us=0, items=items, step="1.1.m", **more)


def heard(*shown: Shown) -> list[Spoken]:
    speech = Speech("m")
    return [each for part in shown for each in speech.take(part)]


def test_an_answer_without_deltas_is_sent_as_one_piece() -> None:
    assert heard(event(assistant_message("hello"))) == [
        SpeechStarted(id="m1"),
        Piece(id="m1", text="hello"),
        SpeechEnded(id="m1", text="hello"),
    ]


def test_streamed_deltas_are_not_sent_again() -> None:
    assert heard(delta("hel"), delta("lo"), event(assistant_message("hello"))) == [
        SpeechStarted(id="m1"),
        Piece(id="m1", text="hel"),
        Piece(id="m1", text="lo"),
        SpeechEnded(id="m1", text="hello"),
    ]


def test_text_missing_at_the_end_of_the_deltas_is_added() -> None:
    spoken = heard(delta("hel"), event(assistant_message("hello")))
    assert spoken[2:] == [Piece(id="m1", text="lo"), SpeechEnded(id="m1", text="hello")]


def test_deltas_that_do_not_match_the_answer_are_withdrawn() -> None:
    assert heard(delta("lo"), event(assistant_message("hello"))) == [
        SpeechStarted(id="m1"),
        Piece(id="m1", text="lo"),
        Broken(id="m1", text="lo"),
        SpeechStarted(id="m1b"),
        Piece(id="m1b", text="hello"),
        SpeechEnded(id="m1b", text="hello"),
    ]


def test_a_broken_off_answer_is_withdrawn() -> None:
    failed = event(type="agent_error", error="down")
    assert heard(delta("hel"), failed)[-1] == Broken(id="m1", text="hel")
    rejected = event(type="llm_call")
    assert heard(delta("hel"), rejected)[-1] == Broken(id="m1", text="hel")


def test_only_messages_of_agents_are_sent() -> None:
    asked = Event(
        session_id="s",
        seq=1,
        type="message",
        at_us=0,
        items=(user_message("hi"), assistant_message("earlier")),
    )
    assert heard(asked) == []
    assert heard(event(function_call("c", "f", "{}"))) == []
    assert heard(delta("x", kind="reasoning"), delta("{}", kind="arguments"), delta("")) == []
    assert heard(event(assistant_message("no"), type="guardrail")) == []
    assert heard(event(assistant_message("yes"), type="message"))[-1] == SpeechEnded(
        id="m1", text="yes"
    )


def test_a_refusal_is_sent_as_a_refusal() -> None:
    item = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert heard(event(item)) == [
        SpeechStarted(id="m1"),
        SpeechEnded(id="m1", text="", refusal="no"),
    ]


def test_several_messages_of_one_answer_are_matched_in_order() -> None:
    answer = event(assistant_message("one"), function_call("c", "f", "{}"), assistant_message("2"))
    spoken = heard(delta("one", 1), delta("2", 4), answer)
    ended = [each for each in spoken if isinstance(each, SpeechEnded)]
    assert ended == [SpeechEnded(id="m1", text="one"), SpeechEnded(id="m2", text="2")]


def test_undone_items_are_left_out() -> None:
    events = [
        event(user_message("hi"), type="message", seq=1),
        event(assistant_message("wrong"), seq=2),
        event(type="handoff", seq=3, details={"undoes": [2, 2], "moves": ["rolled_back"]}),
        event(assistant_message("right"), seq=4),
    ]
    assert [each.seq for each in without_undone_items(events)] == [1, 3, 4]


@given(st.lists(st.lists(st.text(max_size=5), max_size=5), max_size=5), st.data())
def test_messages_are_complete_whatever_deltas_are_lost(
    answers: list[list[str]], data: st.DataObject
) -> None:
    speech, texts, ended = Speech("m"), [], []
    live: dict[str, str] = {}
    for place, pieces in enumerate(answers):
        text = "".join(pieces)
        shown: list[Shown] = [delta(piece) for piece in pieces if data.draw(st.booleans())]
        shown.append(event(assistant_message(text), seq=place + 1))
        texts += [text] if text else []
        for each in [each for part in shown for each in speech.take(part)]:
            match each:
                case SpeechStarted(id=name):
                    assert name not in live
                    live[name] = ""
                case Piece(id=name, text=more):
                    live[name] += more
                case SpeechEnded(id=name, text=whole):
                    assert live[name] == whole
                    ended.append(whole)
                case Broken(id=name, text=so_far):
                    assert live[name] == so_far
    assert ended == texts
