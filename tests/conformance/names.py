"""The public names of the SDK, read from its source archive without running it.

    python -m tests.conformance.names

writes `public_names.json`; `make pages` then writes the table of `docs/compat.md`. A public module
has no underscore in its path and is not `run_internal`; its public names are its ``__all__``, else
the names that it defines without an underscore.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "ekiden" / "compat" / "agents" / "public_names.json"


def names_of_sdk() -> dict[str, list[str]]:
    """Public names by module."""
    from tests.conformance.sdist import VERSION, fetch

    found: dict[str, list[str]] = {}
    with tarfile.open(fetch()) as archive:
        prefix = f"openai_agents-{VERSION}/src/"
        for member in archive:
            if not member.name.startswith(prefix) or not member.name.endswith(".py"):
                continue
            module = member.name.removeprefix(prefix).removesuffix(".py").replace("/", ".")
            module = module.removesuffix(".__init__")
            parts = module.split(".")
            if any(part.startswith("_") for part in parts) or "run_internal" in parts:
                continue
            file = archive.extractfile(member)
            assert file is not None
            found[module] = sorted(set(_defined(ast.parse(file.read()))))
    return dict(sorted(found.items()))


def _defined(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in tree.body:
        for name in _names(node):
            if name == "__all__" and isinstance(node, ast.Assign):
                return [str(each) for each in ast.literal_eval(node.value)]
            if not name.startswith("_") and not _is_type_variable(node):
                names.append(name)
    return names


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _is_type_variable(node: ast.stmt) -> bool:
    value = getattr(node, "value", None)
    name = getattr(getattr(value, "func", None), "id", "")
    return name in ("TypeVar", "ParamSpec", "getLogger")


def states() -> dict[str, tuple[list[str], list[str]]]:
    """For each module the names that work, and the ones that are not supported."""
    from ekiden.compat.agents.not_supported import Placeholder, public_names

    public = public_names()
    # Import all modules first: until then, the name of a module below may be a placeholder.
    ours = {module: importlib.import_module(f"ekiden.compat.{module}") for module in public}

    def works(module: str, name: str) -> bool:
        value = getattr(ours[module], name)
        if not isinstance(value, ModuleType):
            return not isinstance(value, Placeholder)
        below = f"{module}.{name}"
        inside = [each for each in public if each == below or each.startswith(f"{below}.")]
        return not inside or any(works(each, one) for each in inside for one in public[each])

    found = {}
    for module, names in public.items():
        good = [name for name in names if works(module, name)]
        found[module] = (good, [name for name in names if name not in good])
    return found


def is_sandbox(module: str) -> bool:
    """Whether the module is about sandboxes, which are counted apart."""
    return "sandbox" in module.split(".")


def table() -> str:
    """How many names work, and the names that do not, by reason, as Markdown."""
    from ekiden.compat.agents.not_supported import reason_for

    found = states()
    lines = []
    for title, apart in (("Names outside of sandboxes", False), ("Names of sandboxes", True)):
        chosen = [value for key, value in found.items() if is_sandbox(key) == apart]
        works = sum(len(good) for good, _ in chosen)
        total = works + sum(len(bad) for _, bad in chosen)
        lines.append(f"{title}: {works} of {total} work ({works / total:.1%}).\n")
    by_reason: dict[tuple[str, ...], dict[str, None]] = {}
    for module, (good, bad) in found.items():
        for name in (each for each in bad if f"{module}.{each}" not in found):
            shown = f"`{module}.{name}`" if good else f"all names of `{_package(module)}`"
            by_reason.setdefault(tuple(reason_for(f"{module}.{name}")), {})[shown] = None
    lines += ["| not supported | reason | alternative |", "| --- | --- | --- |"]
    lines += (
        f"| {', '.join(sorted(names))} | {' | '.join(why)} |" for why, names in by_reason.items()
    )
    return "\n".join(lines)


def _package(module: str) -> str:
    """The module, or its highest package that is only about an unsupported subject."""
    parts = module.split(".")
    ends = (parts.index(each) + 1 for each in ("sandbox", "hosted_multi_agent") if each in parts)
    return ".".join(parts[: next(ends, len(parts))])


def main() -> None:
    """Write the data."""
    found = names_of_sdk()
    rows = (f'"{key}": {json.dumps(value)}' for key, value in found.items())
    DATA.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    main()
