"""`ekiden agents …`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from ekiden.agents import AgentDefinition, AgentFileProblem, origin_of, read_agent_file
from ekiden.cli.errors import Exit, NobodyCapable, UsageError
from ekiden.cli.options import (
    LISTING,
    WHOLE,
    JsonOption,
    LimitOption,
    Listing,
    TrustOption,
    WholeListing,
    WideOption,
    about,
)
from ekiden.cli.output import emit, note, print_pairs, print_table, say, show
from ekiden.cli.place import AT_WORK, HERE, THE_TEAM, Place, TeamAtWork, TeamPlace
from ekiden.cli.projects import relative
from ekiden.tools import is_project_function

_T = TypeVar("_T")
_IMPORTED = ("written", "replaced", "exists", "refused", "no_agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The result of checking agent files."""

    files: int
    """How many were checked."""
    problems: Sequence[AgentFileProblem]
    """Sorted by file, line and column."""
    not_looked_up: int = 0
    """How many tools are functions of modules that were not imported."""
    no_model: Sequence[str] = ()
    """The agents in these files that have no model."""

    def fails(self, *, strict: bool) -> bool:
        """Whether the check failed."""
        return any(strict or problem.severity == "error" for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """As `ekiden agents validate --json` prints it."""
        return {
            "ok": not self.fails(strict=False),
            "files": self.files,
            "errors": self._count("error"),
            "warnings": self._count("warning"),
            "not_looked_up": self.not_looked_up,
            "no_model": list(self.no_model),
            "problems": [problem.to_json() for problem in self.problems],
        }

    def to_text(self) -> str:
        """The text of the result: a line for every problem, a blank line between files, and a
        summary."""
        lines: list[str] = []
        last: Path | None = None
        for problem in map(relative, self.problems):
            if last not in (None, problem.path):
                lines.append("")
            last = problem.path
            lines.append(str(problem))
        errors, warnings = self._count("error"), self._count("warning")
        summary = f"{_counted(self.files, 'file')}, {_counted(errors, 'problem')}"
        if warnings:
            summary += f", {_counted(warnings, 'warning')}"
        if self.not_looked_up:
            functions = _counted(self.not_looked_up, "function")
            summary += (
                f"; {functions} not imported; --imports checks them, and runs the project's code"
            )
        return "\n".join([*lines, "", summary] if lines else [summary])

    def _count(self, severity: str) -> int:
        return sum(problem.severity == severity for problem in self.problems)


def validate(
    paths: Sequence[Path] = (), *, imports: bool = False, trust: bool = False
) -> Validation:
    """Check the files at `paths`, or all agent files of the project.

    A folder means all ``.md`` files in it. Files of the project are checked together with the
    agents that they hand off to. Other files are checked alone. Functions that the files name are
    imported only with `imports`. In this case the folder must be trusted, or `trust` must be set;
    otherwise `FolderNotTrusted` is raised. Raises `UsageError` for a path that does not exist.
    """
    from ekiden.project.project import check_files

    if imports:
        from ekiden.cli.prompts import check_trust
        from ekiden.project.trust import inspect_workspace

        check_trust(inspect_workspace(Path.cwd()), trust=trust)
    checked = check_files(Path.cwd(), inert=not imports)
    problems = _by_file((each.path, each) for each in checked.problems)
    definitions = _by_file((each.path, each) for each in checked.definitions)
    members = problems.keys() | definitions.keys()
    wanted = {os.path.realpath(path): path for path in _expanded(paths)}
    found: list[AgentFileProblem] = []
    unknown = 0
    for real in wanted if paths else members:
        if real in members:
            found += problems.get(real, ())
            unknown += 0 if imports else sum(map(_functions, definitions.get(real, ())))
        else:
            file = read_agent_file(wanted[real])
            found += file.problems
            unknown += _functions(file.definition or file.partial)
    read = {each.name for real in wanted for each in definitions.get(real, ())}
    return Validation(
        files=len(wanted) if paths else len(members),
        problems=sorted(found),
        not_looked_up=unknown,
        no_model=[name for name in checked.no_model if not paths or name in read],
    )


def _by_file(values: Iterable[tuple[Path, _T]]) -> dict[str, list[_T]]:
    found: dict[str, list[_T]] = {}
    for path, value in values:
        found.setdefault(os.path.realpath(path), []).append(value)
    return found


def _functions(definition: AgentDefinition | None) -> int:
    """How many functions would be imported: tools and validators."""
    if definition is None:
        return 0
    named = list(definition.tools)
    if definition.guardrails is not None:
        named += definition.guardrails.functions
    return sum(map(is_project_function, named))


def _expanded(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            found = path.glob("*.md" if origin_of(path / "x.md") == "ekiden" else "**/*.md")
            yield from sorted(each for each in found if not each.name.startswith("."))
        elif os.path.lexists(path):
            yield path
        else:
            raise UsageError(f"there is no file or folder {path}")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


async def agents_list(*, listing: WholeListing = WHOLE, place: TeamPlace = THE_TEAM) -> None:
    """List the agents with their description, source, tools and handoff targets."""
    from ekiden.cli.views.agents import agent_table

    demo = "" if listing.is_json else "this is the demo team; `ekiden init` writes one of your own"
    async with place.open(as_json=listing.is_json, demo=demo) as ekiden:
        await listing.show(ekiden.agents.list(), agent_table, none="no agents")


async def agents_show(
    name: Annotated[str, about("Name of the agent.")],
    /,
    *,
    place: TeamPlace = THE_TEAM,
    as_json: JsonOption = False,
) -> None:
    """Show all details of an agent, including its handoff tools and its file."""
    from ekiden.cli.views.agents import detail_pairs

    async with place.open(as_json=as_json) as ekiden:
        found = await ekiden.agents.get(name)
    show(found, lambda each: print_pairs(detail_pairs(each)), as_json=as_json)


async def agents_ps(*, listing: WholeListing = WHOLE, place: TeamAtWork = AT_WORK) -> None:
    """Show the sessions of each agent, the processes that run them, and the agents or people that
    each agent waits for.

    An agent can wait for another agent (`internal`) or for a person (`user`). An agent outside the
    team is also listed if it has a session or waits for an answer.
    """
    from ekiden.cli.views.agents import presence_table, print_busy

    async with place.open(as_json=listing.is_json) as ekiden:
        found = ekiden.agents.ps()
        shown = await listing.show(found, presence_table, none="no agents")
    if not listing.is_json:
        print_busy(shown, wide=listing.wide)


async def agents_deadlocks(*, listing: Listing = LISTING, place: Place = HERE) -> None:
    """List deadlocks: agents that wait for each other in a circle.

    Ekiden resolves a deadlock by cancelling the queries of one agent, the victim. Current deadlocks
    are listed first, then resolved ones, newest first.
    """
    from ekiden.cli.views.agents import deadlock_table

    async with place.open() as ekiden:
        await listing.show(ekiden.agents.deadlocks(), deadlock_table, none="no deadlocks")


async def agents_match(
    *capabilities: Annotated[
        str,
        about(
            "Required capabilities, separated by commas. tag:NAME stands for any capability "
            "with that tag."
        ),
    ],
    exclude: Annotated[tuple[str, ...], about("Agents to leave out, separated by commas.")] = (),
    min_score: Annotated[float, about("Only agents with at least this score, from 0 to 1.")] = 0.5,
    everybody: Annotated[
        bool, about("Also list agents with a score below --min-score.", name="--all")
    ] = False,
    limit: LimitOption = None,
    place: TeamPlace = THE_TEAM,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find agents by capability, best match first.

    The score of an agent is its mean proficiency in the required capabilities. A missing capability
    counts as 0. For a capability that no agent has, the command searches for capabilities with a
    similar meaning. This search needs the extra `local`.

    If no agent reaches --min-score, the exit code is 5.
    """
    from ekiden.cli.views.agents import match_table, no_match
    from ekiden.core.documents import to_json
    from ekiden.project.routing import parse_names

    required = parse_names(capabilities)
    if not required:
        raise UsageError(
            "name the required capabilities, as in `ekiden agents match refunds,invoices`"
        )
    if not 0 <= min_score <= 1:
        raise UsageError(f"--min-score must be a number from 0 to 1, not {min_score:g}")
    async with place.open(as_json=as_json) as ekiden:
        everyone = ekiden.agents.match(required, exclude=parse_names(exclude), min_score=0)
        found = [each async for each in everyone]
        enough = [match for match in found if match.score >= min_score]
        shown = (found if everybody else enough)[:limit]
        if as_json:
            emit(to_json(shown))
        elif shown:
            print_table(*match_table(shown), wide=wide)
        if not enough:
            team = [each async for each in ekiden.agents.list()]
            raise NobodyCapable(no_match(found, team, min_score, is_remote=place.is_server))


def agents_validate(
    *paths: Annotated[
        Path, about("Agent files or folders to check. Default: all agents of the project.")
    ],
    imports: Annotated[
        bool,
        about("Also check the tools that are Python functions. This imports the project's code."),
    ] = False,
    strict: Annotated[bool, about("Treat warnings as errors.")] = False,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> int:
    """Check agent files, and list every error with its line and column.

    Without --imports, the command runs no code of the project.

    The exit code is 2 if there is an error. With --strict, a warning also gives the exit code 2.
    For agents without a model, the command prints how to set one.
    """

    report = validate(paths, imports=imports, trust=trust)
    if as_json:
        emit(report.to_json())
    else:
        say(report.to_text())
        if report.no_model and not report.fails(strict=False):
            names = ", ".join(report.no_model[:5]) + (", …" if len(report.no_model) > 5 else "")
            note(
                f"no model is configured for {names}: set one with `ekiden config set model "
                "openai:gpt-5-mini` (or local:default, or demo:offline to try it without one)"
            )
    return Exit.USAGE if report.fails(strict=strict) else Exit.OK


def agents_import(
    *sources: Annotated[
        Path, about("Agent files of other programs, or folders that contain such files.")
    ],
    overwrite: Annotated[bool, about("Replace existing files of the same name.")] = False,
    dry_run: Annotated[bool, about("Only report what would be written.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Convert agent files of other programs into .ekiden/agents, and report on each file.

    The folder names .claude, .gemini and .agents show which program the files are for. Files in
    other folders are read as agent files of Claude. The command does not trust the files that it
    writes. Use `ekiden trust` to trust them.

    If a file cannot be imported, the exit code is 2.
    """
    from ekiden.project.scaffold import import_agent_files

    if not sources:
        raise UsageError("name files or folders, as in `ekiden agents import ~/downloads/agents`")
    found = import_agent_files(sources, Path.cwd(), overwrite=overwrite, dry_run=dry_run)
    if as_json:
        emit({"dry_run": dry_run, "files": [each.to_json() for each in found]})
    else:
        for each in found:
            say(f"{each.status:8}  {each.name or '-'}  {each.source}")
            for problem in map(relative, each.problems):
                say(f"          {problem}")
        counts = [(sum(one.status == status for one in found), status) for status in _IMPORTED]
        say(", ".join(f"{count} {status}" for count, status in counts if count) or "no files")
        if any(each.status == "exists" for each in found):
            note("existing files are kept; --overwrite replaces them")
    return Exit.USAGE if any(each.status == "refused" for each in found) else Exit.OK


def agents_schema(*, as_json: JsonOption = False) -> None:
    """Print the JSON Schema of agent files. The output is the same with and without --json.

    Editors use the schema to complete and check the front matter of agent files.
    """
    from ekiden.agents import agent_file_schema

    emit(agent_file_schema())
