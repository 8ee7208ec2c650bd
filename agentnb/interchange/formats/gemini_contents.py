"""Google's ``generateContent`` in recorded exchanges: requests with ``contents``, responses with ``candidates``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentnb.core.messages import AnyPart, Text, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.interchange.formats.exchanges import Api, tool_specs
from agentnb.interchange.formats.message_content import (
    as_list,
    first_at,
    json_text,
    parts_of,
    picture,
    str_at,
    time_at,
    value_at,
)
from agentnb.interchange.formats.steps import Reply, Result, Step, UserMessage, system_steps, thinking
from agentnb.models.providers.serialization import count, object_of

NAME = "gemini_contents"


def is_content(value: Any) -> bool:
    """True if this is an entry of ``contents``: a list of parts with the role user or model."""
    if not isinstance(value, dict) or value.get("role", "user") not in ("user", "model", "function"):
        return False
    parts = value.get("parts")
    return isinstance(parts, list) and all(isinstance(part, dict) for part in parts)


def is_conversation(value: Any) -> bool:
    """True if this is a list of ``contents`` entries."""
    return isinstance(value, list) and bool(value) and all(is_content(content) and "role" in content for content in value)


def is_request(body: Any) -> bool:
    """True if this is a request body."""
    contents = value_at(body, "contents")
    return isinstance(contents, list) and bool(contents) and all(is_content(content) for content in contents)


def is_response(body: Any) -> bool:
    """True if this is a response body."""
    candidates = value_at(body, "candidates")
    return isinstance(candidates, list) and bool(candidates) and isinstance(candidates[0], dict)


def request_steps(body: dict[str, Any]) -> list[Step]:
    """Return the steps of a request: its system instruction and contents."""
    system = first_at(body, "systemInstruction", "system_instruction") or {}
    text = "\n\n".join(str_at(part, "text") for part in system.get("parts") or ())
    return [*system_steps(text), *steps_of(body["contents"])]


def steps_of(contents: Iterable[dict[str, Any]]) -> list[Step]:
    """Return the steps of ``contents`` entries."""
    steps: list[Step] = []
    for content in contents:
        parts = content.get("parts") or []
        if content.get("role") == "model":
            steps.append(reply_of(parts))
            continue
        answers = [item["functionResponse"] for item in parts if "functionResponse" in item]
        steps += [_result(item) for item in answers]
        visible = [part for item in parts for part in parts_shown(item)]
        steps += [UserMessage(visible)] if visible or not answers else []
    return steps


def reply_of(parts: Iterable[dict[str, Any]], **about: Any) -> Reply:
    """Return the model's reply with these parts."""
    parts = list(parts)
    visible = [part for item in parts for part in parts_shown(item)]
    return Reply(visible, [_call(item["functionCall"]) for item in parts if "functionCall" in item], **about)


def parts_shown(part: dict[str, Any]) -> list[AnyPart]:
    """Return the parts to show; empty for calls and their results."""
    if isinstance(part.get("text"), str):
        return thinking(part["text"]) if part.get("thought") else parts_of(part["text"])
    data = first_at(part, "inlineData", "inline_data")
    if isinstance(data, dict):
        kind = str_at(data, "mimeType", "mime_type")
        image = picture(kind, data.get("data")) if kind.startswith("image/") else Text(f"[file: {kind}]")
        return [image] if image is not None else []
    if isinstance(linked := part.get("fileData"), dict):
        return [Text(f"[file: {linked.get('fileUri')}]")]
    if isinstance(code := part.get("executableCode"), dict):
        return [Text(f"```\n{code.get('code')}\n```")]
    if isinstance(ran := part.get("codeExecutionResult"), dict):
        return [Text(f"```\n{ran.get('output')}\n```")]
    return []


def _call(made: dict[str, Any]) -> ToolCall:
    return ToolCall(str_at(made, "name"), made.get("args"), str_at(made, "id"))


def _result(made: dict[str, Any]) -> Result:
    response = made.get("response")
    plain = response if not isinstance(response, dict) or len(response) != 1 else next(iter(response.values()))
    is_error = isinstance(response, dict) and set(response) == {"error"}
    return Result(str_at(made, "id"), parts_of(json_text(plain)), str_at(made, "name"), is_error)


def response_steps(body: dict[str, Any]) -> list[Step]:
    """Return the reply in a response's first candidate."""
    candidate = body["candidates"][0]
    content = candidate.get("content") or {}
    kept = {"model": body["modelVersion"]} if isinstance(body.get("modelVersion"), str) else {}
    stop, at = str_at(candidate, "finishReason"), time_at(body, "createTime")
    return [
        reply_of(content.get("parts") or (), at=at, usage=usage_of(body.get("usageMetadata")), stop_reason=stop, metadata=kept)
    ]


def usage_of(usage: Any) -> Usage:
    """Return the reported usage. Unlike the API, agentnb includes thinking in the output."""
    usage = object_of(usage)
    output, thought = count(usage.get("candidatesTokenCount")), count(usage.get("thoughtsTokenCount"))
    return Usage(
        input=count(usage.get("promptTokenCount")),
        output=output if thought is None else (output or 0) + thought,
        cache_read=count(usage.get("cachedContentTokenCount")),
        reasoning=thought,
    )


def tools_of(tools: Any) -> tuple[ToolSpec, ...]:
    """Return the tools of a request: its function declarations."""
    groups = as_list(tools)
    functions = [
        function
        for group in groups
        if isinstance(group, dict)
        for function in first_at(group, "functionDeclarations", "function_declarations") or ()
    ]
    return tool_specs(functions)


API = Api(
    name=NAME,
    lacks="it has no generateContent contents and parts",
    is_request=is_request,
    is_conversation=is_conversation,
    is_response=is_response,
    request_steps=request_steps,
    steps_of=steps_of,
    response_steps=response_steps,
    tools_of=lambda request, response: tools_of(request.get("tools")),
)
