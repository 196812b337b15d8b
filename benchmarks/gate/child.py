"""One group of scenarios in a process of its own. `python -m benchmarks.gate` starts it.

    python -P benchmarks/gate/child.py GROUP FOLDER ROUNDS

Prints JSON: the spans in the order in which they were measured, each with its name, its number of
units and its CPU time, and the values that are no spans. Files are written into FOLDER.

A span begins and ends with a call of `getsid`, which no other code calls. At each of these calls,
callgrind writes its counters into a new file (`--dump-before=getsid`). Callgrind is started without
counting (`--instr-atstart=no`), because a process takes several times longer while it counts.
"""

# Imports are measured here, so this file imports hardly anything before.
import os
import sys
import time

IS_COUNTED = "COUNTED" in os.environ
"""Whether this process runs under callgrind."""


class Span:
    """Measures a ``with`` block."""

    measured: list[tuple[str, int, float]] = []  # noqa: RUF012

    def __init__(self, name: str, units: int = 1) -> None:
        self._name = name
        self._units = units

    def __enter__(self) -> None:
        os.getsid(0)
        self._began = time.process_time()

    def __exit__(self, *_: object) -> None:
        taken = time.process_time() - self._began
        os.getsid(0)
        self.measured.append((self._name, self._units, taken))


def count(state: str) -> None:
    """Switch callgrind's counting ``on`` or ``off``."""
    if not IS_COUNTED:
        return
    command = ["vgdb", f"--pid={os.getpid()}", "instrumentation", state]
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=silent)
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        pass  # Callgrind reads commands only while this process works.
    assert ended == (pid, 0), ended


def main() -> None:
    """Run one group, and print what was measured."""
    group, folder, rounds = sys.argv[1:]
    # Threads take turns only when one waits: otherwise the counts depend on the machine's load.
    sys.setswitchinterval(1000)
    count("on")
    if group == "library":
        with Span("import"):
            import ekiden  # noqa: F401
        with Span("import_s1"):
            from ekiden import Agent, Limits, RunConfig, Runner, handoff  # noqa: F401
    elif group == "version":
        out, sys.stdout = sys.stdout, sys.stderr
        with Span("version"):
            from ekiden.cli.main import main as ekiden_command

            ekiden_command(["--version"])
        sys.stdout = out
    count("off")

    import json

    from benchmarks.gate import scenarios

    meter = scenarios.Meter(
        span=Span,
        begin=lambda: count("on"),
        rounds=int(rounds),
        has_floors=not IS_COUNTED,
    )
    values = scenarios.run(group, folder, meter)
    print(json.dumps({"spans": Span.measured, "values": values}))


main()
