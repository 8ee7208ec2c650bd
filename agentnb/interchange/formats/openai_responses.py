"""OpenAI's Responses API: requests, responses and lists of items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentnb.core.messages import AnyPart, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.detect.run import Run
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.api_records import read_records, sniff_records
from agentnb.interchange.formats.exchanges import Api
from agentnb.interchange.formats.message_content import (
    as_list,
    first_at,
    json_text,
    parts_of,
    picture,
    result_parts,
    str_at,
    strings_of,
    text_of,
    time_at,
    value_at,
)
from agentnb.interchange.formats.steps import ReplyPieces, Result, Step, SystemPrompt, UserMessage, system_steps, thinking
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.chat_chunks import read_usage
from agentnb.models.providers.openai_responses import NAME as OWN

NAME = "openai_responses"
TITLE = "items of OpenAI's Responses API"
RECORDS_END = "the last `status`"
_INSIDE = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "hosted_tool_call"}
)
"""Calls that the API itself runs; their items include the result."""
_CALLS = _INSIDE | {
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "tool_search_call",
    "mcp_approval_request",
    "program",
}
_RESULTS = frozenset(
    {
        *("function_call_output", "custom_tool_call_output", "computer_call_output", "local_shell_call_output"),
        *("shell_call_output", "apply_patch_call_output", "tool_search_output", "program_output"),
        *("function_call_result", "computer_call_result", "shell_call_result", "mcp_approval_response"),
    }
)
_SILENT = frozenset({"mcp_list_tools", "item_reference", "compaction", "compaction_summary"})
_ITEMS = _CALLS | _RESULTS | _SILENT | {"message", "reasoning"}
_GIVEN = ("arguments", "input", "action", "actions", "operation", "code", "queries")
"""Fields that may hold the arguments of a call; a value that is not an object becomes an argument named after the field."""
_RETURNED = ("output", "result", "results", "outputs", "tools")
_FAILED = frozenset({"failed", "error"})


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    return sniff_records(file, API)


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation. Requests that repeat a growing conversation are combined into one run."""
    yield from read_records(file, API)


# Recognition


def is_item(value: Any) -> bool:
    """True if this is an item in a conversation: a message, a call, a result or reasoning."""
    return isinstance(value, dict) and (value.get("type") in _ITEMS or _is_plain(value))


def _is_plain(value: dict[str, Any]) -> bool:
    return "type" not in value and openai_chat.is_message(value) and value["role"] not in ("tool", "function")


def is_conversation(value: Any) -> bool:
    """True if this is a list of items, at least one of which has a form that only this API writes."""
    if not isinstance(value, list) or not all(is_item(item) for item in value):
        return False
    return any(item.get("type") in _ITEMS and ("role" in item or item["type"] != "message") for item in value)


def is_request(body: Any) -> bool:
    """True if this is a request body."""
    if not isinstance(body, dict) or "output" in body or "messages" in body:
        return False
    request_input = body.get("input")
    if isinstance(request_input, str):
        return isinstance(body.get("model"), str) and not body.keys() & {"encoding_format", "dimensions", "voice"}
    return isinstance(request_input, list) and bool(request_input) and all(is_item(item) for item in request_input)


def is_response(body: Any) -> bool:
    """True if this is a response body."""
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        return False
    return body.get("object") == "response" or (bool(body["output"]) and all(is_item(item) for item in body["output"]))


def request_steps(body: dict[str, Any]) -> list[Step]:
    """Return the steps of a request: its instructions and input."""
    instructions = body.get("instructions")
    if not isinstance(instructions, str):
        instructions = "\n\n".join(text_of(item.get("content")) for item in instructions or ())
    asked = body["input"]
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    return [*system_steps(instructions), *steps_of(items)]


# Items


def steps_of(items: Iterable[dict[str, Any]], author: str = "") -> list[Step]:
    """Return the steps of items. Consecutive items from the model form one reply."""
    pieces, steps = ReplyPieces(author), list[Step]()
    for item in items:
        kind = item.get("type", "message")
        if kind in _SILENT:
            continue
        if is_of_model(item):
            take_item(pieces, item)
        else:
            steps += [*pieces.steps(), *_others_step(item)]
    return [*steps, *pieces.steps()]


def is_of_model(item: dict[str, Any]) -> bool:
    """True if the model created this item."""
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else kind not in _RESULTS


def take_item(pieces: ReplyPieces, item: dict[str, Any]) -> None:
    """Add an item from the model."""
    kind = item.get("type", "message")
    if kind == "message":
        pieces.say(parts_of(item.get("content")))
    elif kind == "reasoning":
        pieces.say(_reasoning(item))
    elif kind in _CALLS or kind.endswith("_call"):
        call = call_of(item)
        pieces.call(call, _result_inside(call, item) if kind in _INSIDE else None)


def _others_step(item: dict[str, Any]) -> list[Step]:
    kind, role, at = item.get("type", "message"), item.get("role"), time_at(item)
    if kind == "message":
        parts = parts_of(item.get("content"))
        return [SystemPrompt(text_of(item.get("content")))] if role in ("system", "developer") else [UserMessage(parts, at=at)]
    return [result_of(item)]


def _reasoning(item: dict[str, Any]) -> list[AnyPart]:
    entries = [*_list(item.get("summary")), *_list(item.get("content"))]
    texts = [entry if isinstance(entry, str) else str_at(entry, "text") for entry in entries]
    own = {key: value for key, value in item.items() if key != "status" and value is not None}
    return thinking("\n\n".join(filter(None, texts)), {OWN: own} if item.get("encrypted_content") else None)


