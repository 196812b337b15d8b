"""The team behind OpenAI's API: chat completions, responses, models; needs `ekiden[server]`."""

from ekiden.core.integrations.lazy import lazy_names

__getattr__ = lazy_names(__name__, {"install": "ekiden.integrations.openai_api.responses"})
