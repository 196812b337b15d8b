"""The same seed is the same world, to the letter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random

import pytest

from ekiden.core.values import SYSTEM_CLOCK
from ekiden.testing.simulation import simulate
from ekiden.testing.simulation.loop import SimulatedLoop, seeded

_SEEDS = (3, 8, 14)


def test_a_seed_gives_the_same_trace_whatever_ran_before() -> None:
    first = {seed: simulate(seed=seed).trace for seed in _SEEDS}
    again = {seed: simulate(seed=seed).trace for seed in reversed(_SEEDS)}
    assert first == again


def test_runs_read_the_simulated_clock() -> None:
    loop = SimulatedLoop(Random(1))
    with seeded(loop, Random(1)):
        assert SYSTEM_CLOCK.monotonic() == loop.time() == 0.0
    assert SYSTEM_CLOCK.monotonic() > 0.0
    loop.close()


@pytest.mark.slow
@pytest.mark.parametrize(("hash_seed", "seed"), [("1", 3), ("4711", 8)])
def test_a_seed_gives_the_same_trace_in_another_process(hash_seed: str, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ekiden.testing.simulate", "--seed", str(seed), "--json"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == simulate(seed=seed).digest


def test_different_seeds_give_different_traces() -> None:
    assert len({simulate(seed=seed).digest for seed in range(1, 6)}) == 5
