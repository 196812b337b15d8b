"""`ekiden init`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from ekiden.cli.options import JsonOption
from ekiden.cli.terminal.approval_prompt import is_attended
from ekiden.cli.terminal.output import emit, note, say
from ekiden.cli.terminal.prompts import ask_line
from ekiden.project.scaffold import TEMPLATES, Template

if TYPE_CHECKING:
    from ekiden.project.scaffold import Scaffold

_DEMO: Final = "demo:offline"
_ABOUT: Final = {
    "support": "a shop's help desk",
    "coding": "developers",
    "research": "a research team",
}
_MODELS: Final = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-2.5-flash",
}
"""The model proposed for a provider whose key is in the environment."""
_REQUESTS: Final = {
    "support": "Where is my order 1042?",
    "coding": "Why does the build crash with a TypeError?",
    "research": "Find papers on heat pumps",
}


def init(
    *,
    template: Annotated[
        Template | None,
        Parameter(
            help="A shop's help desk (support), developers (coding) or a research team "
            "(research); support by default."
        ),
    ] = None,
    model: Annotated[
        str | None,
        Parameter(help="The model of all agents, as provider:model; demo:offline by default."),
    ] = None,
    folder: Annotated[
        Path, Parameter(name="--dir", help="The project's folder; created if it does not exist.")
    ] = Path(),
    yes: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Ask nothing; use the defaults."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a working team of agents into a folder: files, settings, .gitignore.

    At a terminal it asks for the template and the model, and proposes providers whose key is in the
    environment. The default model is a demo, which needs no key. Existing files are kept. The new
    files are trusted; files that existed before are not.
    """
    if is_attended() and not (yes or as_json):
        template, model = template or ask_template(), model or ask_model()
    set_up(folder, template or TEMPLATES[0], model or _DEMO, as_json=as_json)


def set_up(folder: Path, template: Template, model: str, *, as_json: bool = False) -> None:
    """Write the team, and print what was written and the next steps."""
    from ekiden.project.scaffold import scaffold
    from ekiden.project.trust import trust_written, was_trusted

    before = was_trusted(folder)
    made = scaffold(folder, template, model=model)
    is_trusted = trust_written(folder.absolute(), made.written, before=before)
    if as_json:
        emit(
            {
                "template": made.template,
                "folder": str(folder.absolute()),
                "written": [str(path) for path in made.written],
                "kept": [str(path) for path in made.kept],
                "trusted": is_trusted,
                "model": model,
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
    say("\n".join(_next_steps(made, model)))


def ask_template() -> Template:
    """The team that the person picks."""
    options = [f"{name}: {_ABOUT[name]}" for name in TEMPLATES]
    return TEMPLATES[int(_choose("Which team?", options))]


def ask_model() -> str:
    """The model that the person picks: one with a key, the demo, or one that they type."""
    found = _models_with_key()
    options = [
        *(f"{name} ({variable} is set)" for name, variable in found.items()),
        f"{_DEMO}: needs no key, and understands nothing",
    ]
    place = _choose("Which model? A number, or provider:model", options, other=True)
    return place if isinstance(place, str) else [*found, _DEMO][place]


def _models_with_key() -> dict[str, str]:
    """Models of providers whose key is in the environment, with the variable's name."""
    from ekiden.models.providers import BUILT_IN

    return {
        f"{name}:{model}": variable
        for name, model in _MODELS.items()
        for variable in BUILT_IN[name].key_variables
        if os.environ.get(variable)
    }


def _choose(question: str, options: Sequence[str], *, other: bool = False) -> int | str:
    """The index of the option that the person picks, the first by default; with `other` they may
    type something else."""
    note(question)
    for number, option in enumerate(options, 1):
        note(f"  {number}  {option}")
    while True:
        line = ask_line(f"[1-{len(options)}, Enter is 1]: ")
        if not line:
            return 0
        if line.isdecimal() and 1 <= int(line) <= len(options):
            return int(line) - 1
        if other and ":" in line:
            return line
        named = [place for place, each in enumerate(options) if each.startswith(line)]
        if len(named) == 1:
            return named[0]


def _next_steps(made: Scaffold, model: str) -> list[str]:
    from importlib.util import find_spec

    request = _REQUESTS[made.template]
    lines = []
    if made.root / ".ekiden" / "settings.json" in made.kept:
        lines.append("The settings existed before, so their model is used.")
    elif model == _DEMO:
        lines.append(
            f"The model is {_DEMO}, which understands nothing. For real answers set the key of "
            "a provider, then: ekiden config set model openai:gpt-5-mini"
        )
    elif not model.startswith("local:") and find_spec("pydantic_ai") is None:
        lines.append(f"{model} needs a package: pip install 'ekiden[models]'")
    return [
        *lines,
        "Next:",
        *([] if made.root == Path() else [f"  cd {made.root}"]),
        f'  ekiden route "{request}"',
        f'  ekiden run "@auto {request}"',
        "  ekiden chat",
    ]
