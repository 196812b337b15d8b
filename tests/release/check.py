"""Builds the wheel and the sdist, and tries them as users get them: `make release-check`.

    python -m tests.release.check [--json] [--keep FOLDER] [--every-python] [--minutes N]

The files are compared with the committed files, `twine` checks them, and the sdist must build the
same wheel. What the last release called stable must be stable, or listed as removed. Then each
supported Python of this machine gets a new environment with the wheel, which knows nothing of the
clone: the command, the server with its console, and a store of the last release are tried there.
The exit code is 1 if there is a reason not to release.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.docs import stability
from tests.release.archives import (
    Fault,
    Project,
    differences,
    sdist_faults,
    sdist_files,
    wheel_faults,
    wheel_files,
)
from tests.release.environments import (
    QUESTION,
    Deadline,
    Environment,
    Failed,
    OldStore,
    find_python,
    run,
    try_command,
    try_server,
    try_upgrade,
)

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "samples" / "sqlite-format-8.db"
"""What 0.1.0 wrote, which has no tag."""
MOST_MB = 45
MOST_PACKAGES = 25
"""Limits of the core, without extras and without the bytecode that pip compiles."""


@dataclass(kw_only=True)
class Tried:
    """A Python with the wheel."""

    python: str
    interpreter: str
    core_mb: float = 0
    core_mb_with_bytecode: float = 0
    packages: dict[str, str] = field(default_factory=dict)
    """Those of the core, with versions."""
    passed: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Report:
    """The outcome of the check."""

    version: str
    wheel: str = ""
    wheel_bytes: int = 0
    sdist: str = ""
    sdist_bytes: int = 0
    upgraded_from: str = ""
    pythons: list[Tried] = field(default_factory=list)
    missing_pythons: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0


class Check:
    """One check, with its temporary folder."""

    def __init__(self, project: Project, folder: Path, deadline: Deadline) -> None:
        self.project = project
        self.report = Report(version=project.version)
        self._folder = folder
        self._deadline = deadline
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """A line about the progress."""
        print(f"[{time.monotonic() - self._begun:4.0f} s] {text}", file=sys.stderr, flush=True)

    def run(self, *, every_python: bool, keep: Path | None) -> Report:
        """Everything. A fault in the files does not prevent the trials."""
        try:
            wheel, sdist = self._build()
            self._check_files(wheel, sdist)
            self._check_names()
            self._try_pythons(wheel, every_python=every_python)
            if keep is not None and not self.report.faults:
                keep.mkdir(parents=True, exist_ok=True)
                for each in (wheel, sdist):
                    shutil.copy(each, keep)
        except Failed as exc:
            self._found(Fault(str(exc), exc.next_step))
        self.report.seconds = round(time.monotonic() - self._begun, 1)
        return self.report

    def _found(self, *faults: Fault) -> None:
        for each in faults:
            self.say(f"FAULT: {each.problem}\n         next step: {each.next_step}")
        self.report.faults += faults

    def _python(self, *arguments: str | Path, folder: Path = ROOT) -> str:
        """What a module of the development environment prints."""
        command = [sys.executable, "-m", *arguments]
        return run(command, folder=folder, env=os.environ, deadline=self._deadline)

    def _wheel(self, source: Path, name: str) -> Path:
        """The wheel that is built from this folder; the build requirements are locked."""
        folder = self._folder / name
        self._python("build", "--no-isolation", "--wheel", "--outdir", folder, source)
        return next(folder.glob("*.whl"))

    def _build(self) -> tuple[Path, Path]:
        self.say(f"building {self.project.name} {self.project.version}")
        wheel = self._wheel(ROOT, "dist")
        self._python("build", "--no-isolation", "--sdist", "--outdir", wheel.parent, ROOT)
        sdist = next(wheel.parent.glob("*.tar.gz"))
        self.report.wheel, self.report.wheel_bytes = wheel.name, wheel.stat().st_size
        self.report.sdist, self.report.sdist_bytes = sdist.name, sdist.stat().st_size
        for each in (wheel, sdist):
            self.say(f"{each.name}: {each.stat().st_size / 1e6:.1f} MB")
        return wheel, sdist

    def _check_files(self, wheel: Path, sdist: Path) -> None:
        files, sources = wheel_files(wheel), sdist_files(sdist)
        self._found(*wheel_faults(files, self.project), *sdist_faults(sources, self.project))
        self._python("twine", "check", "--strict", wheel, sdist)
        self.say(f"files and metadata: {len(files)} in the wheel, {len(sources)} in the sdist")
        unpacked = self._folder / "unpacked"
        shutil.unpack_archive(sdist, unpacked, filter="data")
        again = self._wheel(unpacked / sdist.name.removesuffix(".tar.gz"), "again")
        self._found(*differences(files, wheel_files(again)))
        self.say("the sdist builds the same wheel")

    def _check_names(self) -> None:
        """All that the last release called stable is stable, or listed as removed."""
        tag, file = last_tag(self.project.version), stability.FILE.relative_to(ROOT)
        if tag is None or not git("ls-tree", tag, str(file)):
            return
        broken = stability.broken(stability.parse(git("show", f"{tag}:{file}")), stability.read())
        for surface, names in broken.items():
            problem = f"{surface} that were stable in {tag}: {', '.join(names)}"
            self._found(Fault(problem, f"keep them, or list them as removed in {file}"))

    def _try_pythons(self, wheel: Path, *, every_python: bool) -> None:
        found = {version: find_python(version) for version in self.project.pythons}
        pythons = {version: python for version, python in found.items() if python is not None}
        self.report.missing_pythons = sorted(found.keys() - pythons.keys())
        if every_python or not pythons:
            for each in self.report.missing_pythons:
                self._found(Fault(f"there is no Python {each}", "install it, on the path"))
        if not pythons:
            return
        old = self._old_store(next(iter(pythons.values())))
        self.report.upgraded_from = old.written_by
        for version, python in pythons.items():
            tried = Tried(python=version, interpreter=str(python))
            self.report.pythons.append(tried)
            try:
                self._try_python(tried, python, wheel, old)
            except Failed as exc:
                self._found(Fault(f"Python {version}: {exc}", exc.next_step))

    def _try_python(self, tried: Tried, python: Path, wheel: Path, old: OldStore) -> None:
        self.say(f"Python {tried.python} ({python}): installing the core")
        environment = Environment(python, self._folder / tried.python, self._deadline)
        whole_before, before = environment.size()
        environment.install(str(wheel))
        whole, size = environment.size()
        tried.core_mb = round((size - before) / 1e6, 1)
        tried.core_mb_with_bytecode = round((whole - whole_before) / 1e6, 1)
        tried.packages = environment.packages
        self.say(f"  the core: {_size(tried)}")
        self._found(*_size_faults(tried))
        try_command(environment, self.project.version)
        self._passed(tried, "ekiden --version, init and run")
        try_upgrade(environment, old)
        self._passed(tried, f"upgrade of a store that {old.written_by} wrote")
        environment.install(f"{wheel}[server]")
        try_server(environment)
        self._passed(tried, "ekiden serve: page and script of the console, a run over HTTP")

    def _passed(self, tried: Tried, what: str) -> None:
        tried.passed.append(what)
        self.say(f"  {what}")

    def _old_store(self, python: Path) -> OldStore:
        """One that the last tag's version writes; without a tag, the committed sample."""
        tag = last_tag(self.project.version)
        if tag is None:
            sample = f"{SAMPLE.relative_to(ROOT)} (there is no earlier tag)"
            return OldStore(written_by=sample, file=SAMPLE, session="finished")
        self.say(f"building {tag}, and writing a store with it")
        archive = self._folder / "tag.tar"
        git("archive", f"--output={archive}", tag)
        shutil.unpack_archive(archive, self._folder / "tag", filter="data")
        environment = Environment(python, self._folder / "old", self._deadline)
        environment.install(str(self._wheel(self._folder / "tag", "tagged")))
        environment.ekiden("init")
        environment.ekiden("run", "--session", "old", QUESTION)
        file = environment.project / ".ekiden" / "ekiden.db"
        return OldStore(written_by=tag, file=file, session="old")


