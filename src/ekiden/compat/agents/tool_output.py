"""What tools return as parts of content: text, images and files."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator
from typing_extensions import TypedDict

from ekiden.tools.output import output_text


class ToolOutputText(BaseModel):
    """Text as the output of a tool."""

    type: Literal["text"] = "text"
    text: str


class ToolOutputTextDict(TypedDict, total=False):
    """`ToolOutputText` as a dictionary."""

    type: Literal["text"]
    text: str


class ToolOutputImage(BaseModel):
    """An image as the output of a tool."""

    type: Literal["image"] = "image"
    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None

    @model_validator(mode="after")
    def _check(self) -> ToolOutputImage:
        if self.image_url is None and self.file_id is None:
            raise ValueError("At least one of image_url or file_id must be provided")
        return self


class ToolOutputImageDict(TypedDict, total=False):
    """`ToolOutputImage` as a dictionary."""

    type: Literal["image"]
    image_url: NotRequired[str]
    file_id: NotRequired[str]
    detail: NotRequired[Literal["low", "high", "auto"]]


class ToolOutputFileContent(BaseModel):
    """A file as the output of a tool."""

    type: Literal["file"] = "file"
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ToolOutputFileContent:
        if self.file_data is None and self.file_url is None and self.file_id is None:
            raise ValueError("At least one of file_data, file_url, or file_id must be provided")
        return self


class ToolOutputFileContentDict(TypedDict, total=False):
    """`ToolOutputFileContent` as a dictionary."""

    type: Literal["file"]
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]
    filename: NotRequired[str]


ValidToolOutputPydanticModels = ToolOutputText | ToolOutputImage | ToolOutputFileContent
ValidToolOutputPydanticModelsTypeAdapter: TypeAdapter[ValidToolOutputPydanticModels] = TypeAdapter(
    ValidToolOutputPydanticModels
)
_NAMES = {"text": "input_text", "image": "input_image", "file": "input_file"}


def output_parts(value: Any) -> str | list[dict[str, Any]]:
    """The content of a ``function_call_output``: parts if all of it is parts, else text."""
    values = value if isinstance(value, list | tuple) else [value]
    parts = [_part(each) for each in values]
    if parts and all(part is not None for part in parts):
        return [part for part in parts if part is not None]
    return str(value) if not isinstance(value, str) else value


def _part(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        if value.get("type") not in _NAMES:
            return None
        try:
            value = ValidToolOutputPydanticModelsTypeAdapter.validate_python(value)
        except ValidationError:
            return None
    if not isinstance(value, ValidToolOutputPydanticModels):
        return None
    fields = value.model_dump(exclude_none=True)
    return {**fields, "type": _NAMES[value.type]}


def told(value: Any) -> str | list[dict[str, Any]]:
    """What the model is shown of a tool's result."""
    shown = output_parts(value)
    return shown if isinstance(shown, list) or isinstance(value, str) else shown or output_text("")
