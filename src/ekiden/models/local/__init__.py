"""Models on this machine's processor, in this process: ``local:/path/to/file.gguf``."""

from ekiden.core.integrations.lazy import lazy_names
from ekiden.models.local.settings import LocalEngineSettings, set_default_local_settings
from ekiden.models.local.weights import (
    Weights,
    available_weights,
    locate,
    model_folders,
    set_default_local_model,
)

__getattr__ = lazy_names(
    __name__,
    {
        "LocalModel": "ekiden.models.local.local_model",
        "close_engines": "ekiden.models.local.engine",
    },
)

__all__ = [
    "LocalEngineSettings",
    "LocalModel",
    "Weights",
    "available_weights",
    "close_engines",
    "locate",
    "model_folders",
    "set_default_local_model",
    "set_default_local_settings",
]
