"""The server does what its OpenAPI document says, whatever it is sent, and never breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api_world import api_world
from tests.support.conformance import (
    AMENDED,
    LONGEST_ADDRESS,
    NOT_ASKED,
    NOT_CHECKED,
    Asking,
    conformance_schema,
    operation_ids,
)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with api_world(tmp_path_factory.mktemp("api")) as world:
        yield Asking(world=world)


@pytest.mark.parametrize("operation", operation_ids())
def test_every_operation_answers_as_the_openapi_document_says(
    operation: str, asking: Asking
) -> None:
    asking.ask(operation, examples=1, bad_ones=False)


@pytest.mark.slow
@pytest.mark.parametrize("operation", operation_ids())
def test_every_operation_conforms_under_random_requests(operation: str, asking: Asking) -> None:
    asking.ask(operation, examples=30)


@pytest.mark.slow
def test_linked_operations_accept_each_others_results(asking: Asking) -> None:
    asking.wander(walks=60, steps=12)


def test_a_url_too_long_for_the_parser_is_a_problem(asking: Asking) -> None:
    operation = conformance_schema().find_operation_by_id("agents_match")
    asking.check(operation.Case(query={"text": "x" * LONGEST_ADDRESS}))


def test_excluded_and_amended_operations_exist() -> None:
    known = operation_ids()
    assert len(known) == len(set(known)) > 80
    assert {operation for operation, _ in NOT_CHECKED} <= set(known)
    assert AMENDED.keys() <= set(known)
    assert not NOT_ASKED.keys() & set(known)
