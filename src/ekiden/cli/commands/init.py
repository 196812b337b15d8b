"""`ekiden init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ekiden.cli.options import JsonOption
from ekiden.cli.output import emit, say


def init(
    *,
    template: Annotated[
        Literal["support", "coding", "research"],
        Parameter(help="A shop's help desk, developers, or people who find things out."),
    ] = "support",
    folder: Annotated[
        Path, Parameter(name="--dir", help="The project's folder; made if it is not there.")
    ] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Write a working team of agents into a folder: files, settings, .gitignore.

    It runs at once and without a key: the settings name a demo model, and say
    how to change it. Files that are there already are kept as they are. What
    it writes is trusted; what was there before is not.
    """
    from ekiden.project.scaffold import scaffold
    from ekiden.project.trust import trust_written, was_trusted

    before = was_trusted(folder)
    made = scaffold(folder, template)
    is_trusted = trust_written(folder.absolute(), made.written, before=before)
    if as_json:
        emit(
            {
                "template": made.template,
                "folder": str(folder.absolute()),
                "written": [str(path) for path in made.written],
                "kept": [str(path) for path in made.kept],
                "trusted": is_trusted,
            }
        )
        return
    for path in made.written:
        say(f"wrote {path}")
    for path in made.kept:
        say(f"kept  {path}")
    if not is_trusted:
        say("files that were here before are not trusted: see `ekiden trust --show`")
    say()
    say(_next_steps(template, folder))


_REQUESTS = {
    "support": "Where is my order 1042?",
    "coding": "Why does the build crash with a TypeError?",
    "research": "Find papers on heat pumps",
}


def _next_steps(template: str, folder: Path) -> str:
    request = _REQUESTS[template]
    lines = [] if folder == Path() else [f"  cd {folder}"]
    return "\n".join(
        [
            "Try it:",
            *lines,
            "  ekiden agents list",
            f'  ekiden route "{request}"',
            f'  ekiden run "@auto {request}"',
            "The model is demo:offline, which understands nothing; for real answers:",
            "  ekiden config set model openai:gpt-5-mini",
        ]
    )
