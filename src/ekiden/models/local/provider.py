"""``local:…`` among the providers."""

from __future__ import annotations

from importlib.util import find_spec

from ekiden.core.conversation.model import Model
from ekiden.core.errors import UserError
from ekiden.models.local.settings import default_local_settings
from ekiden.models.local.weights import locate
from ekiden.models.registry import ModelOptions


def make_local_model(options: ModelOptions) -> Model:
    """The factory of the provider ``local``; the file is found, and nothing is loaded yet.

    Raises `UserError` when xllamacpp is not installed, no model is found, or a URL or a key is
    given, which no local model has.
    """
    from ekiden.models.local.local_model import LocalModel

    if options.base_url or options.api_key:
        raise UserError(
            f"local:{options.model} runs in this process: it takes no base_url and no api_key; "
            "for a server of your own use openai-chat:model@http://host/v1"
        )
    if find_spec("xllamacpp") is None:
        raise UserError(f"local:{options.model} needs xllamacpp: pip install 'ekiden[local]'")
    weights = locate(options.model)
    return LocalModel(weights, default_local_settings(), timeout_s=options.timeout_s)