def _size(tried: Tried) -> str:
    whole = f"{tried.core_mb_with_bytecode} MB with bytecode"
    return f"{tried.core_mb} MB ({whole}), {len(tried.packages)} packages"


def _size_faults(tried: Tried) -> Iterator[Fault]:
    advice = "move dependencies into an extra"
    if tried.core_mb > MOST_MB:
        yield Fault(f"the core needs {tried.core_mb} MB, {MOST_MB} MB are the most", advice)
    if len(tried.packages) > MOST_PACKAGES:
        names = ", ".join(tried.packages)
        yield Fault(f"the core has {len(tried.packages)} packages: {names}", advice)


def git(*arguments: str) -> str:
    """What git prints in the clone."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def last_tag(version: str) -> str | None:
    """The newest release before this version in the history; `None` if there is none."""
    tags = git("tag", "--merged", "HEAD", "--sort=-version:refname", "v*").split()
    return next((each for each in tags if each != f"v{version}"), None)


def summary(report: Report) -> str:
    """The report for people."""
    lines = [
        f"ekiden {report.version}: wheel {report.wheel_bytes / 1e6:.1f} MB, "
        f"sdist {report.sdist_bytes / 1e6:.1f} MB, upgrade from {report.upgraded_from}"
    ]
    for each in report.pythons:
        passed = f"{len(each.passed)} of 3 trials passed"
        lines.append(f"Python {each.python}: core {_size(each)}; {passed}")
    if report.pythons:
        listed = (f"{name} {version}" for name, version in report.pythons[-1].packages.items())
        lines.append(f"core: {', '.join(listed)}")
    if report.missing_pythons:
        lines.append(f"not tried, because not installed: {', '.join(report.missing_pythons)}")
    lines += [f"FAULT: {each.problem}\n  next step: {each.next_step}" for each in report.faults]
    verdict = f"{len(report.faults)} faults" if report.faults else "ready for release"
    return "\n".join([*lines, f"{verdict}, after {report.seconds:.0f} s"])


def main() -> int:
    """Check, print the report, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.check")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files if all is well")
    parser.add_argument("--every-python", action="store_true", help="fail if a Python is missing")
    parser.add_argument("--minutes", type=float, default=15, help="give up after this time")
    options = parser.parse_args()
    project = Project.read(ROOT, frozenset(git("ls-files", "-z").split("\0")))
    deadline = Deadline(time.monotonic() + options.minutes * 60)
    with tempfile.TemporaryDirectory(prefix="ekiden-release-") as folder:
        check = Check(project, Path(folder), deadline)
        report = check.run(every_python=options.every_python, keep=options.keep)
    print(json.dumps(asdict(report), indent=1) if options.json else summary(report))
    return int(bool(report.faults))


if __name__ == "__main__":
    sys.exit(main())
