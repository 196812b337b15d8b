"""`ekiden init`, `trust` and `completion …`: a new project, its trust, and the shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from ekiden.cli.errors import UsageError
from ekiden.cli.options import JsonOption, about
from ekiden.cli.output import emit, note, print_table, say
from ekiden.cli.prompts import NotTrustedYet, ask_line, is_attended, listed
from ekiden.core.home import home_folder
from ekiden.project.scaffold import TEMPLATES, Scaffold, Template, scaffold

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
        about(
            "Team to write: a shop's help desk (`support`), developers (`coding`) or "
            "researchers (`research`). Default: support."
        ),
    ] = None,
    model: Annotated[
        str | None, about("Model for all agents, written as provider:model. Default: demo:offline.")
    ] = None,
    folder: Annotated[
        Path, about("Folder of the project. A missing folder is created.", name="--dir")
    ] = Path(),
    yes: Annotated[bool, about("Do not ask; use the defaults.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a working team of agents into a folder: files, settings, .gitignore.

    On a terminal, the command asks for the template and the model. It proposes the providers whose
    API key is in the environment. The default model is a demo that needs no key. Existing files are
    kept unchanged. The command trusts the new files,
    but not the existing ones.
    """
    if is_attended() and not (yes or as_json):
        template, model = template or ask_template(), model or ask_model()
    set_up(folder, template or TEMPLATES[0], model or _DEMO, as_json=as_json)


def set_up(folder: Path, template: Template, model: str, *, as_json: bool = False) -> None:
    """Write the team, and print what was written and the next steps."""
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


