"""Which test files of the SDK apply: they use the SDK, and nothing private of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def reason_against(path: Path) -> str | None:
    """Why a file does not apply; `None` if it does."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError:
        return "no Python"
    modules = list(_modules(tree))
    if not any(_is_sdk(module) for module, _ in modules):
        return "does not use the SDK"
    for module, names in modules:
        if _is_sdk(module) and _is_private(module):
            return "private module"
        if _is_sdk(module) and any(_is_private(f"agents.{name}") for name in names):
            return "private name"
    own = set(_defined(tree))
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and text.startswith("agents.") and _is_private(text):
            return "private module"
        name = node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(text, str) and text.isidentifier() and _is_underscored(text):
            name = text  # As `monkeypatch.setattr` has it.
        if _is_underscored(name) and name not in own:
            return "private name"
    return None


def _is_sdk(module: str) -> bool:
    return module == "agents" or module.startswith("agents.")


def _is_private(module: str) -> bool:
    parts = module.split(".")[1:]
    return any(_is_underscored(part) or part == "run_internal" for part in parts)


def _is_underscored(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _modules(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Imported modules with the names that are imported from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, [alias.name for alias in node.names]


def _defined(tree: ast.Module) -> Iterator[str]:
    """Names that the file itself defines, also as attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
