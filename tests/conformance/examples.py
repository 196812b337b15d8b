"""Run the OpenAI Agents SDK's examples, unmodified, with the SDK and with Ekiden; compare outputs.

    python tests/conformance/examples.py [WORD …] [--show] [--keep FOLDER]

Each example runs twice against `openai_server.py` on loopback: with the SDK, and with `agents`
answered by `ekiden.compat.agents`. WORD limits the run to examples whose path has it; `--show`
prints the difference of outputs and the errors; `--keep` stores all outputs. The SDK and the
examples are fetched for the run into the cache; what the SDK printed is remembered there until the
server changes. Examples of sandboxes and voice are listed apart.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from sdist import PROJECT, VERSION, cache_dir, fetch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIME_LIMIT_S = 60
"""Drivers of databases wait 30 s for a server that is not there."""
EXTRAS = "any-llm,encrypt,mongodb,redis,sqlalchemy,viz,voice"
BESIDE = ("aiosqlite", "fastapi", "playwright", "rich", "uvicorn")
"""What examples import and the SDK does not bring."""
EKIDEN_EXTRAS = "guardrails,mcp,models,realtime"
APART = ("/sandbox/", "/voice/")

_MAIN = re.compile(r"__name__\s*==\s*['\"]__main__['\"]")
_CHANGING = [
    (re.compile(r"\b([a-z][a-z_]{1,20})_[0-9a-f]{8,}\b"), r"\1_#"),  # ids
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{32}\b|\b\d{14}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"_\d{10,13}\b"), "_#"),
    (re.compile(r"created_at=\d+\.\d+"), "created_at=#"),
    (re.compile(r"<(function )?[\w.<>]+( object)? at 0x[0-9a-f]{6,}>"), "<object>"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x#"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"127\.0\.0\.1:\d+|localhost:\d+"), "<address>"),
    (re.compile(r"/tmp/[\w./-]+"), "<path>"),
    (re.compile(r"\b\d+\.\d+ ?(s|ms|seconds)\b"), "<duration>"),
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
]
"""What differs from run to run with the same library, and names of private classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How one run of an example ended."""

    code: int | None
    """`None` when it was stopped at the time limit."""
    output: str
    error: str

    @property
    def last_error(self) -> str:
        """The last line that tells what went wrong."""
        if self.code is None:
            return "time limit"
        lines = [line for line in self.error.splitlines() if line and not line.startswith(" ")]
        return lines[-1].strip()[:150] if lines else f"exit code {self.code}"


def main() -> int:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    python = environment()
    with tempfile.TemporaryDirectory(prefix="ekiden-examples-") as folder, server() as port:
        root = unpack(Path(folder))
        chosen = [name for name in discover(root) if not options.words or _has(name, options)]
        known = Remembered()
        with ThreadPoolExecutor(2) as pool:
            of_sdk = dict(
                zip(
                    chosen,
                    pool.map(lambda n: known.run(python, n, root, port), chosen),
                    strict=True,
                )
            )
            runs = [name for name in chosen if of_sdk[name].code == 0]
            ours = {}
            for name, done in zip(
                runs, pool.map(lambda n: run(python, n, root, port, ours=True), runs), strict=True
            ):
                ours[name] = done
                print(*_compare(of_sdk[name], done)[:1], name, file=sys.stderr, flush=True)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        both = {n: {"sdk": asdict(of_sdk[n]), "ekiden": asdict(ours[n])} for n in runs}
        (options.keep / "outputs.json").write_text(json.dumps(both, indent=1))
    print(report(of_sdk, ours, show=options.show))
    return 0


def _has(name: str, options: argparse.Namespace) -> bool:
    return any(word in name for word in options.words)


def environment() -> Path:
    """The Python of an environment with the SDK and Ekiden's dependencies; made once."""
    folder = cache_dir() / f"examples-{VERSION}"
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        uv = shutil.which(
            "uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        )
        if uv is None:
            raise SystemExit("uv is needed: run `make setup` first")
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, str(folder)], check=True)
        wanted = [f"{PROJECT}[{EXTRAS}]=={VERSION}", *BESIDE, f"{ROOT}[{EKIDEN_EXTRAS}]"]
        subprocess.run([uv, "pip", "install", "-q", "--python", str(python), *wanted], check=True)
        subprocess.run(
            [uv, "pip", "uninstall", "-q", "--python", str(python), "ekiden"], check=True
        )
        (folder / ".complete").touch()
    return python


def unpack(target: Path) -> Path:
    """Unpack the examples; gives the folder that `examples` is in."""
    with tarfile.open(fetch()) as source:
        root = f"openai_agents-{VERSION}/"
        wanted = [m for m in source.getmembers() if m.name.startswith(root + "examples/")]
        source.extractall(target, members=wanted, filter="data")
    return target / root


