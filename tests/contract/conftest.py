"""Failing assertions inside the contract suites show their values."""

import pytest

pytest.register_assert_rewrite("ekiden.testing.contracts", "ekiden.testing.engine_contracts")