def _list(value: Any) -> list[Any]:
    return as_list(value) if isinstance(value, list | str) else []


def call_of(item: dict[str, Any]) -> ToolCall:
    """Return the call in an item. Calls of server-side tools are given the tool's name, such as ``web_search``."""
    kind = item["type"]
    name = item.get("name") or kind.removesuffix("_call")
    field = next(((key, item[key]) for key in _GIVEN if item.get(key) is not None), None)
    arguments: Any = {}
    if field is not None:
        key, value = field
        arguments = value if isinstance(value, dict) or key == "arguments" else {key: value}
    elif kind == "image_generation_call" and item.get("revised_prompt"):
        arguments = {"prompt": item["revised_prompt"]}
    if kind == "mcp_approval_request":
        name, arguments = kind, {"name": item.get("name"), "arguments": arguments, "server": item.get("server_label")}
    metadata = {key: item[key] for key in ("server_label", "caller", "namespace") if item.get(key)}
    own = {SERVER_SIDE: {"type": kind, **metadata}} if kind in _INSIDE else {NAME: metadata} if metadata else None
    return ToolCall(str(name), arguments, _id_of(item), own)


def _id_of(item: dict[str, Any]) -> str:
    return str_at(item, "call_id", "callId", "approval_request_id", "id")


def _result_inside(call: ToolCall, item: dict[str, Any]) -> Result:
    failed, error = item.get("status") in _FAILED, item.get("error")
    if error:
        return Result(call.id, result_parts(_error_text(error)), call.name, is_error=True, inside=True)
    if item["type"] == "image_generation_call" and isinstance(item.get("result"), str):
        image = picture(f"image/{item.get('output_format') or 'png'}", item["result"])
        return Result(call.id, [image] if image is not None else [], call.name, is_error=failed, inside=True)
    output: Any = next((item[key] for key in _RETURNED if item.get(key)), None)
    if output is None and isinstance(action := item.get("action"), dict):
        output = action.get("sources")
    return Result(call.id, _output_parts(output), call.name, is_error=failed, inside=True)


def _error_text(error: Any) -> str:
    return str(error.get("message") or json_text(error)) if isinstance(error, dict) else str(error)


def result_of(item: dict[str, Any]) -> Result:
    """Return the result in an item."""
    if item["type"] == "mcp_approval_response":
        answer = "approved" if item.get("approve") else f"denied {item.get('reason') or ''}".strip()
        return Result(_id_of(item), parts_of(answer))
    output = next((item[key] for key in _RETURNED if key in item), None)
    is_error = item.get("status") in _FAILED or bool(item.get("error"))
    return Result(_id_of(item), _output_parts(output), str_at(item, "name"), is_error, time_at(item))


def _output_parts(value: Any) -> list[AnyPart]:
    """Return the parts of a call's output, which may be text, parts, logs or shell output."""
    if value_at(value, "type") == "computer_screenshot":
        value = {**value, "type": "input_image"}
    entries = value if isinstance(value, list) else []
    logs = [entry for entry in entries if isinstance(entry, dict) and (entry.get("type") == "logs" or "stdout" in entry)]
    if logs and len(logs) == len(entries):
        texts = [str(entry.get(key) or "") for entry in logs for key in ("logs", "stdout", "stderr")]
        return parts_of("\n".join(filter(None, texts)))
    return result_parts(value)


# Responses


def response_steps(body: dict[str, Any]) -> list[Step]:
    """Return the reply in a response, with the results of server-side calls."""
    kept = strings_of(body, "id", "model")
    items = [item for item in body["output"] if item.get("type", "message") not in _SILENT]
    pieces = ReplyPieces("", time_at(body, "created_at"))
    for item in items:
        if is_of_model(item):
            take_item(pieces, item)
        else:
            pieces.result(result_of(item)._replace(inside=True))
    if annotations := [note for item in items for note in _annotations(item)]:
        kept["annotations"] = annotations
    return pieces.steps(usage=read_usage(body.get("usage")), stop_reason=_stop(body, items), metadata=kept)


def _annotations(item: dict[str, Any]) -> list[Any]:
    contents = item.get("content") if item.get("type", "message") == "message" else None
    return [note for content in _list(contents) if isinstance(content, dict) for note in content.get("annotations") or ()]


def _stop(body: dict[str, Any], items: list[dict[str, Any]]) -> str:
    contents = [content for item in items for content in _list(item.get("content")) if isinstance(content, dict)]
    if any(content.get("type") == "refusal" for content in contents):
        return "refusal"
    return str(value_at(body, "incomplete_details", "reason") or body.get("status") or "")


def tools_of(request: dict[str, Any], response: dict[str, Any]) -> tuple[ToolSpec, ...]:
    """Return the tools in a request, and those that its MCP servers listed in the response."""
    own = [tool for tool in request.get("tools") or response.get("tools") or () if isinstance(tool, dict)]
    mcp_tools = [
        tool for item in response.get("output") or () if item.get("type") == "mcp_list_tools" for tool in item["tools"]
    ]
    plain = [{"name": tool["type"], **tool} for tool in own if tool.get("type") not in ("mcp", None)]
    definitions = [{**tool, "parameters": first_at(tool, "parameters", "input_schema")} for tool in [*plain, *mcp_tools]]
    return openai_chat.tools_of(definitions)


API = Api(
    name=NAME,
    lacks="it has no items, input or output of the Responses API",
    is_request=is_request,
    is_conversation=is_conversation,
    is_response=is_response,
    request_steps=request_steps,
    steps_of=steps_of,
    response_steps=response_steps,
    tools_of=tools_of,
)
