"""Tools beside functions: the ones that OpenAI runs, and the ones that a computer of yours runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NotRequired,
    Protocol,
    Required,
    TypeAlias,
    TypeVar,
)

from openai.types.responses.file_search_tool_param import Filters, RankingOptions
from openai.types.responses.tool_param import CodeInterpreter, Mcp
from openai.types.responses.web_search_tool import Filters as WebSearchToolFilters
from openai.types.responses.web_search_tool_param import UserLocation
from typing_extensions import TypedDict

from ekiden.compat.agents.computer import AsyncComputer, Computer
from ekiden.compat.agents.editor import ApplyPatchEditor, ApplyPatchOperation
from ekiden.core.errors import UserError

ToolCaller: TypeAlias = Literal["direct", "programmatic"]
ComputerLike: TypeAlias = Computer | AsyncComputer
ComputerT = TypeVar("ComputerT", bound=ComputerLike)
ComputerT_co = TypeVar("ComputerT_co", bound=ComputerLike, covariant=True)
ComputerT_contra = TypeVar("ComputerT_contra", bound=ComputerLike, contravariant=True)
MCPToolApprovalFunction: TypeAlias = Callable[["MCPToolApprovalRequest"], Any]
ShellApprovalFunction: TypeAlias = Callable[[Any, "ShellActionRequest", str], Any]
ShellOnApprovalFunction: TypeAlias = Callable[[Any, Any], Any]
ApplyPatchApprovalFunction: TypeAlias = Callable[[Any, ApplyPatchOperation, str], Any]
ApplyPatchOnApprovalFunction: TypeAlias = Callable[[Any, Any], Any]
CustomToolApprovalFunction: TypeAlias = Callable[[Any, str, str], Any]
CustomToolOnApprovalFunction: TypeAlias = Callable[[Any, Any], Any]
CustomToolExecutor: TypeAlias = Callable[[Any, str], Any]
LocalShellExecutor: TypeAlias = Callable[["LocalShellCommandRequest"], Any]
ShellExecutor: TypeAlias = Callable[["ShellCommandRequest"], Any]
CustomToolCustomDataExtractor: TypeAlias = Callable[["CustomToolCustomDataContext"], Any]
ComputerToolCustomDataExtractor: TypeAlias = Callable[["ComputerToolCustomDataContext"], Any]
ApplyPatchToolCustomDataExtractor: TypeAlias = Callable[["ApplyPatchToolCustomDataContext"], Any]


class _Answer(TypedDict):
    approve: bool
    reason: NotRequired[str]


class MCPToolApprovalFunctionResult(_Answer):
    """Whether OpenAI may call the tool of an MCP server."""


class ShellOnApprovalFunctionResult(_Answer):
    """Whether commands may run."""


class ApplyPatchOnApprovalFunctionResult(_Answer):
    """Whether a file may be changed."""


class CustomToolOnApprovalFunctionResult(_Answer):
    """Whether a custom tool may run."""


# Tools that OpenAI runs


@dataclass
class FileSearchTool:
    """Searches vector stores."""

    vector_store_ids: list[str]
    max_num_results: int | None = None
    include_search_results: bool = False
    ranking_options: RankingOptions | None = None
    filters: Filters | None = None

    name: ClassVar[str] = "file_search"


class WebSearchToolImageSettings(TypedDict, total=False):
    """Settings for images in search results."""

    max_results: int
    caption: bool


@dataclass
class WebSearchTool:
    """Searches the web."""

    user_location: UserLocation | None = None
    filters: WebSearchToolFilters | None = None
    search_context_size: Literal["low", "medium", "high"] = "medium"
    external_web_access: bool | None = None
    search_content_types: list[Literal["text", "image"]] | None = None
    image_settings: WebSearchToolImageSettings | None = None

    name: ClassVar[str] = "web_search"


@dataclass
class MCPToolApprovalRequest:
    """A request of OpenAI to call a tool of an MCP server."""

    ctx_wrapper: Any
    data: Any


@dataclass
class HostedMCPTool:
    """An MCP server that OpenAI calls."""

    tool_config: Mcp
    on_approval_request: MCPToolApprovalFunction | None = None

    name: ClassVar[str] = "hosted_mcp"


@dataclass
class CodeInterpreterTool:
    """Runs Python in a container of OpenAI."""

    tool_config: CodeInterpreter

    name: ClassVar[str] = "code_interpreter"


class ImageGenerationToolConfig(TypedDict, total=False):
    """Options for the generation of images."""

    type: Required[Literal["image_generation"]]
    action: Literal["generate", "edit", "auto"]
    background: Literal["transparent", "opaque", "auto"]
    input_fidelity: Literal["high", "low"] | None
    input_image_mask: dict[str, str]
    model: str
    moderation: Literal["auto", "low"]
    output_compression: int
    output_format: Literal["png", "webp", "jpeg"]
    partial_images: int
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"]
    size: str


@dataclass
class ImageGenerationTool:
    """Generates images."""

    tool_config: ImageGenerationToolConfig

    name: ClassVar[str] = "image_generation"


@dataclass
class ToolSearchTool:
    """Lets the model load tools with `defer_loading` when it needs them."""

    description: str | None = None
    execution: Literal["server", "client"] | None = None
    parameters: object | None = None

    name: ClassVar[str] = "tool_search"


@dataclass
class ProgrammaticToolCallingTool:
    """Lets the model call tools from a program that OpenAI runs."""

    name: ClassVar[str] = "programmatic_tool_calling"


# Tools that run at your side


class ComputerCreate(Protocol[ComputerT_co]):
    """Makes a computer for one run."""

    def __call__(self, *, run_context: Any) -> Any:
        """The computer; may be async."""


class ComputerDispose(Protocol[ComputerT_contra]):
    """Gives a computer up when the run has ended."""

    def __call__(self, *, run_context: Any, computer: ComputerT_contra) -> Any:
        """May be async."""


@dataclass
class ComputerProvider(Generic[ComputerT]):
    """Creates a computer for each run, and disposes of it afterwards."""

    create: ComputerCreate[ComputerT]
    dispose: ComputerDispose[ComputerT] | None = None


ComputerConfig: TypeAlias = ComputerLike | ComputerCreate[Any] | ComputerProvider[Any]


@dataclass
class ComputerToolSafetyCheckData:
    """OpenAI wants a person to agree to an action."""

    ctx_wrapper: Any
    agent: Any
    tool_call: Any
    safety_check: Any


@dataclass
class ComputerToolCustomDataContext:
    """The argument of a `custom_data_extractor`."""

    run_context: Any
    tool: Any
    tool_call: Any
    output: str
    raw_item: Any


@dataclass(eq=False)
class ComputerTool(Generic[ComputerT]):
    """A computer that the model operates."""

    computer: Any
    on_safety_check: Callable[[ComputerToolSafetyCheckData], Any] | None = None
    custom_data_extractor: ComputerToolCustomDataExtractor | None = None

    name: ClassVar[str] = "computer_use_preview"
    trace_name: ClassVar[str] = "computer"


_COMPUTERS: dict[int, dict[int, tuple[Any, Any, Any]]] = {}
"""Of runs under way: by context, then by tool, the computer with what disposes of it."""


async def resolve_computer(*, tool: ComputerTool[Any], run_context: Any) -> ComputerLike:
    """The computer of this run. If the tool has a function, its first use creates the computer."""
    given = tool.computer
    if isinstance(given, (Computer, AsyncComputer)):
        return given
    known = _COMPUTERS.setdefault(id(run_context), {})
    if id(tool) not in known:
        create = given.create if isinstance(given, ComputerProvider) else given
        dispose = given.dispose if isinstance(given, ComputerProvider) else None
        made = create(run_context=run_context)
        made = await made if inspect.isawaitable(made) else made
        if not isinstance(made, (Computer, AsyncComputer)):
            raise UserError("The computer tool did not provide a computer instance.")
        known[id(tool)] = (tool, made, dispose)
    found: ComputerLike = known[id(tool)][1]
    return found


async def dispose_resolved_computers(*, run_context: Any) -> None:
    """Dispose of the computers that were created for this run."""
    for _tool, computer, dispose in _COMPUTERS.pop(id(run_context), {}).values():
        if dispose is not None:
            done = dispose(run_context=run_context, computer=computer)
            if inspect.isawaitable(done):
                await done


@dataclass
class LocalShellCommandRequest:
    """A command that the model wants to run."""

    ctx_wrapper: Any
    data: Any


@dataclass
class LocalShellTool:
    """Runs one command on your machine; the executor returns its output."""

    executor: LocalShellExecutor

    name: ClassVar[str] = "local_shell"


class ShellToolLocalSkill(TypedDict):
    """A skill in a local folder."""

    description: str
    name: str
    path: str


class ShellToolSkillReference(TypedDict):
    """A skill that OpenAI stores."""

    type: Literal["skill_reference"]
    skill_id: str
    version: NotRequired[str]


class ShellToolInlineSkillSource(TypedDict):
    """A zip file in base64."""

    data: str
    media_type: Literal["application/zip"]
    type: Literal["base64"]


class ShellToolInlineSkill(TypedDict):
    """A skill that the request contains."""

    description: str
    name: str
    source: ShellToolInlineSkillSource
    type: Literal["inline"]


ShellToolContainerSkill: TypeAlias = ShellToolSkillReference | ShellToolInlineSkill


class ShellToolContainerNetworkPolicyDomainSecret(TypedDict):
    """A secret for requests to one domain."""

    domain: str
    name: str
    value: str


class ShellToolContainerNetworkPolicyAllowlist(TypedDict):
    """A container that can reach only these domains."""

    allowed_domains: list[str]
    type: Literal["allowlist"]
    domain_secrets: NotRequired[list[ShellToolContainerNetworkPolicyDomainSecret]]


class ShellToolContainerNetworkPolicyDisabled(TypedDict):
    """A container without network access."""

    type: Literal["disabled"]


ShellToolContainerNetworkPolicy: TypeAlias = (
    ShellToolContainerNetworkPolicyAllowlist | ShellToolContainerNetworkPolicyDisabled
)


class ShellToolLocalEnvironment(TypedDict):
    """Commands run on your machine."""

    type: Literal["local"]
    skills: NotRequired[list[ShellToolLocalSkill]]


class ShellToolContainerAutoEnvironment(TypedDict):
    """Commands run in a new container of OpenAI."""

    type: Literal["container_auto"]
    file_ids: NotRequired[list[str]]
    memory_limit: NotRequired[Literal["1g", "4g", "16g", "64g"] | None]
    network_policy: NotRequired[ShellToolContainerNetworkPolicy]
    skills: NotRequired[list[ShellToolContainerSkill]]


class ShellToolContainerReferenceEnvironment(TypedDict):
    """Commands run in an existing container."""

    type: Literal["container_reference"]
    container_id: str


ShellToolHostedEnvironment: TypeAlias = (
    ShellToolContainerAutoEnvironment | ShellToolContainerReferenceEnvironment
)
ShellToolEnvironment: TypeAlias = ShellToolLocalEnvironment | ShellToolHostedEnvironment


@dataclass
class ShellCallOutcome:
    """The outcome of a command."""

    type: Literal["exit", "timeout"]
    exit_code: int | None = None


def _exited() -> ShellCallOutcome:
    return ShellCallOutcome(type="exit")


@dataclass
class ShellCommandOutput:
    """The output of one command."""

    stdout: str = ""
    stderr: str = ""
    outcome: ShellCallOutcome = field(default_factory=_exited)
    command: str | None = None
    provider_data: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code; `None` after a timeout."""
        return self.outcome.exit_code

    @property
    def status(self) -> Literal["completed", "timeout"]:
        """Whether the command completed, or timed out."""
        return "timeout" if self.outcome.type == "timeout" else "completed"


