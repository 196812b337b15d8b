"""What a docstring says about a function and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

DocstringStyle: TypeAlias = Literal["google", "numpy", "sphinx"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """The parts of a docstring that a model is shown."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """By name, without the stars of ``*args`` and ``**kwargs``."""


def read_docstring(text: str | None, style: DocstringStyle | None = None) -> Documentation:
    """Take a docstring, as `inspect.getdoc` gives it, apart; `None` finds out which style it is.

    What cannot be read as any style is all description.
    """
    if not text or ("\n" not in text and ":" not in text):
        return Documentation(description=text or "")
    import docstring_parser as parser

    styles = {
        "google": parser.DocstringStyle.GOOGLE,
        "numpy": parser.DocstringStyle.NUMPYDOC,
        "sphinx": parser.DocstringStyle.REST,
        None: parser.DocstringStyle.AUTO,
    }
    try:
        # The parser cleans again, and would take the indent of what follows the first line.
        parsed = parser.parse("\n" + text, styles[style])
    except parser.ParseError:
        return Documentation(description=text)
    described = {
        name.strip().lstrip("*"): param.description
        for param in parsed.params
        if param.description
        for name in param.arg_name.split(",")
    }
    return Documentation(description=(parsed.description or "").strip(), parameters=described)
