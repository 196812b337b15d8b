"""New virtual environments, and the installed command tried in them as a user would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START_S = 60
_OF_PIP = re.compile(r"PIP_\w+|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE", re.I)
"""Variables with which pip finds packages; no other variable reaches an environment."""
_OWN = {"pip", "setuptools"}
"""Packages that Python puts into every new environment."""
QUESTION = "Where is my order 1042?"


class Failed(Exception):
    """A trial did not work; `next_step` says what to do."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Deadline:
    """When everything must be over, in the time of `time.monotonic`."""

    at: float

    @property
    def left_s(self) -> float:
        """At least one second, for a clear message."""
        return max(1.0, self.at - time.monotonic())


def run(
    command: Sequence[str | Path], *, folder: Path, env: Mapping[str, str], deadline: Deadline
) -> str:
    """What the command prints; `Failed` with the end of its output if it fails."""
    shown = " ".join(str(each) for each in command)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=deadline.left_s,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise Failed(f"{shown} is not finished in time", "raise --minutes, and run again") from exc
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise Failed(f"{shown} ends with {done.returncode}:\n{end}", "run the command yourself")
    return done.stdout


def find_python(version: str) -> Path | None:
    """An interpreter of this version that can make environments: on the path, or from pyenv.

    pyenv's shims are passed over: without pyenv's variables they may choose another version. So are
    interpreters of virtual environments, which no user starts from.
    """
    folders = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [each / f"python{version}" for each in folders if each != pyenv / "shims"]
    candidates += sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.prefix)"
    for each in filter(Path.exists, candidates):
        done = subprocess.run([each, "-c", code], capture_output=True, text=True, check=False)
        found, _, prefix = done.stdout.strip().partition(" ")
        if found == version and not (Path(prefix) / "pyvenv.cfg").exists():
            return each
    return None


