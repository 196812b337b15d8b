"""Models on this machine's processor, in this process: ``local:/path/to/file.gguf``."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from ekiden.models.local.engine import close_engines as close_engines
    from ekiden.models.local.local_model import LocalModel as LocalModel

__getattr__ = lazy_names(__name__)
