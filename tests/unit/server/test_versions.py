"""ETags and `If-Match`."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from ekiden.core.errors.server import RequestInvalid
from ekiden.server.answers import Matching, Versions, etag_of, install_handlers, parse_if_match
from tests.support.cases import each_case


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        (None, None),
        ("*", None),
        (" * ", None),
        (etag_of(3), 3),
        ('"open-3"', 3),
        ('"v1" , "v2","other"', [1, 2]),
        ('"a,b" ,W/"v1,", "v2"', 2),
    ],
)
def test_if_match_versions_are_parsed(text: str | None, versions: Versions) -> None:
    assert parse_if_match(text) == versions


@each_case("text", ['W/"v3"', '"abc"', '""', '"v"', '"V3"', '"v3 "', '"v٣"'])
def test_weak_or_foreign_etags_match_nothing(text: str) -> None:
    try:
        assert parse_if_match(text) == []
    except RequestInvalid:
        assert not text.isascii() or " " in text


@each_case("text", ["", "v3", "3", '"v3', 'v3"', '"v3" "v4"', ",", '"a"b"', "\x00"])
def test_an_invalid_etag_is_refused(text: str) -> None:
    with pytest.raises(RequestInvalid):
        parse_if_match(text)


def test_a_route_accepts_if_match_and_reports_its_problems() -> None:
    app = FastAPI()
    install_handlers(app)

    @app.put("/thing")
    async def change(versions: Matching) -> dict[str, Versions]:
        return {"expected": versions}

    client = TestClient(app)
    assert client.put("/thing").json() == {"expected": None}
    assert client.put("/thing", headers={"If-Match": '"v3"'}).json() == {"expected": 3}
    bad = client.put("/thing", headers={"If-Match": "2"})
    assert (bad.status_code, bad.json()["code"]) == (422, "request.invalid")
    [told] = app.openapi()["paths"]["/thing"]["put"]["parameters"]
    assert told["name"] == "If-Match"