@dataclass
class ShellResult:
    """The outputs of the commands of one call."""

    output: list[ShellCommandOutput]
    max_output_length: int | None = None
    provider_data: dict[str, Any] | None = None


@dataclass
class ShellActionRequest:
    """The commands of one call."""

    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass
class ShellCallData:
    """One call of the shell tool."""

    call_id: str
    action: ShellActionRequest
    status: Literal["in_progress", "completed"] | None = None
    raw: Any | None = None


@dataclass
class ShellCommandRequest:
    """The argument of an executor."""

    ctx_wrapper: Any
    data: ShellCallData


@dataclass
class ShellTool:
    """Runs commands with your executor; without an executor, in a container of OpenAI."""

    executor: ShellExecutor | None = None
    name: str = "shell"
    needs_approval: bool | ShellApprovalFunction = False
    on_approval: ShellOnApprovalFunction | None = None
    environment: ShellToolEnvironment | None = None
    allowed_callers: list[ToolCaller] | None = None
    type: ClassVar[str] = "shell"

    def __post_init__(self) -> None:
        if self.environment is None:
            self.environment = {"type": "local"}
        kind = self.environment["type"]
        if kind == "local":
            if self.executor is None:
                raise UserError("ShellTool with local environment requires an executor.")
            return
        if self.executor is not None:
            raise UserError("ShellTool with hosted environment does not accept an executor.")
        if self.needs_approval is not False or self.on_approval is not None:
            raise UserError(
                "ShellTool with hosted environment does not support needs_approval or on_approval."
            )


