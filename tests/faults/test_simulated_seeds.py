"""A thousand worlds: whatever goes wrong in them, every promise is kept."""

from __future__ import annotations

import pytest

from ekiden.testing.simulate import replay_command
from ekiden.testing.simulation import simulate

_SHARES, _EACH = 40, 25


@pytest.mark.parametrize("share", range(_SHARES))
def test_every_simulated_seed_keeps_every_promise(share: int) -> None:
    for seed in range(share * _EACH + 1, (share + 1) * _EACH + 1):
        report = simulate(seed=seed)
        assert report.ok, f"{report.violations[0]}\nreplay it with: {replay_command(seed)}"
