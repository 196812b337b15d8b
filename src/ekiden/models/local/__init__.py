"""Models on this machine's processor, in this process: ``local:/path/to/file.gguf``."""

from ekiden.core.integrations.lazy import lazy_names
from ekiden.models.local.settings import (
    LocalEngineSettings as LocalEngineSettings,
    set_default_local_settings as set_default_local_settings,
)
from ekiden.models.local.weights import (
    Weights as Weights,
    available_weights as available_weights,
    locate as locate,
    model_folders as model_folders,
    set_default_local_model as set_default_local_model,
)

__getattr__ = lazy_names(
    __name__,
    {
        "LocalModel": "ekiden.models.local.local_model",
        "close_engines": "ekiden.models.local.engine",
    },
)
