"""Serves the team with OpenAI's API: chat completions, responses and models. Needs
`ekiden[server]`."""

from ekiden.core.integrations.lazy import lazy_names

__getattr__ = lazy_names(__name__, {"install": "ekiden.integrations.openai_api.responses"})
