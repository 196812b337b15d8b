"""Between the items of the Responses API and the messages of Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from openai import omit
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_output_text import AnnotationURLCitation
from openai.types.responses.response_reasoning_item import Content, Summary

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.logger import logger
from ekiden.compat.agents.model_settings import MCPToolChoice
from ekiden.compat.agents.models.fake_id import FAKE_RESPONSES_ID
from ekiden.compat.agents.models.openai_responses import input_list
from ekiden.compat.agents.models.reasoning_content_replay import (
    ReasoningContentReplayContext,
    ReasoningContentSource,
    ShouldReplayReasoningContent,
    default_should_replay_reasoning_content,
)
from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.tool import (
    FunctionTool,
    ensure_function_tool_supports_responses_only_features,
    ensure_tool_choice_supports_backend,
)

ResponseInputContentWithAudioParam: TypeAlias = Any
"""A part of a message's content, audio included."""

_BACKEND = "Chat Completions models"
_OMITTED = "[tool output omitted]"


class Converter:
    """Items, tools and settings as parameters of Chat Completions, and answers as items."""

    @classmethod
    def convert_tool_choice(cls, tool_choice: Any) -> Any:
        """The tool that the model has to call, or how free it is."""
        if tool_choice is None:
            return omit
        if isinstance(tool_choice, MCPToolChoice):
            raise UserError(f"MCPToolChoice is not supported for {_BACKEND}")
        ensure_tool_choice_supports_backend(tool_choice, backend_name=_BACKEND)
        if tool_choice in ("auto", "required", "none"):
            return tool_choice
        return {"type": "function", "function": {"name": tool_choice}}

    @classmethod
    def convert_response_format(cls, final_output_schema: Any) -> Any:
        """The form of a structured answer."""
        if final_output_schema is None or final_output_schema.is_plain_text():
            return omit
        schema = {
            "name": "final_output",
            "strict": final_output_schema.is_strict_json_schema(),
            "schema": final_output_schema.json_schema(),
        }
        return {"type": "json_schema", "json_schema": schema}

    @classmethod
    def tool_to_openai(cls, tool: Any) -> Any:
        """A function; other tools are not known to Chat Completions."""
        if not isinstance(tool, FunctionTool):
            raise UserError(
                f"Hosted tools are not supported with the ChatCompletions API. Got tool type: "
                f"{type(tool)}, tool: {tool}"
            )
        ensure_function_tool_supports_responses_only_features(tool, backend_name=_BACKEND)
        function = {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": tool.params_json_schema,
            "strict": tool.strict_json_schema,
        }
        return {"type": "function", "function": function}

    @classmethod
    def convert_handoff_tool(cls, handoff: Any) -> Any:
        """A handoff as a function."""
        function = {
            "name": handoff.tool_name,
            "description": handoff.tool_description,
            "parameters": handoff.input_json_schema,
            "strict": handoff.strict_json_schema,
        }
        return {"type": "function", "function": function}

    @classmethod
    def message_to_output_items(
        cls,
        message: Any,
        provider_data: dict[str, Any] | None = None,
        strict_feature_validation: bool = False,
    ) -> list[Any]:
        """An answer as items: reasoning, message, calls."""
        items: list[Any] = []
        reasoning = _reasoning(message, provider_data)
        if reasoning is not None:
            items.append(reasoning)
        content: list[Any] = []
        if message.content:
            content.append(
                ResponseOutputText(
                    text=message.content,
                    type="output_text",
                    annotations=[
                        AnnotationURLCitation(type=each.type, **each.url_citation.model_dump())
                        for each in getattr(message, "annotations", None) or ()
                    ],
                )
            )
        if message.refusal:
            content.append(ResponseOutputRefusal(refusal=message.refusal, type="refusal"))
        if message.audio:
            raise UserError("Audio is not currently supported")
        if content:
            said = ResponseOutputMessage(
                id=FAKE_RESPONSES_ID,
                content=content,
                role="assistant",
                type="message",
                status="completed",
            )
            items.append(_of_provider(said, provider_data))
        for call in message.tool_calls or ():
            if call.type != "function":
                if strict_feature_validation:
                    raise UserError(f"Custom tool calls are not supported with {_BACKEND}")
                continue
            made = ResponseFunctionToolCall(
                id=FAKE_RESPONSES_ID,
                call_id=call.id,
                arguments=call.function.arguments,
                name=call.function.name,
                type="function_call",
            )
            signed = thought_signature(call)
            items.append(_of_provider(made, {**(provider_data or {}), **signed}))
        return items

    @classmethod
    def maybe_easy_input_message(cls, item: Any) -> Any:
        """The item, if it is a message that has only a role and content."""
        return item if _is(item, None) and set(item) == {"role", "content"} else None

    @classmethod
    def maybe_input_message(cls, item: Any) -> Any:
        """The item, if it is a message to the model with its type."""
        is_one = _is(item, "message") and item.get("role") in ("user", "system", "developer")
        return item if is_one else None

    @classmethod
    def maybe_response_output_message(cls, item: Any) -> Any:
        """The item, if it is a message of a model."""
        return item if _is(item, "message") and item.get("role") == "assistant" else None

    @classmethod
    def maybe_file_search_call(cls, item: Any) -> Any:
        """The item, if it is a call of file search."""
        return item if _is(item, "file_search_call") else None

    @classmethod
    def maybe_function_tool_call(cls, item: Any) -> Any:
        """The item, if it is a call of a function."""
        return item if _is(item, "function_call") else None

    @classmethod
    def maybe_function_tool_call_output(cls, item: Any) -> Any:
        """The item, if it is the output of a function."""
        return item if _is(item, "function_call_output") else None

    @classmethod
    def maybe_item_reference(cls, item: Any) -> Any:
        """The item, if it refers to another one."""
        return item if _is(item, "item_reference") else None

    @classmethod
    def maybe_reasoning_message(cls, item: Any) -> Any:
        """The item, if it is reasoning."""
        return item if _is(item, "reasoning") else None

    @classmethod
    def extract_all_content(cls, content: Any) -> Any:
        """Parts of a user's message."""
        if isinstance(content, str):
            return content
        return [_part(each) for each in content]

    @classmethod
    def extract_text_content(cls, content: Any) -> Any:
        """The same, text only."""
        parts = cls.extract_all_content(content)
        if isinstance(parts, str):
            return parts
        return [part for part in parts if part["type"] == "text"]

    @classmethod
    def items_to_messages(
        cls,
        items: str | Iterable[Any],
        model: str | None = None,
        preserve_thinking_blocks: bool = False,
        preserve_tool_output_all_content: bool = False,
        base_url: str | None = None,
        should_replay_reasoning_content: ShouldReplayReasoningContent | None = None,
        strict_feature_validation: bool = False,
    ) -> list[Any]:
        """Items as messages; what an assistant said and called in a row is one message."""
        if isinstance(items, str):
            return [{"role": "user", "content": items}]
        replays = should_replay_reasoning_content or default_should_replay_reasoning_content
        built = _Messages()
        for item in map(_as_dict, items):
            kind = item.get("type") or ("message" if "role" in item else None)
            if kind == "message" and item.get("role") == "assistant":
                built.answer(item)
            elif kind == "message":
                role = item["role"]
                read = cls.extract_all_content if role == "user" else cls.extract_text_content
                built.add({"role": role, "content": read(item["content"])})
            elif kind == "function_call":
                built.call(_call_of(item, model or ""))
            elif kind == "file_search_call":
                built.assistant().setdefault("tool_calls", []).append(_search_of(item))
            elif kind == "function_call_output":
                output = item["output"]
                if not isinstance(output, str):
                    output = (
                        cls.extract_all_content(output)
                        if preserve_tool_output_all_content
                        else cls.extract_text_content(output)
                    ) or _omitted(item, is_refused=strict_feature_validation)
                built.add({"role": "tool", "tool_call_id": item["call_id"], "content": output})
            elif kind == "reasoning":
                data = item.get("provider_data") or {}
                source = ReasoningContentSource(item, data.get("model"), data)
                context = ReasoningContentReplayContext(model or "", base_url, source)
                built.reasoning = _replayed(item) if replays(context) else {}
                if preserve_thinking_blocks and data.get("thinking_blocks"):
                    built.reasoning["thinking_blocks"] = data["thinking_blocks"]
            else:
                raise _unsupported(kind, item)
        return built.messages