def discover(root: Path) -> list[str]:
    """Examples that can be started, by their path below the folder of all."""
    found = sorted((root / "examples").rglob("*.py"))
    names = [str(path.relative_to(root)) for path in found if _MAIN.search(path.read_text())]
    return [name for name in names if not name.endswith(("server.py", "run_examples.py"))]


@contextmanager
def server() -> Iterator[int]:
    """The loopback server; gives its port."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "openai_server.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


class Remembered:
    """What the SDK printed, kept in the cache until the server or this script changes."""

    def __init__(self) -> None:
        rules = [HERE / "openai_server.py", HERE / "startup/sitecustomize.py", Path(__file__)]
        key = hashlib.sha256(b"".join(each.read_bytes() for each in rules)).hexdigest()[:12]
        self._path = cache_dir() / f"examples-{VERSION}-{key}.json"
        self._known: dict[str, Finished] = {}
        if self._path.exists():
            stored = json.loads(self._path.read_text())
            self._known = {name: Finished(**each) for name, each in stored.items()}

    def run(self, python: Path, name: str, root: Path, port: int) -> Finished:
        """The stored outcome, or a run with the SDK."""
        if name not in self._known:
            self._known[name] = run(python, name, root, port, ours=False)
            self._save()
        return self._known[name]

    def _save(self) -> None:
        self._path.write_text(
            json.dumps({n: asdict(each) for n, each in list(self._known.items())})
        )


def run(python: Path, name: str, root: Path, port: int, *, ours: bool) -> Finished:
    """Run one example in a copy of the examples of its own, at most `TIME_LIMIT_S` seconds."""
    path = [str(HERE / "startup"), *([str(ROOT / "src")] if ours else [])]
    kept = {key: os.environ[key] for key in ("HOME", "LANG", "PATH", "TMPDIR") if key in os.environ}
    base = f"http://127.0.0.1:{port}/v1"
    variables = {
        **kept,
        "PATH": os.pathsep.join(
            [str(python.parent), kept["PATH"], str(Path(sys.executable).parent)]
        ),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONHASHSEED": "0",
        "COLUMNS": "400",  # No id is broken over two lines.
        "OPENAI_API_KEY": "sk-loopback",
        "OPENAI_BASE_URL": base,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "EXAMPLES_INTERACTIVE_MODE": "auto",
        "EXAMPLE_BASE_URL": base,
        "EXAMPLE_API_KEY": "sk-loopback",
        "EXAMPLE_MODEL_NAME": "gpt-4.1",
        **({"EKIDEN_AS_AGENTS": str(HERE)} if ours else {}),
    }
    with tempfile.TemporaryDirectory(prefix="ekiden-example-") as folder:
        place = Path(folder) / "sdk"
        shutil.copytree(root, place)
        module = name.removesuffix(".py").replace("/", ".")
        process = subprocess.Popen(
            [str(python), "-m", module],
            cwd=place,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, error = process.communicate("Hello\n", timeout=TIME_LIMIT_S)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            output, error = process.communicate()
    return Finished(code=code, output=output, error=error)


def steady(text: str) -> str:
    """The output without what differs from run to run."""
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def report(of_sdk: dict[str, Finished], ours: dict[str, Finished], *, show: bool) -> str:
    """One row for each example, and the counts."""
    lines, counts, apart = [], Counter[str](), Counter[str]()
    for name, theirs in of_sdk.items():
        outcome, why = _compare(theirs, ours.get(name))
        (apart if any(part in name for part in APART) else counts)[outcome] += 1
        lines.append(f"{outcome:<10}{name.removeprefix('examples/'):<58}{why}".rstrip())
        if show and outcome in ("different", "failed"):
            lines += ["    " + line for line in _details(theirs, ours[name])]
    for title, each in (("all but sandbox and voice", counts), ("sandbox and voice", apart)):
        ran = each.total() - each["no run"]
        lines.append(f"\n{title}: {each['same']} of {ran} that run with the SDK print the same")
        lines.append(", ".join(f"{key}: {count}" for key, count in sorted(each.items())))
    return "\n".join(lines)


def _compare(theirs: Finished, ours: Finished | None) -> tuple[str, str]:
    if ours is None:
        return "no run", f"the SDK: {theirs.last_error}"
    if ours.code != 0:
        return "failed", ours.last_error
    if steady(theirs.output) == steady(ours.output):
        return "same", ""
    pairs = zip(steady(theirs.output).splitlines(), steady(ours.output).splitlines(), strict=False)
    first = next((f"{a[:60]!r} became {b[:60]!r}" for a, b in pairs if a != b), "lines at the end")
    return "different", first


def _details(theirs: Finished, ours: Finished) -> list[str]:
    if ours.code != 0:
        return ours.error.splitlines()[-25:]
    before, after = steady(theirs.output).splitlines(), steady(ours.output).splitlines()
    return list(difflib.unified_diff(before, after, "SDK", "Ekiden", lineterm="", n=1))[:60]


if __name__ == "__main__":
    raise SystemExit(main())
