"""Offices for tests of collaborations."""

from __future__ import annotations

import pytest

from tests.unit.collaboration.offices import Office


@pytest.fixture
def office() -> Office:
    return Office()
