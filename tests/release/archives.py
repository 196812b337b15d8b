"""What the wheel and the sdist of a release must contain, and nothing else."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

PAGE = "ekiden/server/static/index.html"
"""The page of the console."""
_SDIST = frozenset(
    "src console tests docs examples pyproject.toml .gitignore PKG-INFO "
    "README.md CHANGELOG.md LICENSE ARCHITECTURE.md".split()
)
"""The entries of an sdist's folder: all that is allowed, and all that is required."""
_DIST_INFO = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
_ASSET = re.compile(r'(?:src|href)="\./([^"]+)"')
_FILES = "see [tool.hatch.build] in pyproject.toml, and commit or remove the file"


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason not to release, and what to do about it."""

    problem: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What the files are built from."""

    name: str
    version: str
    licence: str
    requires_python: str
    pythons: tuple[str, ...]
    """The supported versions, such as 3.13, oldest first."""
    readme: str
    sources: frozenset[str]
    """The paths of all committed files."""
    added: frozenset[str]
    """Names in the wheel of files that are not below `src`."""

    @classmethod
    def read(cls, root: Path, sources: frozenset[str]) -> Project:
        """The project in this folder."""
        told = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
        project = told["project"]
        prefix = "Programming Language :: Python :: "
        versions = (each.removeprefix(prefix) for each in project["classifiers"])
        return cls(
            name=project["name"],
            version=project["version"],
            licence=project["license"],
            requires_python=project["requires-python"],
            pythons=tuple(each for each in versions if re.fullmatch(r"3\.\d+", each)),
            readme=(root / project["readme"]).read_text("utf-8"),
            sources=sources,
            added=frozenset(
                told["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values()
            ),
        )

    @property
    def in_wheel(self) -> frozenset[str]:
        """The names of all files that the wheel must have."""
        package = {each[4:] for each in self.sources if each.startswith(f"src/{self.name}/")}
        info = {f"{self.name}-{self.version}.dist-info/{each}" for each in _DIST_INFO}
        return frozenset({*package, *self.added, *info})


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """The content of each file by its name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def sdist_files(sdist: Path) -> dict[str, bytes]:
    """The content of each file by its path in the folder of the sdist."""
    with tarfile.open(sdist) as archive:
        found = ((member.name, archive.extractfile(member)) for member in archive.getmembers())
        return {name.partition("/")[2]: file.read() for name, file in found if file is not None}


def wheel_faults(files: Mapping[str, bytes], project: Project) -> Iterator[Fault]:
    """What is foreign, missing or wrong in a wheel."""
    for name in sorted(files.keys() - project.in_wheel):
        yield Fault(f"the wheel has a file that does not belong there: {name}", _FILES)
    for name in sorted(project.in_wheel - files.keys()):
        yield Fault(f"the wheel lacks {name}", _FILES)
    if f"{project.name}/py.typed" not in files:
        yield Fault("the wheel has no py.typed: type checkers ignore the types", _FILES)
    yield from _console_faults(files)
    metadata = files.get(f"{project.name}-{project.version}.dist-info/METADATA", b"")
    yield from _metadata_faults(BytesParser().parsebytes(metadata), project)


def _console_faults(files: Mapping[str, bytes]) -> Iterator[Fault]:
    page = files.get(PAGE, b"").decode()
    assets = _ASSET.findall(page)
    if not any(each.endswith(".js") for each in assets):
        yield Fault("the wheel has no console", "build it: make console")
    for each in assets:
        if f"{PAGE.rpartition('/')[0]}/{each}" not in files:
            yield Fault(f"the console's page names {each}, which is missing", "make console")


def _metadata_faults(metadata: Message, project: Project) -> Iterator[Fault]:
    expected = {
        "Name": project.name,
        "Version": project.version,
        "License-Expression": project.licence,
        "License-File": "LICENSE",
        "Requires-Python": project.requires_python,
        "Description-Content-Type": "text/markdown",
    }
    for key, value in expected.items():
        if metadata[key] != value:
            advice = "see [project] in pyproject.toml"
            yield Fault(f"the metadata has {key}: {metadata[key]} instead of {value}", advice)
    payload = metadata.get_payload(decode=True)
    if not isinstance(payload, bytes) or payload.decode().strip() != project.readme.strip():
        yield Fault("the description is not README.md", "see readme in pyproject.toml")


def sdist_faults(files: Mapping[str, bytes], project: Project) -> Iterator[Fault]:
    """What is foreign or missing in an sdist."""
    for name in sorted(files.keys() - project.sources - {"PKG-INFO"}):
        yield Fault(f"the sdist has a file that is not committed: {name}", _FILES)
    entries = {name.partition("/")[0] for name in files}
    for name in sorted(entries - _SDIST):
        yield Fault(f"the sdist has an entry that does not belong there: {name}", _FILES)
    for name in sorted(_SDIST - entries):
        yield Fault(f"the sdist lacks {name}", _FILES)


def differences(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> Iterator[Fault]:
    """How the wheel from the clone and the wheel from the sdist differ."""
    advice = "compare the include lists of sdist and wheel in pyproject.toml"
    for name in sorted(one.keys() ^ other.keys()):
        where = "the clone" if name in one else "the sdist"
        yield Fault(f"only the wheel that is built from {where} has {name}", advice)
    for name in sorted(one.keys() & other.keys()):
        if one[name] != other[name]:
            yield Fault(f"{name} differs in the wheel that is built from the sdist", advice)
