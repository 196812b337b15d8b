"""`ekiden completion …`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import JsonOption
from ekiden.cli.terminal.output import emit, say

Shell: TypeAlias = Literal["bash", "zsh", "fish"]
ShellOption: TypeAlias = Annotated[
    Shell | None,
    Parameter(name="--shell", help="The shell; by default the one in the variable SHELL."),
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
    """Let a shell complete commands, options, agents and session ids.

    It writes a script and, for bash and zsh, a line in .bashrc or .zshrc that loads it. Completion
    never runs the project's code and never prompts.
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
    """Print the completion script, to install it yourself."""
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
    home = Path.home()
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
