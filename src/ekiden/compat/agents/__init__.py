"""The module tree of the OpenAI Agents SDK over Ekiden's loop: a program changes one import.

The classes that programs construct (`Agent`, `RunConfig`, `ModelSettings`, `FunctionTool`,
`Handoff`, items, results, errors) have the SDK's constructors and fields. When a run starts,
`_relay` makes Ekiden's own agents of them, and gives what the loop stored the types of the
`openai` package. So each difference is translated in one place, and a run is what every run of
Ekiden's is: stored step by step, resumed after a crash, with its approvals in the inbox.

- A model is an object with `get_response` and `stream_response` (`models.interface.Model`), or one
  with Ekiden's `respond`. Names are looked up with `RunConfig.model_provider`.
- A session is an object with `get_items` and `add_items`. One that has an attribute
  `ekiden_session` (Ekiden's `Session`) is used directly: its unfinished runs can be resumed.
- Tools that are no `FunctionTool` go to the model as they are.
"""

from ekiden.compat.agents.agent import (
    Agent as Agent,
    AgentBase as AgentBase,
    AgentToolStreamEvent as AgentToolStreamEvent,
    MCPConfig as MCPConfig,
    StopAtTools as StopAtTools,
    ToolsToFinalOutputFunction as ToolsToFinalOutputFunction,
    ToolsToFinalOutputResult as ToolsToFinalOutputResult,
)
from ekiden.compat.agents.agent_output import (
    AgentOutputSchema as AgentOutputSchema,
    AgentOutputSchemaBase as AgentOutputSchemaBase,
)
from ekiden.compat.agents.apply_diff import apply_diff as apply_diff
from ekiden.compat.agents.computer import (
    AsyncComputer as AsyncComputer,
    Button as Button,
    Computer as Computer,
    Environment as Environment,
)
from ekiden.compat.agents.editor import (
    ApplyPatchEditor as ApplyPatchEditor,
    ApplyPatchOperation as ApplyPatchOperation,
    ApplyPatchResult as ApplyPatchResult,
)
from ekiden.compat.agents.exceptions import (
    AgentsException as AgentsException,
    InputGuardrailTripwireTriggered as InputGuardrailTripwireTriggered,
    MaxTurnsExceeded as MaxTurnsExceeded,
    MCPToolCancellationError as MCPToolCancellationError,
    ModelBehaviorError as ModelBehaviorError,
    ModelRefusalError as ModelRefusalError,
    ModelTimeoutError as ModelTimeoutError,
    OutputGuardrailTripwireTriggered as OutputGuardrailTripwireTriggered,
    RunErrorDetails as RunErrorDetails,
    ToolInputGuardrailTripwireTriggered as ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered as ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError as ToolTimeoutError,
    UserError as UserError,
)
from ekiden.compat.agents.guardrail import (
    GuardrailFunctionOutput as GuardrailFunctionOutput,
    InputGuardrail as InputGuardrail,
    InputGuardrailResult as InputGuardrailResult,
    OutputGuardrail as OutputGuardrail,
    OutputGuardrailResult as OutputGuardrailResult,
    input_guardrail as input_guardrail,
    output_guardrail as output_guardrail,
)
from ekiden.compat.agents.handoffs import (
    Handoff as Handoff,
    HandoffHistoryMapper as HandoffHistoryMapper,
    HandoffInputData as HandoffInputData,
    HandoffInputFilter as HandoffInputFilter,
    default_handoff_history_mapper as default_handoff_history_mapper,
    get_conversation_history_wrappers as get_conversation_history_wrappers,
    handoff as handoff,
    nest_handoff_history as nest_handoff_history,
    reset_conversation_history_wrappers as reset_conversation_history_wrappers,
    set_conversation_history_wrappers as set_conversation_history_wrappers,
)
from ekiden.compat.agents.hosted_tools import (
    ApplyPatchTool as ApplyPatchTool,
    ApplyPatchToolCustomDataContext as ApplyPatchToolCustomDataContext,
    ApplyPatchToolCustomDataExtractor as ApplyPatchToolCustomDataExtractor,
    CodeInterpreterTool as CodeInterpreterTool,
    ComputerProvider as ComputerProvider,
    ComputerTool as ComputerTool,
    ComputerToolCustomDataContext as ComputerToolCustomDataContext,
    ComputerToolCustomDataExtractor as ComputerToolCustomDataExtractor,
    CustomTool as CustomTool,
    CustomToolCustomDataContext as CustomToolCustomDataContext,
    CustomToolCustomDataExtractor as CustomToolCustomDataExtractor,
    FileSearchTool as FileSearchTool,
    HostedMCPTool as HostedMCPTool,
    ImageGenerationTool as ImageGenerationTool,
    ImageGenerationToolConfig as ImageGenerationToolConfig,
    LocalShellCommandRequest as LocalShellCommandRequest,
    LocalShellExecutor as LocalShellExecutor,
    LocalShellTool as LocalShellTool,
    MCPToolApprovalFunction as MCPToolApprovalFunction,
    MCPToolApprovalFunctionResult as MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest as MCPToolApprovalRequest,
    ProgrammaticToolCallingTool as ProgrammaticToolCallingTool,
    ShellActionRequest as ShellActionRequest,
    ShellCallData as ShellCallData,
    ShellCallOutcome as ShellCallOutcome,
    ShellCommandOutput as ShellCommandOutput,
    ShellCommandRequest as ShellCommandRequest,
    ShellExecutor as ShellExecutor,
    ShellResult as ShellResult,
    ShellTool as ShellTool,
    ShellToolContainerAutoEnvironment as ShellToolContainerAutoEnvironment,
    ShellToolContainerNetworkPolicy as ShellToolContainerNetworkPolicy,
    ShellToolContainerNetworkPolicyAllowlist as ShellToolContainerNetworkPolicyAllowlist,
    ShellToolContainerNetworkPolicyDisabled as ShellToolContainerNetworkPolicyDisabled,
    ShellToolContainerNetworkPolicyDomainSecret as ShellToolContainerNetworkPolicyDomainSecret,
    ShellToolContainerReferenceEnvironment as ShellToolContainerReferenceEnvironment,
    ShellToolContainerSkill as ShellToolContainerSkill,
    ShellToolEnvironment as ShellToolEnvironment,
    ShellToolHostedEnvironment as ShellToolHostedEnvironment,
    ShellToolInlineSkill as ShellToolInlineSkill,
    ShellToolInlineSkillSource as ShellToolInlineSkillSource,
    ShellToolLocalEnvironment as ShellToolLocalEnvironment,
    ShellToolLocalSkill as ShellToolLocalSkill,
    ShellToolSkillReference as ShellToolSkillReference,
    ToolCaller as ToolCaller,
    ToolSearchTool as ToolSearchTool,
    WebSearchTool as WebSearchTool,
    WebSearchToolImageSettings as WebSearchToolImageSettings,
    dispose_resolved_computers as dispose_resolved_computers,
    resolve_computer as resolve_computer,
)
from ekiden.compat.agents.items import (
    CompactionItem as CompactionItem,
    HandoffCallItem as HandoffCallItem,
    HandoffOutputItem as HandoffOutputItem,
    InputItem as InputItem,
    ItemHelpers as ItemHelpers,
    MCPApprovalRequestItem as MCPApprovalRequestItem,
    MCPApprovalResponseItem as MCPApprovalResponseItem,
    MCPListToolsItem as MCPListToolsItem,
    MessageOutputItem as MessageOutputItem,
    ModelResponse as ModelResponse,
    ReasoningItem as ReasoningItem,
    RunItem as RunItem,
    ToolApprovalItem as ToolApprovalItem,
    ToolCallItem as ToolCallItem,
    ToolCallOutputItem as ToolCallOutputItem,
    ToolSearchCallItem as ToolSearchCallItem,
    ToolSearchOutputItem as ToolSearchOutputItem,
    TResponseInputItem as TResponseInputItem,
)
from ekiden.compat.agents.lifecycle import AgentHooks as AgentHooks, RunHooks as RunHooks
from ekiden.compat.agents.logger import (
    enable_verbose_stdout_logging as enable_verbose_stdout_logging,
)
from ekiden.compat.agents.memory import (
    OpenAIConversationsSession as OpenAIConversationsSession,
    OpenAIResponsesCompactionArgs as OpenAIResponsesCompactionArgs,
    OpenAIResponsesCompactionAwareSession as OpenAIResponsesCompactionAwareSession,
    OpenAIResponsesCompactionSession as OpenAIResponsesCompactionSession,
    Session as Session,
    SessionABC as SessionABC,
    SessionSettings as SessionSettings,
    SQLiteSession as SQLiteSession,
    is_openai_responses_compaction_aware_session as is_openai_responses_compaction_aware_session,
)
from ekiden.compat.agents.model_settings import ModelSettings as ModelSettings
from ekiden.compat.agents.models import (
    OpenAIAgentRegistrationConfig as OpenAIAgentRegistrationConfig,
)
from ekiden.compat.agents.models.interface import (
    Model as Model,
    ModelProvider as ModelProvider,
    ModelTracing as ModelTracing,
)
from ekiden.compat.agents.models.multi_provider import MultiProvider as MultiProvider
from ekiden.compat.agents.models.openai_chatcompletions import (
    OpenAIChatCompletionsModel as OpenAIChatCompletionsModel,
)
from ekiden.compat.agents.models.openai_provider import (
    OpenAIProvider as OpenAIProvider,
    set_default_openai_agent_registration as set_default_openai_agent_registration,
    set_default_openai_api as set_default_openai_api,
    set_default_openai_client as set_default_openai_client,
    set_default_openai_harness as set_default_openai_harness,
    set_default_openai_key as set_default_openai_key,
    set_default_openai_responses_transport as set_default_openai_responses_transport,
)
from ekiden.compat.agents.models.openai_responses import (
    OpenAIResponsesModel as OpenAIResponsesModel,
    OpenAIResponsesWebSocketOptions as OpenAIResponsesWebSocketOptions,
    OpenAIResponsesWSModel as OpenAIResponsesWSModel,
)
from ekiden.compat.agents.not_supported import NotSupported as NotSupported, names_of, placeholders
from ekiden.compat.agents.prompts import (
    DynamicPromptFunction as DynamicPromptFunction,
    GenerateDynamicPromptData as GenerateDynamicPromptData,
    Prompt as Prompt,
)
from ekiden.compat.agents.repl import run_demo_loop as run_demo_loop
from ekiden.compat.agents.responses_websocket_session import (
    ResponsesWebSocketSession as ResponsesWebSocketSession,
    responses_websocket_session as responses_websocket_session,
)
from ekiden.compat.agents.result import (
    AgentToolInvocation as AgentToolInvocation,
    RunResult as RunResult,
    RunResultStreaming as RunResultStreaming,
)
from ekiden.compat.agents.retry import (
    ModelRetryAdvice as ModelRetryAdvice,
    ModelRetryAdviceRequest as ModelRetryAdviceRequest,
    ModelRetryBackoffSettings as ModelRetryBackoffSettings,
    ModelRetryNormalizedError as ModelRetryNormalizedError,
    ModelRetrySettings as ModelRetrySettings,
    RetryDecision as RetryDecision,
    RetryPolicy as RetryPolicy,
    RetryPolicyContext as RetryPolicyContext,
    retry_policies as retry_policies,
)
from ekiden.compat.agents.run import AgentRunner as AgentRunner, Runner as Runner
from ekiden.compat.agents.run_config import (
    CallModelData as CallModelData,
    CallModelInputFilter as CallModelInputFilter,
    ModelInputData as ModelInputData,
    OutputGuardrailBlockedMessageArgs as OutputGuardrailBlockedMessageArgs,
    OutputGuardrailBlockedMessageFormatter as OutputGuardrailBlockedMessageFormatter,
    ReasoningItemIdPolicy as ReasoningItemIdPolicy,
    RunConfig as RunConfig,
    ToolErrorFormatter as ToolErrorFormatter,
    ToolErrorFormatterArgs as ToolErrorFormatterArgs,
    ToolExecutionConfig as ToolExecutionConfig,
    ToolNameCollisionPolicy as ToolNameCollisionPolicy,
    ToolNotFoundBehavior as ToolNotFoundBehavior,
)
from ekiden.compat.agents.run_context import (
    AgentHookContext as AgentHookContext,
    RunContextWrapper as RunContextWrapper,
    TContext as TContext,
)
from ekiden.compat.agents.run_error_handlers import (
    RunErrorData as RunErrorData,
    RunErrorHandler as RunErrorHandler,
    RunErrorHandlerInput as RunErrorHandlerInput,
    RunErrorHandlerResult as RunErrorHandlerResult,
    RunErrorHandlers as RunErrorHandlers,
)
from ekiden.compat.agents.run_state import RunState as RunState
from ekiden.compat.agents.stream_events import (
    AgentUpdatedStreamEvent as AgentUpdatedStreamEvent,
    RawResponsesStreamEvent as RawResponsesStreamEvent,
    RunItemStreamEvent as RunItemStreamEvent,
    StreamEvent as StreamEvent,
)
from ekiden.compat.agents.strict_schema import (
    ensure_strict_json_schema as ensure_strict_json_schema,
)
from ekiden.compat.agents.tool import (
    FunctionTool as FunctionTool,
    FunctionToolCustomDataContext as FunctionToolCustomDataContext,
    FunctionToolCustomDataExtractor as FunctionToolCustomDataExtractor,
    FunctionToolResult as FunctionToolResult,
    Tool as Tool,
    ToolOrigin as ToolOrigin,
    ToolOriginType as ToolOriginType,
    ToolOutputFileContent as ToolOutputFileContent,
    ToolOutputFileContentDict as ToolOutputFileContentDict,
    ToolOutputImage as ToolOutputImage,
    ToolOutputImageDict as ToolOutputImageDict,
    ToolOutputText as ToolOutputText,
    ToolOutputTextDict as ToolOutputTextDict,
    ToolTimeoutBehavior as ToolTimeoutBehavior,
    default_tool_error_function as default_tool_error_function,
    function_tool as function_tool,
    tool_namespace as tool_namespace,
)
from ekiden.compat.agents.tool_context import ToolContext as ToolContext
from ekiden.compat.agents.tool_guardrails import (
    ToolGuardrailFunctionOutput as ToolGuardrailFunctionOutput,
    ToolInputGuardrail as ToolInputGuardrail,
    ToolInputGuardrailData as ToolInputGuardrailData,
    ToolInputGuardrailResult as ToolInputGuardrailResult,
    ToolOutputGuardrail as ToolOutputGuardrail,
    ToolOutputGuardrailData as ToolOutputGuardrailData,
    ToolOutputGuardrailResult as ToolOutputGuardrailResult,
    tool_input_guardrail as tool_input_guardrail,
    tool_output_guardrail as tool_output_guardrail,
)
from ekiden.compat.agents.tracing import (
    AgentSpanData as AgentSpanData,
    CustomSpanData as CustomSpanData,
    FunctionSpanData as FunctionSpanData,
    GenerationSpanData as GenerationSpanData,
    GuardrailSpanData as GuardrailSpanData,
    HandoffSpanData as HandoffSpanData,
    MCPListToolsSpanData as MCPListToolsSpanData,
    ResponseSpanData as ResponseSpanData,
    Span as Span,
    SpanData as SpanData,
    SpanError as SpanError,
    SpeechGroupSpanData as SpeechGroupSpanData,
    SpeechSpanData as SpeechSpanData,
    TaskSpanData as TaskSpanData,
    Trace as Trace,
    TracingProcessor as TracingProcessor,
    TranscriptionSpanData as TranscriptionSpanData,
    TurnSpanData as TurnSpanData,
    add_trace_processor as add_trace_processor,
    agent_span as agent_span,
    custom_span as custom_span,
    flush_traces as flush_traces,
    function_span as function_span,
    gen_span_id as gen_span_id,
    gen_trace_id as gen_trace_id,
    generation_span as generation_span,
    get_current_span as get_current_span,
    get_current_trace as get_current_trace,
    guardrail_span as guardrail_span,
    handoff_span as handoff_span,
    mcp_tools_span as mcp_tools_span,
    response_span as response_span,
    set_trace_processors as set_trace_processors,
    set_trace_provider as set_trace_provider,
    set_tracing_disabled as set_tracing_disabled,
    set_tracing_export_api_key as set_tracing_export_api_key,
    speech_group_span as speech_group_span,
    speech_span as speech_span,
    task_span as task_span,
    trace as trace,
    transcription_span as transcription_span,
    turn_span as turn_span,
)
from ekiden.compat.agents.usage import RequestUsage as RequestUsage, Usage as Usage
from ekiden.compat.agents.version import __version__ as __version__

__all__ = names_of(__name__)

__getattr__ = placeholders(__name__)
