"""The page with the examples has them as they are."""

from __future__ import annotations

from tests.docs.examples_page import examples_page
from tests.docs.pages import page


def test_the_page_has_the_programs_of_the_folder() -> None:
    again = "write it anew: python -m tests.docs.examples_page > docs/examples.md"
    assert page("examples.md").text == examples_page(), again