class _Messages:
    """Messages in the order of the items. The text and the calls of an assistant that follow each
    other are one message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.reasoning: dict[str, Any] = {}
        """The reasoning for the next message of the assistant."""
        self._open: dict[str, Any] | None = None

    def add(self, message: dict[str, Any]) -> None:
        """Add a message that is not from the assistant."""
        self._open = None
        self.messages.append(message)

    def assistant(self) -> dict[str, Any]:
        """The assistant's current message."""
        if self._open is None:
            self._open = {"role": "assistant"}
            self.messages.append(self._open)
        self._open |= self.reasoning
        self.reasoning = {}
        return self._open

    def answer(self, item: Mapping[str, Any]) -> None:
        """Add a text of the assistant."""
        if self._open is None or "tool_calls" not in self._open or self._open.get("content"):
            self._open = None
        self.assistant().update(_assistant_content(item["content"]))

    def call(self, call: dict[str, Any]) -> None:
        """Add a function call of the assistant."""
        message = self.assistant()
        message.setdefault("content", None)
        message.setdefault("tool_calls", []).append(call)


def _unsupported(kind: str | None, item: Mapping[str, Any]) -> UserError:
    if kind == "item_reference":
        return UserError(f"Encountered an item_reference, which is not supported: {item}")
    if kind == "compaction":
        return UserError(f"Compaction items are not supported for {_BACKEND}")
    return UserError(f"Unhandled item type or structure: {item}")