def trust(
    folder: Annotated[Path, about("Folder of the project.")] = Path(),
    /,
    *,
    show: Annotated[
        bool,
        about("Show the lines that need trust, and whether the folder is trusted. Change nothing."),
    ] = False,
    listed: Annotated[bool, about("List the folders you trust.", name="--list")] = False,
    revoke: Annotated[bool, about("Stop trusting the folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Trust the code, commands and network addresses in a folder's files.

    The files of a project can import code, start programs, send your keys to a server, and turn
    approvals off. Before a command loads a project, it shows the lines that do this, and asks once
    whether you trust them. Without a terminal, the command stops with an error. Ekiden asks again
    after a change of the settings, of the agent files, or of the imported code.

    Trusted folders are listed in ~/.ekiden/trusted.json.
    """
    if sum((show, listed, revoke)) > 1:
        raise UsageError("--show, --list and --revoke exclude each other: give one")
    if listed:
        _list(as_json=as_json)
    elif revoke:
        _revoke(folder, as_json=as_json)
    else:
        _trust(folder, only_show=show, as_json=as_json)


def _trust(folder: Path, *, only_show: bool, as_json: bool) -> None:
    from ekiden.core.current_agent import acting_agent
    from ekiden.project.trust import inspect_workspace

    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    found = inspect_workspace(folder.absolute())
    lines = found.lines() if found.risks else ()
    if not only_show and not found.is_trusted:
        if acting_agent() is not None:
            raise NotTrustedYet(found)
        found.trust()
    if as_json:
        record: dict[str, Any] = {
            "folder": str(found.root),
            "trusted": found.is_trusted,
            "content": found.content or None,
            "lines": [risk.to_json() for risk in lines],
        }
        emit(record)
        return
    for line in listed(lines):
        say(line)
    if not found.risks:
        say(f"nothing in {found.root} needs trust")
    elif found.is_trusted:
        say(f"{found.root} is trusted in its current state")
    else:
        say(f"{found.root} is not trusted; `ekiden trust` trusts its current state")


def _list(*, as_json: bool) -> None:
    from ekiden.project.trust import TrustedFolders

    rows = [
        (each.folder, datetime.fromtimestamp(max(each.hashes.values(), default=0.0), tz=UTC))
        for each in TrustedFolders().all()
    ]
    if as_json:
        emit([{"folder": folder, "trusted_at": at.isoformat()} for folder, at in rows])
        return
    print_table(("folder", "trusted at"), [(each, f"{at:%Y-%m-%d %H:%M}") for each, at in rows])


def _revoke(folder: Path, *, as_json: bool) -> None:
    from ekiden.project.trust import TrustedFolders

    was_trusted = TrustedFolders().remove(folder)
    if as_json:
        emit({"folder": str(folder.absolute()), "revoked": was_trusted})
    else:
        say(
            f"{folder.absolute()} {'is not trusted any more' if was_trusted else 'was not trusted'}"
        )


Shell: TypeAlias = Literal["bash", "zsh", "fish"]
ShellOption: TypeAlias = Annotated[
    Shell | None,
    about("Shell to set up. Default: the shell in the environment variable SHELL.", name="--shell"),
]

_SCRIPTS: Final[dict[Shell, str]] = {
    "bash": """\
_ekiden() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\\t'*}")
    done < <("${COMP_WORDS[0]}" __complete bash "$COMP_LINE" "$COMP_POINT" 2>/dev/null)
}
complete -o default -F _ekiden ekiden
""",
    "zsh": """\
_ekiden() {
    local line
    local -a found
    local -a typed=("${(@)words[2,CURRENT-1]}" "$PREFIX")
    for line in "${(@f)$("${words[1]}" __complete zsh "${(@)typed}" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( $#found )); then
        _describe -V ekiden found
    else
        _files
    fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _ekiden ekiden
""",
    "fish": """\
function __ekiden_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] __complete fish $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c ekiden -f -k -a '(__ekiden_complete)'
""",
}


def completion_install(*, shell: ShellOption = None, as_json: JsonOption = False) -> None:
    """Install shell completion of commands, options, agents and session ids.

    The command writes a completion script. For bash and zsh, it also adds a line to .bashrc or
    .zshrc that loads the script. Completion never runs the project's code and never asks a
    question.
    """
    from ekiden.cli.parser.shell_completion import write_option_table

    chosen = shell or _own_shell()
    script, startup = _places(chosen)
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(_SCRIPTS[chosen], encoding="utf-8")
        write_option_table()
        is_new = startup is not None and _load_from(startup, script)
    except OSError as exc:
        raise UsageError(
            f"cannot write {exc.filename}: {exc.strerror}; "
            "`ekiden completion show` prints the script"
        ) from exc
    if as_json:
        record = {"shell": chosen, "script": str(script), "startup": startup and str(startup)}
        emit(record)
        return
    say(f"wrote {script}")
    if startup is not None:
        say(f"{'added a line to' if is_new else 'the line is in'} {startup}")
    say(f"Open a new {chosen}, then type: ekiden <Tab>")


def completion_show(*, shell: ShellOption = None, as_json: JsonOption = False) -> None:
    """Print the completion script, so that you can install it yourself."""
    chosen = shell or _own_shell()
    if as_json:
        emit({"shell": chosen, "script": _SCRIPTS[chosen]})
    else:
        say(_SCRIPTS[chosen].rstrip("\n"))


def _own_shell() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    for known in _SCRIPTS:
        if name == known:
            return known
    raise UsageError("which shell? Name it with --shell bash, --shell zsh or --shell fish")


def _places(shell: Shell) -> tuple[Path, Path | None]:
    """The path of the script, and of the file that loads it."""
    home = home_folder()
    if home is None:
        raise UsageError("the home folder is unknown; set HOME, or use `ekiden completion show`")
    script = home / ".ekiden" / "completion" / f"ekiden.{shell}"
    match shell:
        case "bash":
            return script, home / ".bashrc"
        case "zsh":
            return script, Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        case "fish":
            config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
            return config / "fish" / "completions" / "ekiden.fish", None


def _load_from(startup: Path, script: Path) -> bool:
    """Whether a line that loads the script was added."""
    line = f'[ -f "{script}" ] && . "{script}"'
    text = startup.read_text(encoding="utf-8") if startup.exists() else ""
    if line in text.splitlines():
        return False
    gap = "" if not text or text.endswith("\n") else "\n"
    with startup.open("a", encoding="utf-8") as file:
        file.write(f"{gap}{line}\n")
    return True
