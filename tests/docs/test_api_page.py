"""The reference of the HTTP API is the application's own."""

from __future__ import annotations

from tests.docs.api_page import api_page
from tests.docs.pages import page


def test_the_page_is_what_the_application_says_of_itself() -> None:
    again = "write it anew: python -m tests.docs.api_page > docs/api.md"
    assert page("api.md").text == api_page(), again
