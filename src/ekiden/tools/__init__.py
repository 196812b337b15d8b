"""Tools: functions that a model may call, their schemas, and the execution of calls."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.tools.output import (
    NoJsonForm as NoJsonForm,
    ToolResult as ToolResult,
    json_form as json_form,
    output_of as output_of,
    output_text as output_text,
    result_form as result_form,
    to_jsonable as to_jsonable,
)

if TYPE_CHECKING:
    from ekiden.tools.builtin import builtin_tools as builtin_tools
    from ekiden.tools.execution import (
        check_input as check_input,
        decision_of as decision_of,
        invoke as invoke,
        refusal as refusal,
    )
    from ekiden.tools.function import (
        default_tool_error_function as default_tool_error_function,
        function_tool as function_tool,
    )
    from ekiden.tools.registry import (
        is_project_function as is_project_function,
        register_tool as register_tool,
        registered_tools as registered_tools,
        resolve_tool as resolve_tool,
    )
    from ekiden.tools.settings import ToolSettings as ToolSettings
    from ekiden.tools.signature import DocstringStyle as DocstringStyle

__getattr__ = lazy_names(__name__)
