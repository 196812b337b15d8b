"""A model that answers from a script."""

from ekiden.compat.agents.not_supported import names_of, placeholders
from ekiden.compat.agents.testing.model import (
    InvalidModelStep as InvalidModelStep,
    ModelCall as ModelCall,
    ModelScriptError as ModelScriptError,
    ModelStep as ModelStep,
    ModelStepSpec as ModelStepSpec,
    ScriptedModel as ScriptedModel,
    UnconsumedModelSteps as UnconsumedModelSteps,
    UnexpectedModelCall as UnexpectedModelCall,
    assistant_message as assistant_message,
    function_call as function_call,
)

__all__ = names_of(__name__)

__getattr__ = placeholders(__name__)
