"""Between the items of the Responses API and the messages of Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from openai import omit
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from ekiden.compat.agents.exceptions import UserError
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
from ekiden.compat.agents.tool import FunctionTool

__all__ = ["Converter"]


class Converter:
    """Items, tools and settings as parameters of Chat Completions, and answers as items."""

    @classmethod
    def convert_tool_choice(cls, tool_choice: Any) -> Any:
        """The tool that the model has to call, or how free it is."""
        if tool_choice is None:
            return omit
        if isinstance(tool_choice, MCPToolChoice):
            raise UserError("MCPToolChoice is not supported for Chat Completions models")
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
        reasoning = getattr(message, "reasoning_content", None) or getattr(
            message, "reasoning", None
        )
        if reasoning:
            summary = [Summary(text=str(reasoning), type="summary_text")]
            item = ResponseReasoningItem(id=FAKE_RESPONSES_ID, summary=summary, type="reasoning")
            items.append(_of_provider(item, provider_data))
        content: list[Any] = []
        if message.content:
            content.append(
                ResponseOutputText(text=message.content, type="output_text", annotations=[])
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
                raise UserError(f"the model called a tool of the kind {call.type!r}")
            made = ResponseFunctionToolCall(
                id=FAKE_RESPONSES_ID,
                call_id=call.id,
                arguments=call.function.arguments,
                name=call.function.name,
                type="function_call",
            )
            items.append(_of_provider(made, provider_data))
        return items

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
        messages: list[dict[str, Any]] = []
        open_: dict[str, Any] | None = None
        reasoning: str | None = None

        def assistant() -> dict[str, Any]:
            nonlocal open_, reasoning
            if open_ is None:
                open_ = {"role": "assistant"}
                messages.append(open_)
            if reasoning is not None:
                open_["reasoning_content"], reasoning = reasoning, None
            return open_

        for item in items:
            if not isinstance(item, dict):
                item = input_list([item])[0]
            kind = item.get("type") or ("message" if "role" in item else None)
            if kind == "message" and item.get("role") == "assistant":
                open_ = None
                assistant().update(_assistant_content(item["content"]))
            elif kind == "message":
                open_ = None
                role = item["role"]
                content = item["content"]
                read = cls.extract_all_content if role == "user" else cls.extract_text_content
                messages.append({"role": role, "content": read(content)})
            elif kind == "function_call":
                message = assistant()
                message.setdefault("content", None)
                function = {"name": item["name"], "arguments": item["arguments"] or "{}"}
                call = {"id": item["call_id"], "type": "function", "function": function}
                message.setdefault("tool_calls", []).append(call)
            elif kind == "file_search_call":
                message = assistant()
                search = {"queries": item.get("queries", []), "status": item.get("status")}
                function = {"name": "file_search_call", "arguments": json.dumps(search)}
                call = {"id": item["id"], "type": "function", "function": function}
                message.setdefault("tool_calls", []).append(call)
            elif kind == "function_call_output":
                open_ = None
                output = item["output"]
                if not isinstance(output, str):
                    output = (
                        cls.extract_all_content(output)
                        if preserve_tool_output_all_content
                        else cls.extract_text_content(output)
                    )
                message = {"role": "tool", "tool_call_id": item["call_id"], "content": output}
                messages.append(message)
            elif kind == "reasoning":
                text = "".join(part.get("text", "") for part in item.get("summary") or ())
                data = item.get("provider_data") or {}
                source = ReasoningContentSource(item, data.get("model"), data)
                context = ReasoningContentReplayContext(model or "", base_url, source)
                reasoning = text if text and replays(context) else None
            elif kind == "item_reference":
                raise UserError(f"Encountered an item_reference, which is not supported: {item}")
            elif kind != "compaction":
                raise UserError(f"Unhandled item type or structure: {item}")
            else:
                raise UserError("Compaction items are not supported for Chat Completions models")
        return messages


def _of_provider(item: Any, provider_data: dict[str, Any] | None) -> Any:
    if provider_data:
        item.provider_data = provider_data
    return item


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image":
        if not part.get("image_url"):
            raise UserError(f"Only image URLs are supported for input_image {part}")
        url = {"url": part["image_url"], "detail": part.get("detail") or "auto"}
        return {"type": "image_url", "image_url": url}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part["input_audio"]}
    if kind == "input_file":
        known = {key: part[key] for key in ("file_data", "file_id", "filename") if part.get(key)}
        if not known:
            raise UserError(f"Only file_data and file_id are supported for input_file {part}")
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
