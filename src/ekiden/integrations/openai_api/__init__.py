"""The team behind the interfaces of OpenAI: chat completions, responses and models."""

from ekiden.integrations import web as web
from ekiden.integrations.openai_api.install import install as install