def _as_dict(item: Any) -> dict[str, Any]:
    if isinstance(item, dict):
        return item
    if not hasattr(item, "model_dump"):
        raise UserError(f"Unhandled item type or structure: {item}")
    return dict(input_list([item])[0])


def _call_of(item: dict[str, Any], model: str) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"] or "{}"}
    call = {"id": item["call_id"], "type": "function", "function": function}
    signature = (item.get("provider_data") or {}).get("thought_signature")
    if signature and "gemini" in model.lower():
        call["extra_content"] = {"google": {"thought_signature": signature}}
    return call


def _search_of(item: dict[str, Any]) -> dict[str, Any]:
    """A search in files, which chat completions do not know, as a call of a function."""
    search = {"queries": item.get("queries", []), "status": item.get("status")}
    function = {"name": "file_search_call", "arguments": json.dumps(search)}
    return {"id": item["id"], "type": "function", "function": function}


def _of_provider(item: Any, provider_data: dict[str, Any] | None) -> Any:
    if provider_data:
        item.provider_data = provider_data
    return item


def _is(item: Any, kind: str | None) -> bool:
    return isinstance(item, dict) and item.get("type") == kind


def _reasoning(message: Any, provider_data: dict[str, Any] | None) -> Any:
    """What the model thought, in whichever field the provider has it; `None` for nothing."""
    summary = getattr(message, "reasoning_content", None)
    given = getattr(message, "thinking_blocks", None)
    blocks = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    plain = None if summary or blocks else getattr(message, "reasoning", None)
    if not (summary or blocks or plain):
        return None
    data = dict(provider_data or {})
    texts = [plain] if plain else [each["thinking"] for each in blocks if each.get("thinking")]
    if plain:
        data["reasoning_field"] = "reasoning"
    if blocks:
        data["thinking_blocks"] = blocks
    signatures = [each["signature"] for each in blocks if each.get("signature")]
    item = ResponseReasoningItem(
        id=FAKE_RESPONSES_ID,
        summary=[Summary(text=str(summary), type="summary_text")] if summary else [],
        content=[Content(text=str(each), type="reasoning_text") for each in texts] or None,
        encrypted_content="\n".join(signatures) or None,
        type="reasoning",
    )
    return _of_provider(item, data)


def _replayed(item: dict[str, Any]) -> dict[str, Any]:
    """Reasoning as the field of a message that it came in."""
    data = item.get("provider_data") or {}
    key = data.get("reasoning_field", "reasoning_content")
    parts = item.get("summary") if key == "reasoning_content" else item.get("content")
    text = "".join(part.get("text", "") for part in parts or ())
    return {key: text} if text else {}


def thought_signature(call: Any) -> dict[str, Any]:
    """Gemini's signature of a call, where Google and LiteLLM put it."""
    extra = getattr(call, "extra_content", None) or {}
    fields = getattr(call, "provider_specific_fields", None) or {}
    found = (extra.get("google") or {}).get("thought_signature") or fields.get("thought_signature")
    return {"thought_signature": found} if found else {}


def _omitted(item: dict[str, Any], *, is_refused: bool) -> str:
    if is_refused:
        raise UserError(
            f"Output of {item['call_id']} cannot be empty or contain only non-text content with "
            f"{_BACKEND}; return text, or use a Responses model"
        )
    logger.warning("Replacing the tool output with a placeholder: %s", item["call_id"])
    return _OMITTED


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kept = "prompt_cache_breakpoint"
    return _content(part) | ({kept: part[kept]} if kept in part else {})


def _content(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part["text"]}
    if kind == "image_url":
        return {"type": "image_url", "image_url": part["image_url"]}
    if kind == "input_image":
        if not part.get("image_url"):
            raise UserError(f"Only image URLs are supported for input_image {part}")
        url = {"url": part["image_url"], "detail": part.get("detail") or "auto"}
        return {"type": "image_url", "image_url": url}
    if kind == "input_audio":
        audio = part.get("input_audio") or {}
        if not audio.get("data") or not audio.get("format"):
            raise UserError(f"input_audio needs data and format: {part}")
        return {"type": "input_audio", "input_audio": audio}
    if kind == "input_file":
        source = next((key for key in ("file_data", "file_id") if part.get(key)), None)
        if source is None:
            raise UserError(f"Only file_data and file_id are supported for input_file {part}")
        known = {key: part[key] for key in (source, "filename") if part.get(key)}
        return {"type": "file", "file": known}
    raise UserError(f"Unknown content: {part}")


def _assistant_content(content: Any) -> dict[str, Any]:
    if isinstance(content, str):
        return {"content": content}
    texts, said = [], {}
    for part in content:
        if part.get("type") == "refusal":
            said["refusal"] = part["refusal"]
        elif part.get("type") == "output_audio":
            raise UserError(f"Only audio IDs are supported for chat completions, but got: {part}")
        else:
            texts.append(part["text"])
    return {**({"content": "\n".join(texts)} if texts else {}), **said}


__getattr__ = placeholders(__name__)
