"""ETags and `If-Match`."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from ekiden.core.server_errors import PreconditionFailed, RequestInvalid
from ekiden.server import problems
from ekiden.server.versions import Match, Matching, etag_of, parse_if_match
from tests.support.cases import each_case


def test_what_was_read_can_be_changed() -> None:
    match = parse_if_match(etag_of(3))
    assert match.is_condition
    assert match.check(3) == 3


def test_what_somebody_else_changed_cannot() -> None:
    with pytest.raises(PreconditionFailed):
        parse_if_match(etag_of(3)).check(4)


@pytest.mark.parametrize("text", [None, "*", " * "])
def test_without_a_condition_anything_can(text: str | None) -> None:
    match = parse_if_match(text)
    assert match == Match()
    assert not match.is_condition
    assert match.check(7) is None


def test_one_of_several_is_enough() -> None:
    match = parse_if_match('"v1" , "v2","other"')
    assert match.check(2) == 2
    with pytest.raises(PreconditionFailed):
        match.check(3)


def test_a_tag_may_have_a_comma_in_it() -> None:
    match = parse_if_match('"a,b" ,W/"v1,", "v2"')
    assert match.versions == {2}


@each_case("text", ['W/"v3"', '"abc"', '""', '"v"', '"V3"', '"v3 "', '"v٣"'])
def test_tags_that_are_weak_or_not_ours_fit_nothing(text: str) -> None:
    try:
        match = parse_if_match(text)
    except RequestInvalid:
        assert not text.isascii() or " " in text
        return
    with pytest.raises(PreconditionFailed):
        match.check(3)


@each_case("text", ["", "v3", "3", '"v3', 'v3"', '"v3" "v4"', ",", '"a"b"', "\x00"])
def test_what_is_no_tag_is_refused(text: str) -> None:
    with pytest.raises(RequestInvalid):
        parse_if_match(text)


def test_a_route_takes_the_header_and_its_problems_are_told() -> None:
    app = FastAPI()
    problems.install(app)

    @app.put("/thing")
    async def change(match: Matching) -> dict[str, int | None]:
        return {"expected": match.check(3)}

    client = TestClient(app)
    assert client.put("/thing").json() == {"expected": None}
    assert client.put("/thing", headers={"If-Match": '"v3"'}).json() == {"expected": 3}
    stale = client.put("/thing", headers={"If-Match": '"v2"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "request.stale")
    bad = client.put("/thing", headers={"If-Match": "2"})
    assert (bad.status_code, bad.json()["code"]) == (422, "request.invalid")
    [told] = app.openapi()["paths"]["/thing"]["put"]["parameters"]
    assert told["name"] == "If-Match"