@dataclass
class ApplyPatchToolCustomDataContext:
    """The argument of a `custom_data_extractor`."""

    run_context: Any
    tool: Any
    operations: list[ApplyPatchOperation]
    output: str
    status: Literal["completed", "failed"]
    raw_item: Any


@dataclass
class ApplyPatchTool:
    """Changes files with your own editor."""

    editor: ApplyPatchEditor
    name: str = "apply_patch"
    needs_approval: bool | ApplyPatchApprovalFunction = False
    on_approval: ApplyPatchOnApprovalFunction | None = None
    custom_data_extractor: ApplyPatchToolCustomDataExtractor | None = None
    allowed_callers: list[ToolCaller] | None = None
    type: ClassVar[str] = "apply_patch"


@dataclass
class CustomToolCustomDataContext:
    """The argument of a `custom_data_extractor`."""

    tool_context: Any
    tool: Any
    input: str
    output: str
    raw_item: Any


@dataclass
class CustomTool:
    """A tool whose input is a text instead of JSON, with an optional grammar."""

    name: str
    description: str
    on_invoke_tool: CustomToolExecutor
    format: object | None = None
    needs_approval: bool | CustomToolApprovalFunction = False
    on_approval: CustomToolOnApprovalFunction | None = None
    defer_loading: bool = False
    custom_data_extractor: CustomToolCustomDataExtractor | None = None
    allowed_callers: list[ToolCaller] | None = None
    tool_config: Any = field(init=False)
    type: ClassVar[str] = "custom"

    def __post_init__(self) -> None:
        config = {"type": "custom", "name": self.name, "description": self.description}
        extra = {"format": self.format, "allowed_callers": self.allowed_callers}
        config |= {key: value for key, value in extra.items() if value is not None}  # type: ignore[misc]
        if self.defer_loading:
            config["defer_loading"] = True  # type: ignore[assignment]
        self.tool_config = config

    def runtime_needs_approval(self) -> bool | CustomToolApprovalFunction:
        """Whether a call needs approval."""
        return self.needs_approval

    def runtime_on_approval(self) -> CustomToolOnApprovalFunction | None:
        """The function that decides about an approval at once."""
        return self.on_approval