class Environment:
    """A virtual environment in `folder`. Its commands get no variables of this process."""

    def __init__(self, python: Path, folder: Path, deadline: Deadline) -> None:
        self.folder = folder
        self.deadline = deadline
        self.project = folder / "project"
        """The empty folder in which the commands run."""
        self.project.mkdir(parents=True)
        self._home = folder / "home"
        self._home.mkdir()
        self._bin = folder / "venv" / "bin"
        self._base = {"PATH": f"{self._bin}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self._run([python, "-m", "venv", folder / "venv"])

    def _run(self, command: Sequence[str | Path], **env: str) -> str:
        home = {"HOME": str(self._home)}
        full = {**self._base, **home, **env}
        return run(command, folder=self.project, env=full, deadline=self.deadline)

    def install(self, requirement: str) -> None:
        """Install with pip, from the index that this machine uses."""
        env = {name: value for name, value in os.environ.items() if _OF_PIP.fullmatch(name)}
        env["HOME"] = str(Path.home())  # It has pip's cache and settings.
        try:
            self._run([self._bin / "pip", "install", "-q", requirement], **env)
        except Failed as exc:
            raise Failed(str(exc), "see whether pip reaches its index") from exc

    def ekiden(self, *arguments: str) -> str:
        """What the command prints."""
        return self._run([self._bin / "ekiden", *arguments])

    def json(self, *arguments: str) -> Any:
        """What the command prints with `--json`."""
        return json.loads(self.ekiden(*arguments, "--json"))

    @property
    def packages(self) -> dict[str, str]:
        """The installed packages with their versions."""
        listed = json.loads(self._run([self._bin / "pip", "list", "--format=json"]))
        return {each["name"]: each["version"] for each in listed if each["name"] not in _OWN}

    def size(self) -> tuple[int, int]:
        """The bytes of all files, and of those that pip did not compile."""
        files = [each for each in (self.folder / "venv").rglob("*") if each.is_file()]
        compiled = sum(each.lstat().st_size for each in files if each.suffix == ".pyc")
        whole = sum(each.lstat().st_size for each in files)
        return whole, whole - compiled

    def imported_from(self) -> Path:
        """The folder of the imported package."""
        code = "import ekiden; print(ekiden.__path__[0])"
        return Path(self._run([self._bin / "python", "-c", code]).strip())

    @contextmanager
    def server(self) -> Iterator[str]:
        """The address of a running server, which ends without an error."""
        command = [self._bin / "ekiden", "serve", "--port", "0", "--log", "none", "--json"]
        process = subprocess.Popen(
            command,
            cwd=self.project,
            env={**self._base, "HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        try:
            yield _address(process)
            process.terminate()
            ended = process.wait(min(_START_S, self.deadline.left_s))
            _expect(ended == 0, f"the server ends with {ended} after SIGTERM", "ekiden serve")
        finally:
            process.kill()
            process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    """Wait for the line with the address; a server that ends prints why."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith('{"url"'):
        raise Failed(f"the server does not start: {line.strip()}", "run ekiden serve yourself")
    return str(json.loads(line)["url"])


def _expect(holds: bool, problem: str, command: str) -> None:
    if not holds:
        raise Failed(problem, f"run {command} in an environment with the wheel")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldStore:
    """A store that an earlier version wrote."""

    written_by: str
    file: Path
    session: str
    """A session in it."""


def try_command(environment: Environment, version: str) -> None:
    """`--version`, `init` and `run`."""
    printed = environment.ekiden("--version").strip()
    _expect(printed == f"ekiden {version}", f"--version prints {printed!r}", "ekiden --version")
    package = environment.imported_from()
    inside = package.is_relative_to(environment.folder)
    _expect(inside, f"ekiden is imported from {package}", "python -c 'import ekiden'")
    environment.ekiden("init")
    ran = environment.json("run", f"@auto {QUESTION}")
    good = (ran["outcome"], ran["agent"]) == ("done", "orders")
    _expect(good, f"the run ends with {ran}", "ekiden run")


def try_upgrade(environment: Environment, old: OldStore) -> None:
    """Read, verify and continue a session of an earlier version."""
    for file in old.file.parent.glob(f"{old.file.name}*"):  # With its write-ahead log, if any.
        shutil.copy(file, environment.project / file.name.replace(old.file.name, "old.db"))
    store = ("--store", "old.db")
    before = environment.json("session", "show", old.session, *store)
    ran = environment.json("run", "--session", old.session, QUESTION, *store)
    after = environment.json("session", "show", old.session, *store)
    where = f"a store that {old.written_by} wrote"
    good = ran["outcome"] == "done" and before["items"] == after["items"][: len(before["items"])]
    _expect(good, f"a session of {where} does not continue: {ran}", "ekiden run --store")
    verified = environment.json("store", "verify", *store)
    _expect(verified["ok"], f"{where} has faults: {verified}", "ekiden store verify")


def try_server(environment: Environment) -> None:
    """The console's page with its script, and a run over HTTP."""
    with environment.server() as url:
        page = _get(url, lambda body: b'id="app"' in body)
        scripts = re.findall(r'src="\./([^"]+\.js)"', page.decode())
        _expect(len(scripts) == 1, f"the console has the scripts {scripts}", "ekiden serve")
        _get(f"{url}/{scripts[0]}", lambda body: len(body) > 10_000)
        _get(f"{url}/healthz", lambda body: json.loads(body)["status"] == "ok")
        asked = {"input": QUESTION, "agent": "auto"}
        _get(
            f"{url}/api/v1/runs",
            lambda body: json.loads(body)["agent"] == "orders",
            send=json.dumps(asked).encode(),
        )


def _get(url: str, is_good: Callable[[bytes], bool], *, send: bytes | None = None) -> bytes:
    """The body that the server answers with; `Failed` if it is not good."""
    request = urllib.request.Request(url, send, {"Content-Type": "application/json"})
    try:
        # The machine's proxy must not be asked for an address of the machine itself.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_START_S) as response:
            body: bytes = response.read()
    except OSError as exc:
        raise Failed(f"{url}: {exc}", "run ekiden serve with the wheel, and open it") from exc
    _expect(is_good(body), f"{url} answers {body[:200]!r}", "ekiden serve")
    return body
