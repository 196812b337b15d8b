"""Serves the team with OpenAI's API: chat completions, responses and models. Needs
`ekiden[server]`."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.integrations.openai_api.responses import install as install

__getattr__ = lazy_names(__name__)
