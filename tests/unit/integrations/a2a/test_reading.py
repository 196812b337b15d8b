"""What remote agents say, in whatever parts they say it."""

from __future__ import annotations

import pytest
from a2a.helpers.proto_helpers import new_data_part
from a2a.types import Artifact, Message, Part, Task, TaskState, TaskStatus

from ekiden.integrations.a2a.link import view_of_message, view_of_task
from ekiden.integrations.a2a.values import MAX_TEXT, view_from_json


def done(*parts: Part) -> Task:
    status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
    return Task(id="t", status=status, artifacts=[Artifact(artifact_id="a", parts=parts)])


def asks(*parts: Part) -> Task:
    status = TaskStatus(
        state=TaskState.TASK_STATE_AUTH_REQUIRED, message=Message(message_id="m", parts=parts)
    )
    return Task(id="t", status=status)


def test_files_and_links_are_shown_by_name_and_address() -> None:
    view = view_of_task(
        done(Part(text="here:"), Part(url="https://x.example/a"), Part(raw=b"x", filename="a.png"))
    )
    assert view.text == "here:\nhttps://x.example/a\n[a.png]"


def test_several_pieces_of_data_are_a_list() -> None:
    assert view_of_task(done(new_data_part(1), new_data_part([2]))).data == [1, [2]]


@pytest.mark.parametrize(
    ("question", "options", "item"),
    [
        ({"question": {"options": ["a", 1, "b"], "item": "inb_1"}}, ("a", "b"), "inb_1"),
        ({"question": {"options": "a", "item": 1}}, (), ""),
        ({"question": []}, (), ""),
        ([], (), ""),
    ],
)
def test_options_of_a_question_are_read_where_valid(
    question: object, options: tuple[str, ...], item: str
) -> None:
    view = view_of_task(asks(Part(text="which?"), new_data_part(question)))
    assert (view.state, view.options, view.item) == ("asks", options, item)
    assert view_from_json(view.to_json()) == view


def test_an_unknown_task_state_counts_as_working() -> None:
    assert view_of_task(Task(id="t", status=TaskStatus(state=99))).state == "working"


def test_data_that_is_too_long_is_truncated() -> None:
    view = view_of_task(done(new_data_part({"x": "y" * MAX_TEXT})))
    assert view.data is None
    assert len(view.text) == MAX_TEXT
    assert view.text.startswith('{"x":"yyy')


@pytest.mark.parametrize("field", ["id", "context_id"])
def test_task_ids_that_are_too_long_are_refused(field: str) -> None:
    task = done(Part(text="x"))
    setattr(task, field, "i" * 1001)
    with pytest.raises(ValueError, match="more than 1000 characters"):
        view_of_task(task)


def test_message_and_question_ids_that_are_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 1000"):
        view_of_message(Message(message_id="m", context_id="i" * 1001))
    with pytest.raises(ValueError, match="more than 1000"):
        view_of_task(asks(new_data_part({"question": {"options": [], "item": "i" * 1001}})))
